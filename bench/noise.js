'use strict'

const cpu = require('./cpu.js')
const { median } = require('./figures.js')
const { number } = require('./table.js')

/** More foreign load than this, in cores, and the figures aren't to be trusted. */
const QUIET = 0.1

/**
 * Begins to watch what others use of this machine. Resolves with a function that ends it and resolves with their share
 * in cores; it is told what the measured processes used meanwhile, µs.
 */
async function watch(server) {
  const before = await spent(server)
  return async (measured) => {
    const after = await spent(server)
    const ours = measured + after.own - before.own + after.server - before.server
    return (after.machine - before.machine - ours) / (after.clock - before.clock) / 1_000
  }
}

async function spent(server) {
  return {
    server: await server.cpu(),
    own: cpu.ofThisProcess(),
    machine: cpu.ofThisMachine(),
    clock: performance.now(),
  }
}

/** The last line of a table: the shares of others in each window, and what that means. */
function verdict(shares) {
  const usual = median(shares)
  // What is read at slightly different times may come out below nothing.
  const [cores, worst] = [usual, Math.max(...shares)].map((share) => number(Math.max(0, share)))
  const line = `  used by other processes meanwhile: ${cores} cores (median window), ${worst} (worst)`
  return usual > QUIET ? `${line}: TOO NOISY, run it again` : line
}

module.exports = { watch, verdict }
