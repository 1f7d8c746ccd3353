'use strict'

const { AsyncLocalStorage } = require('node:async_hooks')
const { fetchBy } = require('./bridge')

// Which locks the running `withLock` callbacks hold that a call comes from: to tell a call that would wait for itself, and
// for reentrant locks.

/** @typedef {import('./claim').Claim} Claim */

/** A callback that runs, and the one it was called from. */
class Frame {
  /**
   * @param {Claim} claim
   * @param {Frame | undefined} outer
   */
  constructor(claim, outer) {
    /** @type {Claim | undefined} until the callback is done */
    this.claim = claim
    this.outer = outer
  }
}

/**
 * The innermost of these callbacks that runs. What a callback leaves behind (timers, sockets, its next round) refers to its frame
 * for as long as it lives, so frames that are done are taken out of the chain.
 * @param {Frame | undefined} frame
 */
function running(frame) {
  let found = frame
  while (found && !found.claim) found = found.outer
  for (let done = frame; done && done !== found; ) {
    const next = done.outer
    done.outer = found
    done = next
  }
  return found
}

/**
 * Made at the first callback: before Node.js 24 its use makes every await in the process dearer.
 * @type {AsyncLocalStorage<Frame | undefined> | undefined}
 */
let storage

/**
 * Runs a callback of withLock, which holds `claim`.
 * @template T
 * @param {Claim} claim
 * @param {() => T} callback
 * @returns {Promise<Awaited<T>>}
 */
async function inside(claim, callback) {
  if (!storage) {
    storage = new AsyncLocalStorage()
    fetchBy(outside)
  }
  const frame = new Frame(claim, running(storage.getStore()))
  try {
    return await storage.run(frame, callback)
  } finally {
    frame.claim = undefined
  }
}

/**
 * The lock that a call would wait for although it comes from its holder, if there is one.
 * @param {string} space the server, database and prefix that keys belong to
 * @param {readonly string[]} keys
 * @param {string | undefined} owner whose name it asks in: the owner's own holds are no hindrance
 * @returns {Claim | undefined}
 */
function holderAround(space, keys, owner) {
  for (let frame = running(storage?.getStore()); frame; frame = running(frame.outer)) {
    const { claim } = frame
    if (!claim?.isHeld || claim.manager.space !== space) continue
    if (owner !== undefined && owner === claim.owner) continue
    if (keys.some((key) => claim.keys.includes(key))) return claim
  }
  return undefined
}

/**
 * @template T
 * @param {() => T} fn
 * @returns {T}
 */
function outside(fn) {
  return storage ? storage.run(undefined, fn) : fn()
}

module.exports = { inside, holderAround, outside }
