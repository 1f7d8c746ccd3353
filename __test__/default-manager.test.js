'use strict'

// The functions that need no manager: where they connect, and when that is fixed. Each case is a process of its own.

const { start } = require('./support/server')
const { startWorker } = require('./support/processes')

let server
let second

beforeAll(async () => {
  ;[server, second] = await Promise.all([start(), start({ password: 'secret' })])
})

/** Runs `steps` in a new process: a list of names of steps in workers/default-manager.js. */
async function run(steps, env) {
  const worker = startWorker(
    'default-manager',
    { steps, url: server.url },
    { env: { HOLDFAST_URL: '', REDIS_URL: '', ...env } },
  )
  const { results } = await worker.next('results')
  const { code } = await worker.ended
  expect(code).toBe(0)
  return results
}

test.each([
  ['HOLDFAST_URL', () => ({ HOLDFAST_URL: server.url })],
  ['REDIS_URL', () => ({ REDIS_URL: server.url })],
  ['HOLDFAST_URL before REDIS_URL', () => ({ HOLDFAST_URL: server.url, REDIS_URL: second.url })],
])('connects to %s', async (_, env) => {
  const [value] = await run(['withLock'], env())
  expect(value).toEqual({ result: 'value', during: 'string' })
})

test('connects to what configure() says, before the environment', async () => {
  const [configured, value] = await run(['configure', 'withLock'], {
    HOLDFAST_URL: second.url,
    REDIS_URL: second.url,
  })
  expect(configured).toBe(undefined)
  expect(value).toEqual({ result: 'value', during: 'string' })
})

test('configure() comes before the first use, or is refused', async () => {
  const [, late] = await run(['withLock', 'configure'], { HOLDFAST_URL: server.url })
  expect(late).toMatchObject({ code: 'ERR_LOCK_CONFIGURED' })
})

test('all functions work on it: acquire, tryAcquire, release, withLock, tryWithLock, locks', async () => {
  const [all] = await run(['everything'], { REDIS_URL: server.url })
  expect(all).toEqual({
    acquired: true,
    busy: null,
    released: true,
    result: 1,
    skipped: { acquired: false },
    same: true,
  })
})
