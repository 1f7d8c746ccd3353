'use strict'

const { CODE, begin, detail, end, flushSoon, freeSlot, takeSlot, takeValue } = require('../bridge')
const { LockClosedError, LockUnavailableError } = require('../errors')
const { promise } = require('../promise')
const { NOTHING, isNothing } = require('./codec')

// Calls of the addon about cached values.

/** @typedef {import('../inner').Inner} Inner */
/** @typedef {import('./codec').Codec} Codec */

/**
 * A value as it was found: how it is written, how long it is fresh, ms (below 0: it hasn't been for so long), how long its
 * load took, ms.
 * @typedef {import('./codec').Written & { fresh: number, spent: number }} Entry
 */

/**
 * What a call came to: an entry, or why there is none.
 * @typedef {{ entry?: Entry, state: 'found' | 'absent' | 'taken' | 'backs off' | 'failed' | 'nothing' | 'done' | 'not done' |
 *   'foreign' | 'unavailable' | 'closed', words?: string, kind?: number, error?: Error }} Answer
 */

class Call {
  /**
   * @param {Inner} inner
   * @param {string} key full key of the value
   * @param {Codec} codec
   */
  constructor(inner, key, codec) {
    this.inner = inner
    this.key = key
    this.codec = codec
    this.resolve = promise.resolve
    this.slot = takeSlot(this)
    begin()
    flushSoon(inner.number)
  }

  /**
   * @param {number} code
   * @param {number} a
   * @param {number} b
   * @param {number} c
   */
  settle(code, a, b, c) {
    const answer = answerOf(this, code, a, b, c)
    this.done()
    this.resolve(answer)
  }

  done() {
    freeSlot(this.slot)
    end()
  }
}

/**
 * @param {{ inner: Inner, slot: number, key: string, codec: Codec }} call
 * @param {number} code
 * @param {number} a
 * @param {number} b
 * @param {number} c
 * @returns {Answer}
 */
function answerOf({ inner, slot, key, codec }, code, a, b, c) {
  switch (code) {
    case CODE.FOUND:
      return { state: 'found', entry: takeEntry(slot, codec, a, b, c) }
    case CODE.ABSENT:
      return { state: 'absent' }
    case CODE.LOADING:
      return { state: 'taken' }
    case CODE.BACKS_OFF:
      return { state: 'backs off', words: detail(slot, code).message }
    case CODE.LOAD_FAILED:
      return { state: 'failed', words: detail(slot, code).message }
    case CODE.NOTHING:
      return { state: 'nothing', kind: a }
    case CODE.DONE:
      return { state: a === 1 ? 'done' : 'not done' }
    case CODE.FOREIGN:
      return { state: 'foreign', error: foreign(key) }
    case CODE.CLOSED:
      return { state: 'closed', error: new LockClosedError(key) }
    case CODE.WRONG_TYPE:
      return { state: 'foreign', error: foreign(key, detail(slot, code)) }
    default:
      return { state: 'unavailable', error: new LockUnavailableError(inner.place, detail(slot, code)) }
  }
}

/**
 * @param {number} slot
 * @param {Codec} codec
 * @param {number} fresh
 * @param {number} spent
 * @param {number} kind
 * @returns {Entry}
 */
function takeEntry(slot, codec, fresh, spent, kind) {
  const payload = takeValue(slot, codec.text)
  return { kind, payload: isNothing(kind) ? NOTHING : payload, fresh, spent }
}

/**
 * @param {string} key
 * @param {{ code?: string, message?: string }} [trouble]
 */
function foreign(key, trouble) {
  const cause = trouble && Object.assign(new Error(trouble.message), { code: trouble.code })
  return new Error(`the key '${key}' holds data that is no cached value, and is left as it is`, { cause })
}

/** @returns {Answer} */
function closed() {
  return { state: 'closed', error: new LockClosedError() }
}

/**
 * @param {Inner} inner
 * @param {string} key
 * @param {Codec} codec
 * @param {(addon: any, number: number, call: Call) => void} ask
 * @returns {Promise<Answer>}
 */
function called(inner, key, codec, ask) {
  if (inner.left) return Promise.resolve(closed())
  const promised = new Promise(promise.capture)
  ask(inner.addon, inner.number, new Call(inner, key, codec))
  return promised
}

/**
 * The value, fresh or not.
 * @param {Inner} inner
 * @param {string} key
 * @param {Codec} codec
 */
function read(inner, key, codec) {
  return called(inner, key, codec, (addon, number, { slot }) => addon.readValue(number, slot, key))
}

/**
 * Whether the holder of a lock is to load the value at all.
 * @param {Inner} inner
 * @param {string} key
 * @param {Codec} codec
 * @param {string} lock
 * @param {number} claim
 * @param {boolean} backsOff
 */
function look(inner, key, codec, lock, claim, backsOff) {
  return called(inner, key, codec, (addon, number, { slot }) =>
    addon.lookForValue(number, slot, key, lock, claim, backsOff),
  )
}

/**
 * Waits for somebody else's load. `forget` ends the wait, which is then never answered.
 * @param {Inner} inner
 * @param {string} key
 * @param {Codec} codec
 * @param {string} lock
 * @param {boolean} backsOff
 */
function wait(inner, key, codec, lock, backsOff) {
  if (inner.left) return { answer: Promise.resolve(closed()), forget: () => {} }
  /** @type {Promise<Answer>} */
  const answer = new Promise(promise.capture)
  const call = new Call(inner, key, codec)
  const name = inner.addon.lookForValue(inner.number, call.slot, key, lock, -1, backsOff)
  const forget = () => {
    if (inner.addon.forgetValue(inner.number, name)) call.done()
  }
  return { answer, forget }
}

/**
 * Ends the load of a lock's holder and gives the lock back. `undefined`: the lock wasn't held any more.
 * @param {Inner} inner
 * @param {string} key
 * @param {Codec} codec
 * @param {import('../claim').Claim} claim
 * @param {(addon: any, number: number, slot: number, claim: number) => boolean} end
 * @returns {Promise<Answer | undefined>}
 */
function endLoad(inner, key, codec, claim, end) {
  if (inner.left) return Promise.resolve(undefined)
  /** @type {Promise<Answer>} */
  const answer = new Promise(promise.capture)
  const call = new Call(inner, key, codec)
  if (claim.releaseBy((id) => end(inner.addon, inner.number, call.slot, id))) return answer
  call.done()
  return Promise.resolve(undefined)
}

module.exports = { answerOf, called, endLoad, look, read, wait }
