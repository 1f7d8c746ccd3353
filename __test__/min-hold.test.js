'use strict'

// minHold: whoever is done early leaves the key taken, by nobody, so that nobody else does the same job in the same period.

const { setTimeout: sleep } = require('node:timers/promises')
const { eachStore, onServer } = require('./support/stores')
const { until } = require('./support/until')

// The key lives a little longer than asked for: the server's grace.
const GRACE = 10
// What a busy machine may add.
const SLACK = 600

const now = () => performance.now()

eachStore((store) => {
  let locks
  let other
  let key

  beforeEach(() => {
    locks = store.createLocks()
    key = store.newKey()
    other = store.elsewhere(key)
  })

  const isFree = async () => (await other.locks.tryAcquire(other.key)) !== null

  test('released early: given back at once for the holder, taken for everybody else until the time is over', async () => {
    const from = now()
    const lock = await locks.acquire(key, { minHold: 600 })
    const acquired = now()
    expect(await lock.release()).toBe(true)
    expect(now() - acquired).toBeLessThan(600)
    expect(lock).toMatchObject({ held: false, remaining: 0 })
    expect(lock.signal.aborted).toBe(false)
    expect(await lock.release()).toBe(true)
    expect(locks.stats()).toMatchObject({ held: 0, waiting: 0, released: 1, lost: 0 })
    expect(await isFree()).toBe(false)
    expect(await locks.tryAcquire(key)).toBe(null)
    await expect(locks.acquire(key, { timeout: 30 })).rejects.toMatchObject({ code: 'ERR_LOCK_TIMEOUT' })
    const next = await other.locks.acquire(other.key)
    expect(now() - from).toBeGreaterThanOrEqual(600)
    expect(now() - acquired).toBeLessThan(600 + GRACE + SLACK)
    expect(next.fencingToken).toBeGreaterThan(lock.fencingToken)
  })

  test('held for as long: free at once', async () => {
    const lock = await locks.acquire(key, { minHold: 200 })
    await sleep(250)
    expect(await lock.release()).toBe(true)
    expect(await isFree()).toBe(true)
  })

  test('counts from the grant, not from the call', async () => {
    const first = await locks.acquire(key)
    const waiting = locks.acquire(key, { minHold: 500 })
    await sleep(400)
    await first.release()
    const second = await waiting
    const from = now()
    await second.release()
    await other.locks.acquire(other.key)
    // Hardly anything would be left of it if it counted from the call.
    expect(now() - from).toBeGreaterThanOrEqual(250)
  })

  test('who waits in the same process waits for the rest as well, in order', async () => {
    const from = now()
    const first = await locks.acquire(key, { minHold: 400 })
    const served = []
    const line = [0, 1, 2].map(async (i) => {
      const lock = await locks.acquire(key)
      served.push(i)
      await lock.release()
      return now() - from
    })
    expect(await first.release()).toBe(true)
    const after = await Promise.all(line)
    expect(served).toEqual([0, 1, 2])
    expect(Math.min(...after)).toBeGreaterThanOrEqual(395)
    expect(Math.max(...after)).toBeLessThan(400 + GRACE + SLACK)
  })

  test('may be longer than the ttl', async () => {
    const from = now()
    const lock = await locks.acquire(key, { ttl: 200, minHold: 900 })
    await lock.release()
    await sleep(350)
    expect(await isFree()).toBe(false)
    await other.locks.acquire(other.key)
    expect(now() - from).toBeGreaterThanOrEqual(895)
  })

  test("the manager's is the default of the calls'", async () => {
    const cron = store.createLocks({ minHold: 300 })
    const free = store.newKey()
    await (await cron.acquire(free, { minHold: 0 })).release()
    await (await cron.acquire(key)).release()
    expect(await locks.tryAcquire(free)).not.toBe(null)
    expect(await locks.tryAcquire(key)).toBe(null)
    await until('the time is over', isFree)
  })

  test('withLock and tryWithLock are done when their function is', async () => {
    const from = now()
    expect(await locks.withLock(key, { minHold: 500 }, () => 'value')).toBe('value')
    expect(await locks.tryWithLock(key, { minHold: 500 }, () => 'value')).toEqual({ acquired: false })
    expect(now() - from).toBeLessThan(500)
    const error = new Error('failed')
    const failing = locks.withLock(store.newKey(), { minHold: 500 }, () => Promise.reject(error))
    await expect(failing).rejects.toBe(error)
    expect(await isFree()).toBe(false)
  })

  test('all of several keys stay taken', async () => {
    const keys = [`${key}:a`, `${key}:b`]
    await (await locks.acquire(keys, { minHold: 400 })).release()
    const name = (each) => other.key + each.slice(key.length)
    for (const each of keys) {
      expect(await locks.tryAcquire(each)).toBe(null)
      expect(await other.locks.tryAcquire(name(each))).toBe(null)
    }
    expect((await other.locks.acquire(keys.map(name))).held).toBe(true)
  })

  test('of nested holds, the last one counts', async () => {
    const options = { reentrant: true, minHold: 400 }
    await locks.withLock(key, options, () => locks.withLock(key, options, () => {}))
    expect(await isFree()).toBe(false)
    await until('the time is over', isFree)
  })

  test('a lock that was lost leaves nothing behind', async () => {
    const lock = await locks.acquire(key, { ttl: 100, autoExtend: false, minHold: 60_000 })
    await until('it is lost', () => !lock.held)
    expect(await lock.release()).toBe(false)
    await until('somebody else can have it', isFree, { within: 2_000 })
  })

  test('close() gives back what is held, for the rest of its time', async () => {
    const cron = store.createLocks()
    const from = now()
    const lock = await cron.acquire(key, { minHold: 500 })
    await cron.close()
    expect(now() - from).toBeLessThan(500)
    expect(lock.signal.reason.reason).toBe('closed')
    expect(await isFree()).toBe(false)
    await until('the time is over', isFree)
    expect(now() - from).toBeGreaterThanOrEqual(490)
  })

  test('the same job at the same time, everywhere: it runs once in a period', async () => {
    const managers = [locks, store.createLocks({ ttl: 5_000 })].map((manager) => [manager, key])
    managers.push([other.locks, other.key])
    const runs = []
    const period = async (number) => {
      const attempts = Array.from({ length: 30 }, async (_, i) => {
        const [manager, name] = managers[i % 3]
        await sleep(i * 5)
        await manager.tryWithLock(name, { minHold: 500 }, () => runs.push(number))
      })
      await Promise.all(attempts)
    }
    for (let number = 0; number < 3; number++) {
      await period(number)
      await until('the period is over', async () => {
        const lock = await locks.tryAcquire(key)
        await lock?.release()
        return lock
      })
    }
    expect(runs).toEqual([0, 1, 2])
  })
})

