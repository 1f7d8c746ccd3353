'use strict'

const { setTimeout: sleep } = require('node:timers/promises')
const noise = require('./noise.js')
const { now } = require('./machine-clock.js')

/** A process that answers an order so much later than it should hangs, ms. */
const PATIENCE = 15_000

/** Gives all processes the same order at the same time; `ms` is how long it takes. */
function everywhere(processes, order, args, ms = 0) {
  return Promise.all(processes.map((process) => process.order(order, args, { limit: ms + PATIENCE })))
}

/**
 * Lets the callers of several processes be measured in the same `ms`, and the server with them. `pings`: the processes
 * also send pings. Resolves with what each process measured, when that was, the server's CPU, and what others used.
 */
async function measureTogether(processes, server, { ms, pings = false }) {
  // Long enough from now for all processes to have heard of it.
  const from = now() + 20
  const until = from + ms
  const measuring = everywhere(processes, 'measure', { from, until, everything: true }, ms)
  const pinging = pings ? everywhere(processes, 'pings', { from, until }, ms) : Promise.resolve([])
  // Whoever waits for them below hears of their failure.
  measuring.catch(() => {})
  pinging.catch(() => {})
  await sleep(from - now())
  const others = await noise.watch(server)
  const before = await server.cpu()
  const measured = await measuring
  const serverCpu = (await server.cpu()) - before
  const foreignCores = await others(measured.reduce((sum, { processCpu }) => sum + processCpu, 0))
  return { measured, pings: (await pinging).flat(), from, until, serverCpu, foreignCores }
}

module.exports = { everywhere, measureTogether }
