'use strict'

/** Milliseconds on a clock that all processes of this machine share. */
function now() {
  return Number(process.hrtime.bigint()) / 1e6
}

/**
 * What has to be added to this process's own clock, which is cheaper to read, to have the shared one. Of several readings
 * the one counts that was interrupted the least.
 */
function offset() {
  let shortest = Infinity
  let best
  for (let n = 0; n < 50; n++) {
    const before = performance.now()
    const shared = now()
    const after = performance.now()
    if (after - before < shortest) {
      shortest = after - before
      best = shared - (before + after) / 2
    }
  }
  return best
}

module.exports = { now, offset }
