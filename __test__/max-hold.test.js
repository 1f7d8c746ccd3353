'use strict'

// maxHold: nobody holds a lock for longer than that, however often it is renewed and extended.

const { once } = require('node:events')
const { setTimeout: sleep } = require('node:timers/promises')
const { LockLostError } = require('..')
const { blockLoop } = require('./support/block-loop')
const { eachStore, onServer } = require('./support/stores')

// The lease would outlive the test: what ends before is ended by maxHold.
const LONG_TTL = 600_000
// What a busy machine may add.
const SLACK = 600

const lossOf = (lock) => (lock.signal.aborted ? Promise.resolve() : once(lock.signal, 'abort'))

eachStore((store) => {
  let locks
  let key

  beforeEach(() => {
    locks = store.createLocks({ ttl: LONG_TTL })
    key = store.newKey()
  })

  /** Resolves with how long the lock was held from `from` on. */
  async function heldFor(lock, from) {
    await lossOf(lock)
    return performance.now() - from
  }

  const elsewhere = () => {
    const { locks: other, key: name } = store.elsewhere(key)
    return other.acquire(name, { timeout: 1_000 })
  }

  test("is lost when it has been held for that long, reason 'maxHold', and others get it at once", async () => {
    const told = once(locks, 'lost')
    const from = performance.now()
    const lock = await locks.acquire(key, { maxHold: 200 })
    expect(lock.remaining).toBeLessThanOrEqual(200)
    const ms = await heldFor(lock, from)
    expect(ms).toBeGreaterThanOrEqual(195)
    expect(ms).toBeLessThan(200 + SLACK)
    const { reason } = lock.signal
    expect(reason).toBeInstanceOf(LockLostError)
    expect(reason).toMatchObject({ code: 'ERR_LOCK_LOST', reason: 'maxHold', key })
    expect((await told)[0]).toBe(reason)
    expect(lock).toMatchObject({ held: false, remaining: 0 })
    expect(() => lock.assertHeld()).toThrow(reason)
    await expect(lock.extend()).rejects.toBe(reason)
    await expect(lock.detach()).rejects.toBe(reason)
    expect(await lock.release()).toBe(false)
    expect(locks.stats()).toMatchObject({ held: 0, lost: 1, losses: { maxHold: 1 } })
    // Given back, not left to its ttl.
    expect((await elsewhere()).held).toBe(true)
  })

  test('is no matter of the ttl: longer than it, with renewal', async () => {
    const from = performance.now()
    const lock = await locks.acquire(key, { ttl: 300, maxHold: 900 })
    expect(await heldFor(lock, from)).toBeGreaterThanOrEqual(895)
    expect(lock.signal.reason.reason).toBe('maxHold')
  })

  test("isn't put off by extend(), whatever it is asked for", async () => {
    const from = performance.now()
    const lock = await locks.acquire(key, { ttl: 300, maxHold: 500 })
    const granted = performance.now()
    let extended = 0
    let most = 0
    while (lock.held) {
      const left = 500 - (performance.now() - granted)
      await lock.extend(extended++ % 2 ? LONG_TTL : 300).catch(() => {})
      most = Math.max(most, lock.remaining - left)
      await sleep(10)
    }
    const ms = performance.now() - from
    expect(ms).toBeGreaterThanOrEqual(490)
    expect(ms).toBeLessThan(500 + SLACK)
    await lossOf(lock)
    expect(lock.signal.reason.reason).toBe('maxHold')
    expect(extended).toBeGreaterThan(5)
    // What remains never went beyond.
    expect(most).toBeLessThanOrEqual(1)
    expect((await elsewhere()).held).toBe(true)
  })

  test("a lease that runs out before it is 'expired'", async () => {
    const lock = await locks.acquire(key, { ttl: 100, autoExtend: false, maxHold: 5_000 })
    await lossOf(lock)
    expect(lock.signal.reason.reason).toBe('expired')
  })

  test('held turns false at the instant, in a loop that never yields', async () => {
    const from = performance.now()
    const lock = await locks.acquire(key, { maxHold: 150 })
    const granted = performance.now()
    let last = granted
    for (;;) {
      // Read before the look at the lock: the process may be stopped between the two.
      const at = performance.now()
      // The loop yields to nobody, not to Jest's time limit either: it ends by itself if the lock never does.
      if (!lock.held || at > granted + 2_000) break
      last = at
    }
    expect(lock.held).toBe(false)
    expect(last).toBeLessThanOrEqual(granted + 151)
    expect(performance.now()).toBeGreaterThanOrEqual(from + 149)
    expect(lock.signal.aborted).toBe(false)
    await lossOf(lock)
    expect(lock.signal.reason.reason).toBe('maxHold')
  })

  test('counts from the grant: waiting is free, and whoever is next has all of it', async () => {
    const maxHold = 600
    const first = await locks.acquire(key, { maxHold })
    const line = [1, 2].map(() => locks.acquire(key, { maxHold }))
    await lossOf(first)
    const second = await line[0]
    const ms = await heldFor(second, performance.now())
    // More than nothing, which is what would be left if it counted from the call.
    expect(ms).toBeGreaterThanOrEqual(maxHold / 2)
    expect(second.waited).toBeGreaterThanOrEqual(maxHold - 10)
    const third = await line[1]
    expect(third.remaining).toBeGreaterThan(maxHold / 2)
    expect(await third.release()).toBe(true)
  })

  test('whoever has none, after one who has, is not bound by it', async () => {
    const bound = await locks.acquire(key, { maxHold: 100 })
    const waiting = locks.acquire(key)
    await lossOf(bound)
    const free = await waiting
    await sleep(250)
    expect(free.held).toBe(true)
    expect(free.remaining).toBeGreaterThan(1_000)
  })

  test('says nothing once the lock is released', async () => {
    const lost = jest.fn()
    locks.on('lost', lost)
    const lock = await locks.acquire(key, { maxHold: 100 })
    expect(await lock.release()).toBe(true)
    const next = await locks.acquire(key)
    await sleep(250)
    expect(lost).not.toHaveBeenCalled()
    expect(lock.signal.aborted).toBe(false)
    expect(next.held).toBe(true)
  })

  test("the manager's is the default of the calls', and Infinity is none", async () => {
    const strict = store.createLocks({ ttl: LONG_TTL, maxHold: 100 })
    const [bound, free] = await Promise.all([
      strict.acquire(key),
      strict.acquire(store.newKey(), { maxHold: Number.POSITIVE_INFINITY }),
    ])
    await lossOf(bound)
    expect(bound.signal.reason.reason).toBe('maxHold')
    await sleep(100)
    expect(free.held).toBe(true)
    expect(await strict.tryAcquire(free.key)).toBe(null)
    const tried = await strict.tryAcquire(key)
    await lossOf(tried)
    expect(tried.signal.reason.reason).toBe('maxHold')
  })

  test('withLock tells of it, with what the function returned', async () => {
    const work = async (lock) => {
      await lossOf(lock)
      return 'result'
    }
    const error = await locks.withLock(key, { maxHold: 50 }, work).catch((reason) => reason)
    expect(error).toMatchObject({ code: 'ERR_LOCK_LOST', reason: 'maxHold', result: 'result' })
    expect(await locks.withLock(key, { maxHold: 50, ifLost: 'ignore' }, work)).toBe('result')
  })

  test.each([
    ['several keys', (name) => [[`${name}:a`, `${name}:b`], {}]],
    ['an owner', (name) => [name, { owner: 'somebody' }]],
  ])('ends locks of %s as well, all of them', async (_, of) => {
    const [keys, options] = of(key)
    const lock = await locks.acquire(keys, { ...options, maxHold: 100 })
    await lossOf(lock)
    expect(lock.signal.reason.reason).toBe('maxHold')
    for (const each of lock.keys) expect((await locks.acquire(each, { timeout: 1_000 })).held).toBe(true)
  })

  test("ends one owner's hold and leaves the others", async () => {
    const owner = 'somebody'
    const bound = await locks.acquire(key, { owner, maxHold: 100 })
    const free = await locks.acquire(key, { owner })
    await lossOf(bound)
    expect(free.held).toBe(true)
    expect(await locks.tryAcquire(key)).toBe(null)
    expect(await free.release()).toBe(true)
    expect((await elsewhere()).held).toBe(true)
  })

  test('counts anew for whoever adopts', async () => {
    const lock = await locks.acquire(key, { maxHold: 800 })
    await sleep(600)
    const adopted = await locks.adopt(await lock.detach(), { maxHold: 800 })
    const ms = await heldFor(adopted, performance.now())
    expect(ms).toBeGreaterThanOrEqual(400)
    expect(adopted.signal.reason.reason).toBe('maxHold')
  })
})

onServer((store) => {
  test('ends a lock in the server while the holder’s loop is blocked', async () => {
    const locks = store.createLocks({ ttl: LONG_TTL })
    const key = store.newKey()
    const lock = await locks.acquire(key, { maxHold: 100 })
    blockLoop(600)
    expect(lock.held).toBe(false)
    // Asked before the loop has had a turn to do anything.
    expect(await store.server.command('EXISTS', `lock:${key}`)).toBe(0)
    await lossOf(lock)
    expect(lock.signal.reason.reason).toBe('maxHold')
  })
})
