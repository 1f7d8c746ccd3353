'use strict'

// Trouble that may pass is sat out until the timeout, and then it is told as what it is: no lock was taken by
// somebody else. Nothing hangs, and afterwards everything works again.

const { once } = require('node:events')
const { setTimeout: sleep } = require('node:timers/promises')
const { createLocks, LockUnavailableError, LockLostError } = require('..')
const { startProxy } = require('./support/proxy')
const { start, freePort } = require('./support/server')
const { until } = require('./support/until')

const ttl = 600_000
let server
let proxy
let locks
let key
let count = 0

beforeEach(async () => {
  server = await start({ args: ['--lua-time-limit', '50'] })
  proxy = await startProxy(server.port)
  locks = createLocks({ url: proxy.url, commandTimeout: 300 })
  key = `test:${++count}`
})

afterEach(async () => {
  await locks.close()
  await proxy.stop()
  await server.stop()
})

const took = async (promise) => {
  const from = performance.now()
  const outcome = await promise.then(
    (value) => ({ value }),
    (error) => ({ error }),
  )
  return { ...outcome, ms: performance.now() - from }
}

async function expectUnavailable(promise, { after = 0, before }) {
  const { error, value, ms } = await took(promise)
  if (!error) throw new Error(`settled with ${value}`)
  expect(error).toBeInstanceOf(LockUnavailableError)
  expect(error.code).toBe('ERR_LOCK_UNAVAILABLE')
  expect(error.cause).toBeInstanceOf(Error)
  expect(error.cause.code).toEqual(expect.stringMatching(/./))
  expect(error.message).toMatch(/127\.0\.0\.1:\d+/)
  expect(ms).toBeGreaterThanOrEqual(after - 5)
  expect(ms).toBeLessThan(before)
  return error
}

// How each kind of trouble is made, and how it ends. A manager that has worked before is in each.
const troubles = [
  ['the server refuses connections', () => proxy.refuse(), () => proxy.resume()],
  ['the server stands still', () => server.pause(), () => server.resume()],
  ['nothing comes through', () => proxy.blackHole(), () => proxy.resume()],
  ['commands get lost', () => proxy.blackHole('toServer'), () => proxy.resume()],
  ['answers get lost', () => proxy.blackHole('toClient'), () => proxy.resume()],
  ['the server was killed', () => server.kill(), () => server.restart()],
  [
    'the server is a replica',
    async () => server.command('REPLICAOF', '127.0.0.1', await freePort()),
    () => server.command('REPLICAOF', 'NO', 'ONE'),
  ],
  [
    'the server is out of memory',
    () => server.command('CONFIG', 'SET', 'maxmemory', 1),
    () => server.command('CONFIG', 'SET', 'maxmemory', 0),
  ],
]

describe.each(troubles)('%s', (_, begin, end) => {
  beforeEach(async () => {
    await locks.withLock(key, () => {})
  })

  test('an acquire waits until its timeout: ERR_LOCK_UNAVAILABLE, never ERR_LOCK_TIMEOUT', async () => {
    await begin()
    await expectUnavailable(locks.acquire(key, { ttl, timeout: 500 }), { after: 500, before: 3_000 })
    await expectUnavailable(
      locks.withLock(key, { ttl, timeout: 0 }, () => {}),
      { before: 3_000 },
    )
    expect(locks.stats()).toMatchObject({ timeouts: 0, waiting: 0, held: 0 })
    await end()
    // The same manager works again, and nobody's attempt stands in the way.
    expect(await locks.withLock(key, () => 'value')).toBe('value')
  })

  test('a single attempt rejects within commandTimeout', async () => {
    await begin()
    await expectUnavailable(locks.tryAcquire(key, { ttl }), { before: 3_000 })
    await end()
    await until('it works again', async () => (await locks.acquire(key)).release())
  })

  test('a waiting acquire gets the lock when the trouble has passed', async () => {
    await begin()
    const waiting = locks.acquire(key, { timeout: 25_000 })
    waiting.catch(() => {})
    await sleep(700)
    await end()
    const lock = await waiting
    expect(lock.held).toBe(true)
    expect(await lock.release()).toBe(true)
  })

  test('it can be called off, and the manager closed', async () => {
    await begin()
    const reason = new Error('no more')
    const called = await took(locks.acquire(key, { signal: AbortSignal.abort(reason) }))
    expect(called.error).toBe(reason)
    const signal = AbortSignal.timeout(100)
    const aborted = await took(locks.acquire(key, { signal }))
    expect(aborted.error).toBe(signal.reason)
    expect(aborted.ms).toBeLessThan(1_000)
    const waiting = took(locks.acquire(key))
    const closed = await took(locks.close())
    expect(closed.error).toBe(undefined)
    expect(closed.ms).toBeLessThan(3_000)
    expect((await waiting).error).toMatchObject({ code: 'ERR_LOCK_CLOSED' })
    await end()
  })
})

