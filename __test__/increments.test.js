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

const zero = { type: 'poll', interval: 0, maxAttempts: 50, then: { type: 'poll', interval: 5, factor: 1.5 } }
const names = ['fixed', 'spin', 'backoff', 'hybrid', 'spin-subscribe', 'adaptive']
// How each of the processes waits for the others, and what share of the turns that is worth in the short form.
const strategies = [
  ['the default', [undefined], 1],
  ...names.map((name) => [name, [name], 0.2]),
  ['without a pause', [zero], 0.2],
  ['each another', ['spin', 'backoff', 'adaptive', zero], 1],
]

async function incrementInProcesses(ofEach, share, more) {
  const server = await start()
  const turns = Math.floor(LONG ? TURNS : TURNS * share)
  const total = turns * PROCESSES * CALLERS
  const settings = { url: server.url, port: server.port, key: 'counter', callers: CALLERS, turns, ...more }
  const workers = Array.from({ length: PROCESSES }, (_, i) =>
    startWorker('increment', { ...settings, strategy: ofEach[i % ofEach.length] }),
  )
  const holdings = await report(workers)
  expect(Number(await server.command('GET', 'value'))).toBe(total)
  expect(holdings).toHaveLength(total)
  expect(check(holdings)).toEqual({ overlaps: [], fences: [] })
  expect(new Set(holdings.map((holding) => holding.owner)).size).toBe(total)
  expect(await server.command('KEYS', 'lock:counter*')).toEqual([])
}

test.each(strategies)(
  `P1 exclusion, P6 fencing: ${PROCESSES} processes × ${CALLERS} callers on a real server, strategy: %s`,
  (_, ofEach, share) => incrementInProcesses(ofEach, share),
  limit,
)

test(
  `P1 exclusion, P6 fencing: ${PROCESSES} processes × ${CALLERS} callers that take the key alone or as one of several`,
  () => incrementInProcesses(['spin', 'adaptive'], 0.5, { sets: true }),
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
