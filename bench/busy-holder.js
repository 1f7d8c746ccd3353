'use strict'

const { setImmediate: nextTurn, setTimeout: sleep } = require('node:timers/promises')
const { now } = require('./machine-clock.js')

const POLL = 5
/** How long the holder is given to hear of a loss after its loop runs again, ms. */
const PATIENCE = 1_000

/**
 * Takes `key` by whatever of the library keeps it alive, lets the loop run for `idle` ms, then blocks it for `block` ms.
 * Resolves with what the holder was told by then, just before the lock is given back.
 */
function hold(lock, key, { idle, block }, report) {
  return new Promise((resolve, reject) => {
    const work = async (isLost) => {
      await report('holding', now())
      await sleep(idle)
      // Waits until the message is out: nothing leaves this process while the loop is blocked.
      await report('blocking', now())
      const blockedFrom = performance.now()
      while (performance.now() - blockedFrom < block);
      const unblocked = performance.now()
      // What the code right behind the block sees, and what it would see some turns later.
      let lost = isLost()
      const atOnce = lost === true
      for (let turn = 0; lost === false && performance.now() - unblocked < PATIENCE; turn++) {
        await (turn === 0 ? nextTurn() : sleep(POLL))
        lost = isLost()
      }
      const told = lost === undefined ? 'no way' : !lost ? 'no' : atOnce ? 'at once' : 'later'
      resolve({ until: now(), told, toldAfter: told === 'later' ? performance.now() - unblocked : undefined })
    }
    // A lock that was lost can't be given back: that is an error in some libraries, and known here already.
    lock.hold(key, work).then(undefined, reject)
  })
}

/** Tries to take `key` all the time. Resolves with the time when it got it, and keeps it. */
async function contend(lock, key) {
  let attempts = 0
  for (;;) {
    attempts++
    const handle = await lock.tryAcquire(key)
    if (handle) return { at: now(), attempts }
    await sleep(POLL)
  }
}

module.exports = { hold, contend }