// Out of memory and replicas still answer; here nobody does.
describe.each(troubles.slice(0, 5))('a lock is held, and %s', (_, begin, end) => {
  let lock

  beforeEach(async () => {
    lock = await locks.acquire(key, { ttl })
  })

  test('P9 bounded: release rejects after commandTimeout, and the key is gone when the trouble is over', async () => {
    const failed = once(locks, 'releaseFailed')
    await begin()
    const release = lock.release()
    expect(lock.held).toBe(false)
    const error = await expectUnavailable(release, { before: 3_000 })
    expect((await failed)[0]).toBeInstanceOf(LockUnavailableError)
    // The settled answer is the answer.
    await expect(lock.release()).rejects.toBe(error)
    await end()
    await until('the key is gone', async () => (await server.command('EXISTS', `lock:${key}`)) === 0)
  })

  test('P9 bounded: extend rejects after commandTimeout, and the lock stays held meanwhile', async () => {
    const left = lock.remaining
    await begin()
    await expectUnavailable(lock.extend(1_000_000), { before: 3_000 })
    expect(lock.held).toBe(true)
    expect(lock.remaining).toBeLessThanOrEqual(left)
    await end()
    await until('extend works again', () =>
      lock.extend(1_000_000).then(
        () => true,
        () => false,
      ),
    )
    expect(lock.remaining).toBeGreaterThan(900_000)
    expect(await lock.release()).toBe(true)
  })

  test('P9 bounded: a shortening extend without an answer shortens at once, to be on the safe side', async () => {
    await begin()
    await expectUnavailable(lock.extend(5_000), { before: 3_000 })
    expect(lock.remaining).toBeLessThanOrEqual(5_000)
    await end()
  })

  test("withLock gives the function's value: a release that fails is an event", async () => {
    const failed = once(locks, 'releaseFailed')
    const value = await locks.withLock(`${key}:other`, { ttl }, async () => {
      await begin()
      return 'value'
    })
    expect(value).toBe('value')
    expect((await failed)[0]).toBeInstanceOf(LockUnavailableError)
    await end()
    await until('the key is gone', async () => (await server.command('EXISTS', `lock:${key}:other`)) === 0)
  })

  test('disposal never throws', async () => {
    await begin()
    const { error, ms } = await took(lock[Symbol.asyncDispose]())
    expect(error).toBe(undefined)
    expect(ms).toBeLessThan(3_000)
    await end()
  })

  test("P2 deadline: a lock that can't be renewed is lost at its deadline, reason 'unreachable'", async () => {
    const short = await locks.acquire(`${key}:short`, { ttl: 600 })
    const lost = once(short.signal, 'abort')
    await begin()
    const from = performance.now()
    while (short.held) await sleep(1)
    expect(performance.now() - from).toBeLessThanOrEqual(600 + 50)
    await lost
    expect(short.signal.reason).toBeInstanceOf(LockLostError)
    expect(short.signal.reason).toMatchObject({ reason: 'unreachable', key: `${key}:short` })
    expect(lock.held).toBe(true)
    await end()
    expect(await short.release()).toBe(false)
  })

  test('a lock outlives trouble that is shorter than its lease', async () => {
    const short = await locks.acquire(`${key}:short`, { ttl: 1_500 })
    await begin()
    await sleep(500)
    await end()
    await sleep(1_700)
    expect(short.held).toBe(true)
    expect(await short.release()).toBe(true)
    expect(await lock.release()).toBe(true)
  })
})

test('a server that was never there: ERR_LOCK_UNAVAILABLE with what the system said, and it works once it is there', async () => {
  const port = await freePort()
  const early = createLocks({ url: `redis://127.0.0.1:${port}` })
  const error = await expectUnavailable(early.acquire(key, { timeout: 400 }), { after: 400, before: 4_000 })
  expect(error.cause.code).toBe('ECONNREFUSED')
  expect(error.message).toContain(`127.0.0.1:${port}`)
  await expectUnavailable(early.ready({ timeout: 300 }), { after: 300, before: 3_000 })
  await expectUnavailable(early.tryAcquire(key), { before: 3_000 })
  const late = await startProxy(server.port, port)
  expect(await early.withLock(key, () => 'value')).toBe('value')
  await early.ready()
  await early.close()
  await late.stop()
})

test('plain words to a TLS port: nobody understands, and that is told', async () => {
  const encrypted = await start({ tls: true })
  const misled = createLocks({ url: `redis://127.0.0.1:${encrypted.tlsPort}` })
  await expectUnavailable(misled.acquire(key, { timeout: 500 }), { before: 4_000 })
  await misled.close()
})

