'use strict'

const { check } = require('./support/history')
const { startWorker } = require('./support/processes')
const { start } = require('./support/server')

// Leases that nobody gives back: each holder keeps its lock until `held` turns false, watched in a loop that never
// yields, while processes wait for exactly that moment.

test('P1 exclusion, P2 deadline: leases that run out never overlap with the next one, in several processes', async () => {
  const server = await start()
  const settings = { url: server.url, key: 'expiring', ttl: 100, turns: 8 }
  const workers = Array.from({ length: 3 }, () => startWorker('hold-until-expired', settings))
  await Promise.all(workers.map((worker) => worker.next('ready')))
  for (const worker of workers) worker.send('go')
  const done = await Promise.all(workers.map((worker) => worker.next('done')))
  const holdings = done.flatMap((message) => message.holdings)
  expect(holdings.length).toBeGreaterThan(12)
  expect(check(holdings)).toEqual({ overlaps: [], fences: [] })
})
