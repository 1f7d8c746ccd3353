'use strict'

// Several keys at once: all of them or none, one fencing number, no deadlock between sets that overlap.

const { check } = require('./support/history')
const { eachStore, onServer } = require('./support/stores')

eachStore((store) => {
  test('all are taken together, and given back together', async () => {
    const locks = store.createLocks()
    const [a, b, c] = [store.newKey(), store.newKey(), store.newKey()]
    const lock = await locks.acquire([b, a, c, a])
    expect(lock).toMatchObject({ key: b, keys: [b, a, c], held: true, holdCount: 1 })
    for (const key of [a, b, c]) {
      const other = store.elsewhere(key)
      expect(await other.locks.tryAcquire(other.key)).toBe(null)
      expect(await locks.tryAcquire(key)).toBe(null)
      expect(await locks.tryAcquire([key, store.newKey()])).toBe(null)
    }
    expect(await lock.release()).toBe(true)
    for (const key of [a, b, c]) {
      const single = await locks.tryAcquire(key)
      expect(single.fencingToken).toBeGreaterThan(lock.fencingToken)
    }
  })

  test('none is taken if one is not free', async () => {
    const locks = store.createLocks()
    const [a, b, c] = [store.newKey(), store.newKey(), store.newKey()]
    const single = await locks.acquire(b)
    expect(await locks.tryAcquire([a, b, c])).toBe(null)
    const error = await locks.acquire([a, b, c], { timeout: 50 }).catch((reason) => reason)
    expect(error).toMatchObject({ code: 'ERR_LOCK_TIMEOUT', key: a })
    for (const key of [a, b, c]) expect(error.message).toContain(`'${key}'`)
    for (const key of [a, c]) expect(await locks.tryAcquire(key)).not.toBe(null)
    expect(single.held).toBe(true)
  })

  test('an array of one key is that key', async () => {
    const locks = store.createLocks()
    const key = store.newKey()
    const lock = await locks.acquire([key, key])
    expect(lock.keys).toEqual([key])
    const next = locks.acquire(key)
    await lock.release()
    expect((await next).keys).toEqual([key])
  })

  test('callers that want the same set are served first come, first served', async () => {
    const locks = store.createLocks()
    const [a, b] = [store.newKey(), store.newKey()]
    const order = []
    const work = (number) => locks.withLock(number % 2 ? [a, b] : [b, a], async () => void order.push(number))
    await Promise.all(Array.from({ length: 10 }, (_, number) => work(number)))
    expect(order).toEqual([0, 1, 2, 3, 4, 5, 6, 7, 8, 9])
  })

  test('P1 exclusion, P6 fencing: sets that overlap, and single keys, never deadlock and never overlap', async () => {
    const keys = Array.from({ length: 5 }, () => store.newKey())
    const holdings = []
    const managers = [store.createLocks(), store.createLocks()]
    const options = {
      timeout: 60_000,
      strategy: { type: 'poll', interval: 2, jitter: 'equal', maxDuration: 60_000 },
    }
    // Each caller wants its keys in another order, as code does that was written in different places.
    async function caller(number) {
      for (let turn = 0; turn < 20; turn++) {
        const start = (number * 3 + turn) % keys.length
        const count = 1 + ((number + turn) % 3)
        const wanted = Array.from(
          { length: count },
          (_, i) => keys[(start + i * (1 + (number % 2))) % keys.length],
        )
        const lock = await managers[number % 2].acquire(wanted, options)
        const from = process.hrtime.bigint()
        await new Promise(setImmediate)
        const until = process.hrtime.bigint()
        for (const key of lock.keys) {
          holdings.push({ key, owner: lock.token, from, until, fence: lock.fencingToken })
        }
        expect(await lock.release()).toBe(true)
      }
    }
    await Promise.all(Array.from({ length: 10 }, (_, number) => caller(number)))
    expect(check(holdings)).toEqual({ overlaps: [], fences: [] })
    expect(new Set(holdings.map(({ owner }) => owner)).size).toBe(200)
  }, 120_000)

  test('is extended, shortened, renewed and lost as one', async () => {
    const locks = store.createLocks()
    const [a, b] = [store.newKey(), store.newKey()]
    const lock = await locks.acquire([a, b], { ttl: 300 })
    await lock.extend(60_000)
    expect(lock.remaining).toBeGreaterThan(50_000)
    await lock.extend(300)
    expect(lock.remaining).toBeLessThan(300)
    const { renewals } = locks.stats()
    while (locks.stats().renewals < renewals + 5) await new Promise((resolve) => setTimeout(resolve, 5))
    expect(lock.held).toBe(true)
    await lock.release()

    const short = await locks.acquire([a, b], { ttl: 100, autoExtend: false })
    await new Promise((resolve) => short.signal.addEventListener('abort', resolve))
    expect(short.signal.reason).toMatchObject({ reason: 'expired', key: a })
    expect(await locks.acquire([b, a])).toMatchObject({ held: true })
  })
})

onServer((store) => {
  test('a key of another type among them: nothing is taken, nothing touched', async () => {
    const locks = store.createLocks()
    const [a, b, c] = [store.newKey(), store.newKey(), store.newKey()]
    await store.server.command('RPUSH', `lock:${b}`, 'data')
    await expect(locks.acquire([a, b, c])).rejects.toMatchObject({ code: 'ERR_LOCK_WRONG_TYPE' })
    expect(await store.server.command('EXISTS', `lock:${a}`, `lock:${c}`)).toBe(0)
    expect(await store.server.command('LRANGE', `lock:${b}`, '0', '-1')).toEqual(['data'])
  })

  test('P2, P4: one of its keys deleted behind the holder: all of it is lost, and the rest is freed', async () => {
    const locks = store.createLocks()
    const [a, b, c] = [store.newKey(), store.newKey(), store.newKey()]
    const lock = await locks.acquire([a, b, c], { ttl: 300 })
    const lost = new Promise((resolve) => lock.signal.addEventListener('abort', resolve))
    await store.server.command('SET', `lock:${b}`, 'somebody else')
    await lost
    expect(lock.signal.reason).toMatchObject({ code: 'ERR_LOCK_LOST', reason: 'taken' })
    expect(await locks.acquire([a, c])).toMatchObject({ held: true })
    expect(await store.server.command('GET', `lock:${b}`)).toBe('somebody else')
  })

  test('costs one command to take and one to give back, however many there are', async () => {
    const locks = store.createLocks()
    await locks.ready()
    const keys = Array.from({ length: 100 }, () => store.newKey())
    const before = locks.stats().commands
    await (await locks.acquire(keys)).release()
    expect(locks.stats().commands - before).toBe(2)
  })
})
