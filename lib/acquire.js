'use strict'

const { keepBeating } = require('./beat')
const { begin, flushSoon, takeSlot } = require('./bridge')
const { Claim } = require('./claim')
const { promise } = require('./promise')

// How acquisitions begin.

const ONCE = 1
const RENEWED = 2

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
  const { signal, timeout, ttl } = options
  if (signal?.aborted) return Promise.reject(signal.reason)
  const promised = new Promise(promise.capture)
  const made = new Claim(manager, wanted, options, once)
  if (signal) made.listen(signal)
  if (options.captureStacks) captureStack(made)
  const slot = takeSlot(made)
  made.slot = slot
  const single = once || timeout === 0
  const patience = timeout === Infinity ? -1 : timeout
  keepBeating(options.maxStall)
  if (typeof wanted === 'string' && !options.own) {
    const flags = (single ? ONCE : 0) | (options.autoExtend ? RENEWED : 0)
    made.id = manager.addon.acquire(manager.number, slot, wanted, ttl, patience, flags)
  } else {
    const lock = { keys: made.keys, owner: options.owner }
    made.id = manager.addon.acquireLock(manager.number, slot, lock, terms(options), patience, single)
  }
  begin()
  flushSoon(manager.number)
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
  if (options.captureStacks) captureStack(made)
  made.slot = takeSlot(made)
  keepBeating(options.maxStall)
  const lock = { keys, owner }
  made.id = manager.addon.adopt(manager.number, made.slot, lock, terms(options), token, fencingToken)
  begin()
  flushSoon(manager.number)
  return promised
}

/**
 * As the addon takes them.
 * @param {CallOptions} options
 */
function terms({ ttl, autoExtend, maxHold, maxStall, minHold, turn, fair, strategy }) {
  return {
    ttl,
    autoExtend,
    maxHold: bounded(maxHold),
    maxStall: bounded(maxStall),
    minHold,
    turnHolders: fair ? 1 : bounded(turn.holders),
    turnDuration: turn.duration === undefined ? -1 : Math.min(turn.duration, 1e12),
    strategy,
  }
}

/** @param {number} millis */
function bounded(millis) {
  return millis === Infinity ? -1 : millis
}

/** @param {Claim} made */
function captureStack(made) {
  const at = { stack: '' }
  Error.captureStackTrace(at, captureStack)
  made.stack = at.stack
}

module.exports = { adopt, claim, terms }
