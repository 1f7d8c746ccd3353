'use strict'

// Large values are sent one after the other: what is sent on the connection of all locks must not keep the server, or a renewal
// behind it, waiting for longer than `commandTimeout`.

/** Bytes; smaller values aren't counted. */
const LARGE = 256 * 1_024
/** So much may be under way, or one value of any size. */
const MOST = 4 * 1_024 * 1_024

/** Of one connection, at this moment. */
class Traffic {
  constructor() {
    this.bytes = 0
    /** @type {(() => void)[]} */
    this.queue = []
  }
}

/**
 * Sends a value when it is its turn.
 * @template T
 * @param {Traffic} traffic
 * @param {string | Buffer} payload
 * @param {() => Promise<T>} send
 * @returns {Promise<T>}
 */
async function inTurn(traffic, { length }, send) {
  if (length < LARGE) return send()
  while (traffic.bytes > 0 && traffic.bytes + length > MOST) {
    await new Promise((/** @type {(value: void) => void} */ resolve) => traffic.queue.push(resolve))
  }
  traffic.bytes += length
  try {
    return await send()
  } finally {
    traffic.bytes -= length
    traffic.queue.shift()?.()
  }
}

module.exports = { Traffic, inTurn }
