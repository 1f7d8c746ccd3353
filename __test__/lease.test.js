'use strict'

// How long a lock is ours: deadlines, renewal, extension, and how a loss is told.

const { once } = require('node:events')
const { setTimeout: sleep } = require('node:timers/promises')
const { LockLostError } = require('..')
const { blockLoop } = require('./support/block-loop')
const { eachStore } = require('./support/stores')

const lossOf = (lock) => (lock.signal.aborted ? Promise.resolve() : once(lock.signal, 'abort'))

eachStore((store) => {
  let locks
  let key

  beforeEach(() => {
    locks = store.createLocks()
    key = store.newKey()
  })

  describe('a lock that is not renewed', () => {
    const options = { ttl: 300, autoExtend: false }

    test("is lost at its deadline, reason 'expired', by signal and by event", async () => {
      const lost = once(locks, 'lost')
      const from = performance.now()
      const lock = await locks.acquire(key, options)
      await lossOf(lock)
      const ms = performance.now() - from
      expect(ms).toBeGreaterThanOrEqual(270)
      expect(ms).toBeLessThan(500)
      const reason = lock.signal.reason
      expect(reason).toBeInstanceOf(LockLostError)
      expect(reason).toMatchObject({ code: 'ERR_LOCK_LOST', reason: 'expired', key })
      expect(reason.message).toContain(key)
      expect((await lost)[0]).toBe(reason)
      expect(lock.held).toBe(false)
      expect(lock.remaining).toBe(0)
      expect(() => lock.assertHeld()).toThrow(expect.objectContaining({ reason: 'expired' }))
      await expect(lock.extend()).rejects.toMatchObject({ code: 'ERR_LOCK_LOST', reason: 'expired' })
      expect(await lock.release()).toBe(false)
      expect(locks.stats()).toMatchObject({ held: 0, lost: 1 })
    })

    test('P2 deadline: held turns false at the instant, in a loop that never yields', async () => {
      const before = performance.now()
      const lock = await locks.acquire(key, options)
      const after = performance.now()
      // Each sample is a reading of the clock, then a look at the lock, then another reading: this process may be
      // stopped between any two of them, and the truth still lies in between.
      const samples = []
      let lastHeld
      for (;;) {
        const from = performance.now()
        // The loop yields to nobody, not to Jest's time limit either: it ends by itself if the lock never does.
        if (!lock.held || from > after + 2_000) break
        lastHeld = from
        const left = lock.remaining
        samples.push({ earliest: from + left, latest: performance.now() + left, left })
      }
      expect(lock.held).toBe(false)
      expect(lock.remaining).toBe(0)
      expect(() => lock.assertHeld()).toThrow(
        expect.objectContaining({ code: 'ERR_LOCK_LOST', reason: 'expired' }),
      )
      // The last sample may have been taken across the deadline.
      samples.pop()
      expect(samples.length).toBeGreaterThan(100)
      expect(samples.every(({ left }, i) => left > 0 && (i === 0 || left <= samples[i - 1].left))).toBe(true)
      // All samples point at one deadline: ttl less drift (1 % and 2 ms) after the instant before the request was sent.
      const earliest = samples.reduce((most, sample) => Math.max(most, sample.earliest), 0)
      const latest = samples.reduce(
        (least, sample) => Math.min(least, sample.latest),
        Number.POSITIVE_INFINITY,
      )
      const rounding = 1
      expect(earliest - latest).toBeLessThanOrEqual(rounding)
      expect(latest - before).toBeGreaterThanOrEqual(295 - rounding)
      expect(earliest - after).toBeLessThanOrEqual(295 + rounding)
      // And not an instant longer was it held.
      expect(lastHeld).toBeLessThanOrEqual(latest + rounding)
    })

    test('P2 deadline: the signal aborts in the next turn of a loop that was blocked beyond it', async () => {
      const lock = await locks.acquire(key, options)
      const lost = lossOf(lock)
      blockLoop(500)
      expect(lock.signal.aborted).toBe(false)
      const from = performance.now()
      await lost
      // Promised are 20 ms on an idle loop; a test gets ten times that.
      expect(performance.now() - from).toBeLessThan(200)
    })

    test('a signal that is asked for after the loss is aborted, with the reason', async () => {
      const lock = await locks.acquire(key, options)
      const [error] = await once(locks, 'lost')
      expect(lock.signal.aborted).toBe(true)
      expect(lock.signal.reason).toBe(error)
    })

    test('does not wait for anybody who holds on to it: the next one gets it', async () => {
      await locks.acquire(key, options)
      const from = performance.now()
      const next = await locks.acquire(key)
      expect(next.held).toBe(true)
      expect(performance.now() - from).toBeLessThan(3_000)
    })

    test('handed on inside the process, gets its own full time', async () => {
      const lock = await locks.acquire(key)
      const waiting = locks.acquire(key, options)
      await lock.release()
      const next = await waiting
      expect(next.remaining).toBeGreaterThan(200)
      expect(next.remaining).toBeLessThanOrEqual(300)
      await lossOf(next)
      expect(next.signal.reason.reason).toBe('expired')
    })
  })

  describe('renewal', () => {
    test('keeps a lock beyond its ttl', async () => {
      const lock = await locks.acquire(key, { ttl: 200 })
      const other = store.elsewhere(key)
      const end = performance.now() + 1_000
      while (performance.now() < end) {
        expect(lock.held).toBe(true)
        expect(lock.remaining).toBeGreaterThan(0)
        expect(await other.locks.tryAcquire(other.key)).toBe(null)
        await sleep(20)
      }
      expect(await lock.release()).toBe(true)
      expect(locks.stats().lost).toBe(0)
    })

    test('keeps it while the event loop is blocked', async () => {
      const lock = await locks.acquire(key, { ttl: 200 })
      blockLoop(1_000)
      expect(lock.held).toBe(true)
      lock.assertHeld()
      await sleep(0)
      expect(lock.signal.aborted).toBe(false)
      expect(await lock.release()).toBe(true)
    })

    test('of many locks keeps them all', async () => {
      const held = await Promise.all(
        Array.from({ length: 300 }, () => locks.acquire(store.newKey(), { ttl: 300 })),
      )
      await sleep(1_000)
      expect(held.filter((lock) => lock.held)).toHaveLength(300)
      expect(await Promise.all(held.map((lock) => lock.release()))).toEqual(Array(300).fill(true))
    })

    test("ttl and autoExtend of the manager are the calls' defaults", async () => {
      const short = store.createLocks({ ttl: 150, autoExtend: false })
      const lock = await short.acquire(key)
      expect(lock.remaining).toBeLessThanOrEqual(150)
      await lossOf(lock)
      const renewed = await short.acquire(key, { autoExtend: true })
      await sleep(400)
      expect(renewed.held).toBe(true)
    })
  })

  describe('extend', () => {
    test('longer: the time counts from now', async () => {
      const lock = await locks.acquire(key, { ttl: 300, autoExtend: false })
      await sleep(100)
      await lock.extend(1_000)
      expect(lock.remaining).toBeGreaterThan(800)
      expect(lock.remaining).toBeLessThanOrEqual(1_000)
      await sleep(500)
      expect(lock.held).toBe(true)
      expect(await lock.release()).toBe(true)
    })

    test('shorter, in place: the lock is over sooner, and nobody gets it in between', async () => {
      const lock = await locks.acquire(key, { ttl: 60_000, autoExtend: false })
      const other = store.elsewhere(key)
      const waiting = other.locks.acquire(other.key)
      const token = lock.token
      const from = performance.now()
      await lock.extend(200)
      expect(lock.remaining).toBeLessThanOrEqual(200)
      expect(lock.held).toBe(true)
      expect(lock.token).toBe(token)
      await lossOf(lock)
      expect(performance.now() - from).toBeGreaterThanOrEqual(180)
      expect(lock.signal.reason.reason).toBe('expired')
      const next = await waiting
      expect(next.fencingToken).toBeGreaterThan(lock.fencingToken)
      expect(performance.now() - from).toBeLessThan(5_000)
    })

    test('by default sets the ttl anew that the lock was acquired with', async () => {
      const lock = await locks.acquire(key, { ttl: 400, autoExtend: false })
      await lock.extend(5_000)
      await lock.extend()
      expect(lock.remaining).toBeLessThanOrEqual(400)
      await sleep(150)
      await lock.extend()
      expect(lock.remaining).toBeGreaterThan(300)
    })

    test('renewal goes on with the new ttl', async () => {
      const lock = await locks.acquire(key, { ttl: 60_000 })
      await lock.extend(200)
      let most = 0
      const end = performance.now() + 800
      while (performance.now() < end) {
        expect(lock.held).toBe(true)
        most = Math.max(most, lock.remaining)
        await sleep(10)
      }
      expect(most).toBeLessThanOrEqual(200)
      expect(await lock.release()).toBe(true)
    })

    test('several at once settle, and the last one counts', async () => {
      const lock = await locks.acquire(key, { autoExtend: false })
      await Promise.all([lock.extend(20_000), lock.extend(500), lock.extend(30_000), lock.extend(1_000)])
      expect(lock.remaining).toBeGreaterThan(700)
      expect(lock.remaining).toBeLessThanOrEqual(1_000)
      expect(await lock.release()).toBe(true)
    })

    test('racing release settles: the lock is given back', async () => {
      for (let i = 0; i < 50; i++) {
        const lock = await locks.acquire(key, { timeout: 2_000 })
        const extended = lock.extend(i % 2 ? 20_000 : 500).catch((error) => error)
        expect(await lock.release()).toBe(true)
        const outcome = await extended
        if (outcome !== undefined)
          expect(outcome).toMatchObject({ code: 'ERR_LOCK_LOST', reason: 'released' })
      }
    })
  })
})
