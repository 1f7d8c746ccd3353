'use strict'

const { CODE, detail } = require('./bridge')
const {
  LOSSES,
  LockClosedError,
  LockLostError,
  LockTimeoutError,
  LockUnavailableError,
  LockWrongTypeError,
} = require('./errors')

/** @type {('spinning' | 'queued' | 'connecting')[]} */
const PHASES = ['spinning', 'queued', 'connecting']

/**
 * Why an acquisition didn't come to a lock.
 * @param {{ wanted: string | readonly string[], manager: import('./inner').Inner, slot: number }} claim
 * @param {number} code
 * @param {number} a
 * @param {number} b
 * @param {number} c
 */
function refusal({ wanted, manager, slot }, code, a, b, c) {
  switch (code) {
    case CODE.BUSY:
    case CODE.TIMED_OUT: {
      const { holder } = detail(slot, code)
      return new LockTimeoutError(wanted, { waited: a, attempts: b, phase: PHASES[c], holder })
    }
    case CODE.WRONG_TYPE:
      return new LockWrongTypeError(wanted, detail(slot, code))
    case CODE.CLOSED:
      return new LockClosedError(wanted)
    case CODE.LOST:
      return new LockLostError(wanted, LOSSES[a])
    default:
      return new LockUnavailableError(manager.place, detail(slot, code), { wanted })
  }
}

module.exports = { refusal }
