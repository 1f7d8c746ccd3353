'use strict'

// Calls from within a `withLock` callback for the key that it holds: told at once instead of waiting for oneself, or
// sharing the lock if that was asked for.

const { createLocks, locks: defaultManager, LockDeadlockError } = require('..')
const { eachStore } = require('./support/stores')

eachStore((store) => {
  let locks, key
  beforeEach(() => {
    locks = store.createLocks()
    key = store.newKey()
  })

  describe('deadlock detection', () => {
    test('asking again from within is told at once, with what helps', async () => {
      const error = await locks.withLock(key, () => locks.withLock(key, () => {})).catch((reason) => reason)
      expect(error).toBeInstanceOf(LockDeadlockError)
      expect(error).toMatchObject({ code: 'ERR_LOCK_DEADLOCK', key })
      expect(error.message).toContain('reentrant')
      expect(error.message).toContain('detached')
      await expect(locks.withLock(key, () => locks.acquire(key))).rejects.toMatchObject({
        code: 'ERR_LOCK_DEADLOCK',
      })
    })

    test('a try finds it taken', async () => {
      expect(await locks.withLock(key, () => locks.tryAcquire(key))).toBe(null)
      expect(await locks.withLock(key, () => locks.tryWithLock(key, () => {}))).toEqual({ acquired: false })
    })

    test('several levels deep, through timers, and by another manager of the same keys', async () => {
      const other = store.createLocks({ ttl: 5_000 })
      const deep = async () => {
        await new Promise((resolve) => setTimeout(resolve, 1))
        return locks.withLock(store.newKey(), () => other.acquire(key))
      }
      await expect(locks.withLock(key, deep)).rejects.toMatchObject({ code: 'ERR_LOCK_DEADLOCK' })
    })

    test('a set that overlaps would wait as well', async () => {
      const [a, b] = [store.newKey(), store.newKey()]
      await expect(locks.withLock([a, b], () => locks.acquire([b, key]))).rejects.toMatchObject({
        code: 'ERR_LOCK_DEADLOCK',
      })
      await expect(
        locks.withLock([a, b], { reentrant: true }, () => locks.acquire([b, key], { reentrant: true })),
      ).rejects.toMatchObject({ code: 'ERR_LOCK_DEADLOCK' })
    })

    test('other keys, other prefixes, and keys that were given back inside are no deadlock', async () => {
      const apart = store.createLocks({ keyPrefix: 'apart:' })
      await locks.withLock(key, async (lock) => {
        await (await locks.acquire(store.newKey())).release()
        await (await apart.acquire(key)).release()
        await lock.release()
        await (await locks.acquire(key)).release()
      })
    })

    test('a caller outside of the callback waits for its turn, as ever', async () => {
      let started
      const inside = new Promise((resolve) => {
        started = resolve
      })
      const order = []
      const first = locks.withLock(key, async () => {
        started()
        await new Promise((resolve) => setTimeout(resolve, 20))
        order.push('first')
      })
      await inside
      await locks.withLock(key, async () => void order.push('second'))
      await first
      expect(order).toEqual(['first', 'second'])
    })

    test('work that outlives the callback is no nested call any more', async () => {
      let later
      await locks.withLock(key, () => {
        later = (async () => {
          await new Promise((resolve) => setTimeout(resolve, 20))
          return locks.withLock(key, () => 'ran')
        })()
      })
      expect(await later).toBe('ran')
    })

    test('detached(fn) starts work that may wait for the lock', async () => {
      let later
      await locks.withLock(key, () => {
        later = locks.detached(() => locks.withLock(key, () => 'ran'))
      })
      expect(await later).toBe('ran')
      expect(locks.detached(() => 5)).toBe(5)
      expect(() => locks.detached(5)).toThrow(TypeError)
      expect(defaultManager.detached(() => 'no server needed')).toBe('no server needed')
    })

    test('detectDeadlock: false waits, as other libraries do', async () => {
      const plain = store.createLocks({ detectDeadlock: false })
      await expect(plain.withLock(key, () => plain.acquire(key, { timeout: 30 }))).rejects.toMatchObject({
        code: 'ERR_LOCK_TIMEOUT',
      })
    })
  })

  describe('reentrant', () => {
    test('nested calls share the lock, and the last release gives it back', async () => {
      const reentrant = store.createLocks({ reentrant: true })
      const { locks: others, key: theirs } = store.elsewhere(key)
      const { commands } = reentrant.stats()
      await reentrant.withLock(key, async (outer) => {
        expect(outer.holdCount).toBe(1)
        const inner = await reentrant.acquire(key)
        expect([outer.holdCount, inner.holdCount]).toEqual([2, 2])
        expect(inner).toMatchObject({ token: outer.token, fencingToken: outer.fencingToken, held: true })
        expect(await inner.release()).toBe(true)
        expect(await inner.release()).toBe(true) // of the same hold: counts once
        expect(inner).toMatchObject({ held: false, holdCount: 0 })
        expect(() => inner.assertHeld()).toThrow(/released before/)
        expect(outer).toMatchObject({ held: true, holdCount: 1 })
        expect(await others.tryAcquire(theirs)).toBe(null)
        expect(await reentrant.withLock(key, (again) => again.holdCount)).toBe(2)
        expect(await reentrant.tryWithLock(key, () => 'in')).toEqual({ acquired: true, result: 'in' })
      })
      expect(await others.tryAcquire(theirs)).not.toBe(null)
      if (store.server) expect(reentrant.stats().commands - commands).toBeLessThanOrEqual(2)
    })

    test('siblings of a Promise.all are nested, too: they do not exclude each other', async () => {
      let most = 0
      let inside = 0
      const sibling = () =>
        locks.withLock(key, { reentrant: true }, async () => {
          most = Math.max(most, ++inside)
          await new Promise((resolve) => setTimeout(resolve, 5))
          inside--
        })
      await locks.withLock(key, () => Promise.all([sibling(), sibling(), sibling()]))
      expect(most).toBe(3)
    })

    test('a part of the keys that are held is held', async () => {
      const [a, b] = [store.newKey(), store.newKey()]
      await locks.withLock([a, b], async (outer) => {
        const inner = await locks.acquire(b, { reentrant: true })
        expect(inner.fencingToken).toBe(outer.fencingToken)
        await inner.release()
      })
      expect(await locks.tryAcquire([a, b])).not.toBe(null)
    })

    test('a nested hold that outlives the outer one keeps the lock', async () => {
      const inner = await locks.withLock(key, () => locks.acquire(key, { reentrant: true }))
      expect(inner).toMatchObject({ held: true, holdCount: 1 })
      expect(await locks.tryAcquire(key)).toBe(null)
      expect(await inner.release()).toBe(true)
      expect(await locks.tryAcquire(key)).not.toBe(null)
    })

    test('nobody re-enters a lock that was lost', async () => {
      const work = async (lock) => {
        await new Promise((resolve) => lock.signal.addEventListener('abort', resolve))
        return locks.acquire(key, { reentrant: true })
      }
      const error = await locks.withLock(key, { maxHold: 50 }, work).catch((reason) => reason)
      // Lost is lost: then it may be somebody else's, and the call waits like any other.
      expect(error.code ?? error).toBe('ERR_LOCK_LOST')
    })
  })
})

test('managers without a server in common know nothing of each other', async () => {
  const [one, two] = ['memory:nesting-one', 'memory:nesting-two'].map((url) => createLocks({ url }))
  expect(await one.withLock('key', () => two.withLock('key', () => 'ran'))).toBe('ran')
  await Promise.all([one.close(), two.close()])
})
