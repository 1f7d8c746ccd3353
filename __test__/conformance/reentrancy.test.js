'use strict'

// Asking again for what one has: refused by default, shared where it is wanted, by call stack or by the owner's name.

const { setTimeout: sleep } = require('node:timers/promises')
const { startProxy } = require('../support/proxy')
const { eachStore, onServer } = require('../support/stores')
const { until } = require('../support/until')

eachStore((store) => {
  let locks
  let key
  let other

  beforeEach(() => {
    locks = store.createLocks()
    key = store.newKey()
    other = store.elsewhere(key)
  })

  const takenElsewhere = async () => {
    const lock = await other.locks.tryAcquire(other.key)
    await lock?.release()
    return lock === null
  }

  describe('not reentrant, the default', () => {
    test.each([
      ['the same manager', () => locks],
      ['a second one with equal options', () => store.createLocks()],
    ])('whoever asks again, through %s, is refused at once, and one release frees', async (_, again) => {
      await locks.withLock(key, async (lock) => {
        const from = performance.now()
        const second = again()
        const refusal = { code: 'ERR_LOCK_DEADLOCK', key }
        await expect(second.acquire(key)).rejects.toMatchObject(refusal)
        await expect(second.acquire(key, { timeout: 100 })).rejects.toMatchObject(refusal)
        await expect(second.withLock(key, () => 'never')).rejects.toMatchObject(refusal)
        expect(await second.tryAcquire(key)).toBe(null)
        expect(await second.tryWithLock(key, () => 'never')).toEqual({ acquired: false })
        expect(performance.now() - from).toBeLessThan(1_000)
        expect(lock.held).toBe(true)
        expect(await takenElsewhere()).toBe(true)
      })
      expect(await takenElsewhere()).toBe(false)
    })

    test('another caller waits while it is held, and has it after the release', async () => {
      const lock = await locks.acquire(key)
      let granted = false
      const waiting = other.locks.acquire(other.key).then((second) => {
        granted = true
        return second
      })
      await sleep(300)
      expect(granted).toBe(false)
      await lock.release()
      expect((await waiting).held).toBe(true)
    })
  })

  describe('reentrant', () => {
    const reentrant = true

    test('counts its holds: 1, 2, 1, 0; others are kept out until the last is given back', async () => {
      let outer
      await locks.withLock(key, async (lock) => {
        outer = lock
        expect(outer.holdCount).toBe(1)
        const inner = await locks.acquire(key, { reentrant })
        expect([outer.holdCount, inner.holdCount]).toEqual([2, 2])
        expect(await takenElsewhere()).toBe(true)
        expect(await inner.release()).toBe(true)
        expect([outer.holdCount, inner.holdCount]).toEqual([1, 0])
        expect([outer.held, inner.held]).toEqual([true, false])
        expect(await takenElsewhere()).toBe(true)
      })
      expect([outer.holdCount, outer.held]).toEqual([0, false])
      expect(await takenElsewhere()).toBe(false)
    })

    test('tries succeed, too, and nothing is sent for any of it', async () => {
      await locks.withLock(key, async () => {
        const before = locks.stats().commands
        const first = await locks.tryAcquire(key, { reentrant })
        const second = await locks.tryWithLock(key, { reentrant }, (lock) => lock.holdCount)
        expect(second).toEqual({ acquired: true, result: 3 })
        expect(await first.release()).toBe(true)
        expect(locks.stats().commands).toBe(before)
      })
    })

    test('a nested hold leaves the lease as it is', async () => {
      const options = { ttl: 10_000, autoExtend: false }
      await locks.withLock(key, options, async (outer) => {
        const nested = [await locks.acquire(key, { reentrant }), await locks.acquire(key, { reentrant })]
        for (const lock of nested) await lock.release()
        expect(outer.remaining).toBeGreaterThan(9_000)
        expect(outer.remaining).toBeLessThanOrEqual(10_000)
      })
    })

    test('a nested hold has the fencing token of the lock that it shares', async () => {
      await locks.withLock(key, async (outer) => {
        const tokenOf = (lock) => lock.fencingToken
        expect(await locks.withLock(key, { reentrant }, tokenOf)).toBe(outer.fencingToken)
      })
    })

    test('a hold that outlives the callback keeps the lock until it is given back', async () => {
      const inner = await locks.withLock(key, () => locks.acquire(key, { reentrant }))
      expect(inner.held).toBe(true)
      expect(inner.holdCount).toBe(1)
      expect(await takenElsewhere()).toBe(true)
      expect(await inner.release()).toBe(true)
      expect(await takenElsewhere()).toBe(false)
    })

    test('is no way in for those who come from outside', async () => {
      const lock = await locks.acquire(key)
      expect(await locks.tryAcquire(key, { reentrant })).toBe(null)
      expect(await other.locks.tryAcquire(other.key, { reentrant })).toBe(null)
      expect(lock.held).toBe(true)
    })
  })

  describe('an owner by name', () => {
    test('holds as often as it asks, in all processes, and keeps every other owner out until the last release', async () => {
      const first = await locks.acquire(key, { owner: 'one' })
      expect(first.holdCount).toBe(1)
      const second = await other.locks.acquire(other.key, { owner: 'one' })
      expect(second.holdCount).toBe(2)
      const others = async () => [
        await locks.tryAcquire(key, { owner: 'two' }),
        await other.locks.tryAcquire(other.key, { owner: 'two' }),
        await other.locks.tryAcquire(other.key),
      ]
      expect(await others()).toEqual([null, null, null])
      expect(await first.release()).toBe(true)
      expect(await first.release()).toBe(true)
      // Given back twice, it counts once.
      expect(second.held).toBe(true)
      expect(await others()).toEqual([null, null, null])
      expect(await second.release()).toBe(true)
      const next = await other.locks.acquire(other.key, { owner: 'two' })
      expect(next).toMatchObject({ held: true, holdCount: 1 })
    })

    test('waits for another owner, and is let in when that one is done', async () => {
      const first = await locks.acquire(key, { owner: 'one' })
      const waiting = other.locks.acquire(other.key, { owner: 'two' })
      await expect(other.locks.acquire(other.key, { owner: 'three', timeout: 200 })).rejects.toMatchObject({
        code: 'ERR_LOCK_TIMEOUT',
      })
      await first.release()
      expect((await waiting).held).toBe(true)
    })

    test("after two holds of one owner and two releases, the next owner's lock is renewed as ever", async () => {
      const options = { owner: 'one', ttl: 200 }
      const holds = [await locks.acquire(key, options), await locks.acquire(key, options)]
      for (const lock of holds) expect(await lock.release()).toBe(true)
      const lock = await other.locks.acquire(other.key, { owner: 'two', ttl: 200 })
      await sleep(2_000)
      expect(lock.held).toBe(true)
      expect(await locks.tryAcquire(key, { owner: 'one' })).toBe(null)
    })
  })
})

onServer((store) => {
  test('a hold whose first answer was lost counts once: the command that is sent again is known to be the same', async () => {
    const proxy = await startProxy(store.server.port)
    const locks = store.createLocks({ url: proxy.url, commandTimeout: 300 })
    const others = store.createLocks()
    const key = store.newKey()
    await locks.ready()
    proxy.blackHole('toClient')
    const waiting = locks.acquire(key, { owner: 'one', ttl: 5_000, timeout: 20_000 })
    await until('it is granted', () => store.server.command('EXISTS', `lock:${key}`))
    await proxy.resume()
    const lock = await waiting
    expect(lock.holdCount).toBe(1)
    expect(await others.tryAcquire(key, { owner: 'two' })).toBe(null)
    expect(await lock.release()).toBe(true)
    expect((await others.tryAcquire(key, { owner: 'two' })).held).toBe(true)
  })
})
