'use strict'

// The classic: many callers read a counter, add one and write it back, under the lock. Not one increment may be lost.

const { check } = require('./support/history')
const { startWorker } = require('./support/processes')
const { start } = require('./support/server')

const LONG = process.env.HOLDFAST_LONG === '1'
const PROCESSES = 4
const CALLERS = 8
const TURNS = (LONG ? 50_000 : 5_000) / PROCESSES / CALLERS
// Not divisible would mean fewer increments than expected.
const TOTAL = Math.floor(TURNS) * PROCESSES * CALLERS

const limit = LONG ? 600_000 : 60_000

async function report(workers) {
  await Promise.all(workers.map((worker) => worker.next('ready')))
  for (const worker of workers) worker.send('go')
  const done = await Promise.all(workers.map((worker) => worker.next('done')))
  return done.flatMap((message) => message.holdings)
}

test(
  `P1 exclusion, P6 fencing: ${PROCESSES} processes × ${CALLERS} callers on a real server`,
  async () => {
    const server = await start()
    const settings = {
      url: server.url,
      port: server.port,
      key: 'counter',
      callers: CALLERS,
      turns: Math.floor(TURNS),
    }
    const workers = Array.from({ length: PROCESSES }, () => startWorker('increment', settings))
    const holdings = await report(workers)
    expect(Number(await server.command('GET', 'value'))).toBe(TOTAL)
    expect(holdings).toHaveLength(TOTAL)
    expect(check(holdings)).toEqual({ overlaps: [], fences: [] })
    expect(new Set(holdings.map((holding) => holding.owner)).size).toBe(TOTAL)
    expect(await server.command('EXISTS', 'lock:counter')).toBe(0)
  },
  limit,
)

test(
  `P1 exclusion, P6 fencing: ${PROCESSES} threads × ${CALLERS} callers on the embedded store`,
  async () => {
    const settings = { threads: PROCESSES, callers: CALLERS, turns: Math.floor(TURNS), key: 'counter' }
    const worker = startWorker('increment-in-threads', settings)
    const { value, holdings } = await worker.next('done')
    expect(value).toBe(TOTAL)
    expect(holdings).toHaveLength(TOTAL)
    expect(check(holdings)).toEqual({ overlaps: [], fences: [] })
    expect((await worker.ended).code).toBe(0)
  },
  limit,
)

test('the same counter without a lock loses increments: the test can tell', async () => {
  const server = await start()
  const settings = {
    url: server.url,
    port: server.port,
    key: 'counter',
    callers: CALLERS,
    turns: 20,
    unlocked: true,
  }
  const workers = Array.from({ length: PROCESSES }, () => startWorker('increment', settings))
  const holdings = await report(workers)
  expect(Number(await server.command('GET', 'value'))).toBeLessThan(20 * PROCESSES * CALLERS)
  expect(check(holdings).overlaps).not.toEqual([])
})
