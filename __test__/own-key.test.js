'use strict'

// The key in the server: what is written there, that only our own is ever touched, and that nothing stays behind.

const { once } = require('node:events')
const { setTimeout: sleep } = require('node:timers/promises')
const { LockLostError, LockWrongTypeError } = require('..')
const { isInScript, monitor } = require('./support/monitor')
const { onServer } = require('./support/stores')
const { until } = require('./support/until')

onServer((store) => {
  let locks
  let key
  let name

  beforeEach(() => {
    locks = store.createLocks()
    key = store.newKey()
    name = `lock:${key}`
  })

  const ask = (...args) => store.server.command(...args)

  test('is keyPrefix and key, and lives as long as the lease', async () => {
    const lock = await locks.acquire(key, { ttl: 5_000 })
    const left = await ask('PTTL', name)
    // The server's time is a little longer than the holder's: at least 10 ms, at most 1 %.
    expect(left).toBeGreaterThan(4_000)
    expect(left).toBeLessThanOrEqual(5_050)
    expect(left).toBeGreaterThanOrEqual(Math.floor(lock.remaining))
    await lock.release()
    expect(await ask('EXISTS', name)).toBe(0)
  })

  test.each(['', 'mutex:', 'a{b}c:'])('goes by the prefix %p', async (keyPrefix) => {
    const lock = await store.createLocks({ keyPrefix }).acquire(key)
    expect(await ask('TYPE', keyPrefix + key)).toBe('string')
    await lock.release()
    expect(await ask('EXISTS', keyPrefix + key)).toBe(0)
  })

  test('of a plain SET NX owner is respected', async () => {
    await ask('SET', name, 'somebody', 'NX', 'PX', 400)
    expect(await locks.tryAcquire(key)).toBe(null)
    await expect(locks.acquire(key, { timeout: 0 })).rejects.toMatchObject({
      code: 'ERR_LOCK_TIMEOUT',
      holder: 'somebody',
    })
    const lock = await locks.acquire(key)
    expect(lock.waited).toBeGreaterThan(200)
    expect(await ask('SET', name, 'somebody', 'NX', 'PX', 400)).toBe(null)
  })

  test('of an owner without a ttl is respected, for ever', async () => {
    await ask('SET', name, 'somebody')
    expect(await locks.tryAcquire(key)).toBe(null)
    await expect(locks.acquire(key, { timeout: 200 })).rejects.toMatchObject({ code: 'ERR_LOCK_TIMEOUT' })
    expect(await ask('GET', name)).toBe('somebody')
    expect(await ask('PTTL', name)).toBe(-1)
  })

  test.each([
    ['list', 'RPUSH', 'a'],
    ['hash', 'HSET', 'a', 'b'],
    ['zset', 'ZADD', 1, 'a'],
  ])(
    'that holds data of another kind (%s) is LockWrongTypeError at once, and the data stays',
    async (type, command, ...data) => {
      await ask(command, name, ...data)
      const from = performance.now()
      const attempts = [
        () => locks.acquire(key),
        () => locks.tryAcquire(key),
        () => locks.withLock(key, () => {}),
      ]
      for (const attempt of attempts) {
        const error = await attempt().catch((reason) => reason)
        expect(error).toBeInstanceOf(LockWrongTypeError)
        expect(error).toMatchObject({ code: 'ERR_LOCK_WRONG_TYPE', key })
      }
      expect(performance.now() - from).toBeLessThan(1_000)
      expect(await ask('TYPE', name)).toBe(type)
    },
  )

  describe("P4 own only: a key that is somebody else's now", () => {
    const theirs = async () => ask('SET', name, 'somebody', 'PX', 60_000)

    test('release leaves it alone and answers false', async () => {
      const lock = await locks.acquire(key)
      await theirs()
      expect(await lock.release()).toBe(false)
      expect(await ask('GET', name)).toBe('somebody')
      expect(await ask('PTTL', name)).toBeGreaterThan(50_000)
    })

    test.each([undefined, 200, 500_000])('extend(%p) leaves it alone and rejects', async (ttl) => {
      const lock = await locks.acquire(key)
      await theirs()
      await expect(lock.extend(ttl)).rejects.toMatchObject({ code: 'ERR_LOCK_LOST', reason: 'taken', key })
      expect(lock.held).toBe(false)
      expect(await ask('GET', name)).toBe('somebody')
      expect(await ask('PTTL', name)).toBeGreaterThan(50_000)
      expect(await ask('PTTL', name)).toBeLessThanOrEqual(60_000)
    })

    test("renewal leaves it alone and finds the loss: 'taken'", async () => {
      const lost = once(locks, 'lost')
      const lock = await locks.acquire(key, { ttl: 300 })
      await theirs()
      const [error] = await lost
      expect(error).toBeInstanceOf(LockLostError)
      expect(error).toMatchObject({ reason: 'taken', key })
      expect(lock.signal.reason).toBe(error)
      expect(lock.held).toBe(false)
      expect(await ask('GET', name)).toBe('somebody')
      expect(await ask('PTTL', name)).toBeGreaterThan(50_000)
    })

    test('of several renewed together, only the one concerned is lost', async () => {
      const keys = Array.from({ length: 20 }, () => store.newKey())
      const held = await Promise.all(keys.map((each) => locks.acquire(each, { ttl: 300 })))
      await ask('SET', `lock:${keys[7]}`, 'somebody')
      await ask('DEL', `lock:${keys[11]}`)
      await ask('RPUSH', `lock:${keys[11]}`, 'data')
      await until('both are lost', () => locks.stats().lost === 2)
      await sleep(400)
      expect(held.map((lock) => lock.held)).toEqual(keys.map((_, i) => i !== 7 && i !== 11))
    })
  })

  test('P4 own only: renewal never creates a key, and a deleted one is a loss', async () => {
    const seen = await monitor(store.server)
    const lost = once(locks, 'lost')
    const lock = await locks.acquire(key, { ttl: 300 })
    await ask('DEL', name)
    const [error] = await lost
    expect(error).toMatchObject({ reason: 'taken', key })
    // Nothing that is still to come brings it back.
    await sleep(400)
    expect(await ask('EXISTS', name)).toBe(0)
    expect(await lock.release()).toBe(false)
    seen.close()
  })

  test('P4 own only: extend of a deleted key creates nothing', async () => {
    const lock = await locks.acquire(key)
    await ask('DEL', name)
    await expect(lock.extend(5_000)).rejects.toMatchObject({ reason: 'taken' })
    expect(await ask('EXISTS', name)).toBe(0)
  })

  test('withLock tells of a lock that was taken away', async () => {
    const attempt = locks.withLock(key, async (lock) => {
      await ask('SET', name, 'somebody')
      await expect(lock.extend()).rejects.toBeInstanceOf(LockLostError)
      return 'result'
    })
    await expect(attempt).rejects.toMatchObject({ code: 'ERR_LOCK_LOST', reason: 'taken', result: 'result' })
    expect(await ask('GET', name)).toBe('somebody')
  })

  test('withLock finds a loss that nobody noticed while the function ran', async () => {
    const attempt = locks.withLock(key, async () => {
      await ask('SET', name, 'somebody')
      return 'result'
    })
    await expect(attempt).rejects.toMatchObject({ code: 'ERR_LOCK_LOST', reason: 'taken', result: 'result' })
  })

  test('P5 no zombie: once its release has begun, no lease is renewed', async () => {
    const seen = await monitor(store.server)
    const lost = jest.fn()
    locks.on('lost', lost)
    // Renewed after 100 ms; releases are spread over the moments around that.
    const keys = Array.from({ length: 400 }, () => store.newKey())
    await Promise.all(
      keys.map(async (each, i) => {
        const lock = await locks.acquire(each, { ttl: 300 })
        await sleep(70 + (i % 60))
        expect(await lock.release()).toBe(true)
      }),
    )
    await sleep(200)
    await seen.flush()
    seen.close()
    expect(lost).not.toHaveBeenCalled()
    expect(locks.stats().renewals).toBeGreaterThan(0)
    expect(await ask('EXISTS', ...keys.map((each) => `lock:${each}`))).toBe(0)
    for (const each of keys) {
      const quoted = `"lock:${each}"`
      const ofKey = seen.lines.filter((line) => line.includes(quoted))
      const deleted = ofKey.findIndex((line) => /"(del|unlink)"/i.test(line))
      expect(deleted).toBeGreaterThan(0)
      // What the request that deleted it still did inside its script doesn't count; a later request does.
      expect(ofKey.slice(deleted + 1).filter((line) => !isInScript(line))).toEqual([])
    }
  })

  test('weight: thousands of keys leave nothing in the server but a fence counter', async () => {
    await ask('FLUSHALL')
    for (let i = 0; i < 5; i++) {
      await Promise.all(Array.from({ length: 1_000 }, () => locks.withLock(store.newKey(), () => {})))
    }
    expect(await ask('DBSIZE')).toBeLessThanOrEqual(1)
  })
})
