'use strict'

const { keepBeating } = require('./beat')
const { begin, flushSoon, takeSlot } = require('./bridge')
const { Claim } = require('./claim')
const { promise } = require('./promise')
const { bounded, terms } = require('./terms')

// How acquisitions begin.

/** @typedef {import('./lock').Lock} Lock */
/** @typedef {import('./options').CallOptions} CallOptions */

/**
 * Begins an acquisition.
 * @param {import('./inner').Inner} manager
 * @param {string | readonly string[]} wanted
 * @param {CallOptions} options
 * @param {boolean} once
 */
function claim(manager, wanted, options, once) {
  const { signal } = options
  if (signal?.aborted) return Promise.reject(signal.reason)
  const promised = new Promise(promise.capture)
  const made = new Claim(manager, wanted, options, once)
  if (signal) made.listen(signal)
  if (options.captureStacks) captureStack(made)
  made.slot = takeSlot(made)
  keepBeating(options.maxStall)
  begin()
  made.ask(bounded(options.timeout))
  return promised
}

/**
 * Begins to turn a ticket into a lock.
 * @param {import('./inner').Inner} manager
 * @param {import('../index').Ticket & { owner?: string }} ticket
 * @param {CallOptions} options
 * @returns {Promise<Lock>}
 */
function adopt(manager, ticket, options) {
  const { keys, token, fencingToken, owner } = ticket
  const promised = new Promise(promise.capture)
  const made = new Claim(manager, keys.length === 1 ? keys[0] : keys, { ...options, owner }, false)
  made.adopts = true
  if (options.captureStacks) captureStack(made)
  made.slot = takeSlot(made)
  keepBeating(options.maxStall)
  const lock = { keys, owner }
  made.id = manager.addon.adopt(manager.number, made.slot, lock, terms(options), token, fencingToken)
  begin()
  flushSoon(manager.number)
  return promised
}

/** @param {Claim} made */
function captureStack(made) {
  const at = { stack: '' }
  Error.captureStackTrace(at, captureStack)
  made.stack = at.stack
}

module.exports = { adopt, claim }