test('events: unavailable once, then reconnected once', async () => {
  const seen = []
  locks.on('unavailable', (error) => seen.push(error))
  locks.on('reconnected', () => seen.push('reconnected'))
  await locks.ready()
  await proxy.refuse()
  for (let i = 0; i < 3; i++) await took(locks.acquire(key, { timeout: 100 }))
  expect(seen).toEqual([expect.any(LockUnavailableError)])
  const again = once(locks, 'reconnected')
  await proxy.resume()
  await locks.ready()
  await again
  expect(seen).toEqual([expect.any(LockUnavailableError), 'reconnected'])
  expect(locks.stats().reconnects).toBeGreaterThanOrEqual(1)
})

test('a busy server is waited for', async () => {
  await locks.ready()
  const stuck = server.connect()
  const script = stuck.command('EVAL', 'while true do end', 0)
  script.catch(() => {})
  await until('it is busy', () =>
    server.command('PING').then(
      () => false,
      (error) => error.code === 'BUSY',
    ),
  )
  await expectUnavailable(locks.acquire(key, { timeout: 300 }), { after: 300, before: 3_000 })
  const waiting = locks.acquire(key, { timeout: 20_000 })
  await server.command('SCRIPT', 'KILL')
  expect((await waiting).held).toBe(true)
  stuck.close()
})

test('a full server is waited for', async () => {
  const full = await start({ args: ['--maxclients', '1'] })
  await full.command('PING')
  const patient = createLocks({ url: full.url })
  await expectUnavailable(patient.acquire(key, { timeout: 300 }), { after: 300, before: 3_000 })
  const waiting = patient.acquire(key, { timeout: 20_000 })
  await full.command('CONFIG', 'SET', 'maxclients', 100)
  expect((await waiting).held).toBe(true)
  await patient.close()
})

test('release works when the server is out of memory', async () => {
  const held = await Promise.all([locks.acquire(key), locks.acquire(`${key}:other`, { ttl: 300 })])
  await server.command('CONFIG', 'SET', 'maxmemory', 1)
  await sleep(600)
  expect(held.map((lock) => lock.held)).toEqual([true, true])
  expect(await Promise.all(held.map((lock) => lock.release()))).toEqual([true, true])
  expect(await server.command('EXISTS', `lock:${key}`, `lock:${key}:other`)).toBe(0)
})

test('a server that forgot the scripts is taught again, unnoticed', async () => {
  const lock = await locks.acquire(key, { ttl: 400 })
  await server.command('SCRIPT', 'FLUSH')
  await lock.extend()
  await server.command('SCRIPT', 'FLUSH')
  expect(await locks.tryAcquire(key)).toBe(null)
  expect(await locks.withLock(`${key}:other`, () => 'value')).toBe('value')
  await server.command('SCRIPT', 'FLUSH')
  await sleep(600)
  expect(lock.held).toBe(true)
  await server.command('SCRIPT', 'FLUSH')
  expect(await lock.release()).toBe(true)
})

test('connections that the server closes are made anew, unnoticed', async () => {
  const lock = await locks.acquire(key, { ttl: 1_000 })
  for (let i = 0; i < 5; i++) {
    await server.command('CLIENT', 'KILL', 'TYPE', 'normal', 'SKIPME', 'yes')
    expect(await locks.withLock(`${key}:other`, () => 'value')).toBe('value')
  }
  await sleep(500)
  expect(lock.held).toBe(true)
  expect(await lock.release()).toBe(true)
})

test('calls in the very moment in which a connection breaks succeed all the same', async () => {
  for (let round = 0; round < 100; round++) {
    await locks.ready()
    const calls = () => Array.from({ length: 10 }, (_, i) => locks.withLock(`${key}:${i}`, () => i))
    // In one turn of the loop: what is sent first meets a connection that nobody knows to be broken.
    const before = calls()
    proxy.cut()
    const after = calls()
    expect(await Promise.all(after)).toHaveLength(10)
    await Promise.all(before)
  }
})

test('a release whose answer was lost is what it was: the lock was ours until then', async () => {
  const lock = await locks.acquire(key, { ttl })
  proxy.blackHole('toClient')
  const answer = lock.release()
  await until('the key is gone', async () => (await server.command('EXISTS', `lock:${key}`)) === 0)
  await proxy.resume()
  expect(await answer).toBe(true)
})

test('hundreds of calls through cut connections all settle, and leave nothing', async () => {
  const calls = Array.from({ length: 300 }, (_, i) =>
    took(locks.withLock(`${key}:${i % 30}`, { ttl, timeout: 20_000 }, () => sleep(1))),
  )
  const all = Promise.all(calls)
  let settled = false
  all.then(() => {
    settled = true
  })
  while (!settled) {
    proxy.cut()
    await sleep(30)
  }
  for (const { error } of await all) if (error) expect(error).toBeInstanceOf(LockUnavailableError)
  const names = Array.from({ length: 30 }, (_, i) => `lock:${key}:${i}`)
  await until('no key is left', async () => (await server.command('EXISTS', ...names)) === 0)
})