onServer((store) => {
  test('the key holds what nobody has, for the rest of the time', async () => {
    const locks = store.createLocks()
    const key = store.newKey()
    const lock = await locks.acquire(key, { minHold: 5_000 })
    const value = await store.server.command('GET', `lock:${key}`)
    await lock.release()
    const parked = await store.server.command('GET', `lock:${key}`)
    expect(parked).not.toBe(null)
    expect(parked).not.toBe(value)
    const left = await store.server.command('PTTL', `lock:${key}`)
    expect(left).toBeGreaterThan(3_000)
    expect(left).toBeLessThanOrEqual(5_000 + 50)
    // Nobody renews it.
    await sleep(300)
    expect(await store.server.command('PTTL', `lock:${key}`)).toBeLessThanOrEqual(left - 290)
  })

  test("a key that is somebody else's by then is left alone", async () => {
    const locks = store.createLocks()
    const key = store.newKey()
    const lock = await locks.acquire(key, { minHold: 5_000 })
    await store.server.command('SET', `lock:${key}`, 'somebody', 'PX', 400)
    expect(await lock.release()).toBe(false)
    expect(await store.server.command('GET', `lock:${key}`)).toBe('somebody')
    expect(await store.server.command('PTTL', `lock:${key}`)).toBeLessThanOrEqual(400)
  })
})
