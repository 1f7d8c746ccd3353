'use strict'

// What every call promises, on every store.

const { AsyncLocalStorage } = require('node:async_hooks')
const { EventEmitter } = require('node:events')
const { setTimeout: sleep } = require('node:timers/promises')
const holdfast = require('..')
const { eachStore } = require('./support/stores')

const { Lock, LockManager, LockLostError, LockTimeoutError, LockError, isLockError } = holdfast

eachStore((store) => {
  let locks
  let key

  beforeEach(() => {
    locks = store.createLocks()
    key = store.newKey()
  })

  describe('acquire', () => {
    test('gives a lock that says what it is', async () => {
      const lock = await locks.acquire(key)
      expect(lock).toBeInstanceOf(Lock)
      expect(lock.key).toBe(key)
      expect(lock.keys).toEqual([key])
      expect(lock.token).toEqual(expect.stringMatching(/./))
      expect(Number.isSafeInteger(lock.fencingToken)).toBe(true)
      expect(lock.waited).toBeGreaterThanOrEqual(0)
      expect(lock.held).toBe(true)
      expect(lock.remaining).toBeGreaterThan(0)
      expect(lock.remaining).toBeLessThanOrEqual(10_000)
      expect(lock.signal).toBeInstanceOf(AbortSignal)
      expect(lock.signal).toBe(lock.signal)
      expect(lock.signal.aborted).toBe(false)
      expect(lock.assertHeld()).toBe(undefined)
    })

    test('waits for a holder of the same manager, and says for how long', async () => {
      const first = await locks.acquire(key)
      const second = locks.acquire(key)
      await sleep(120)
      expect(locks.stats()).toMatchObject({ held: 1, waiting: 1 })
      await first.release()
      expect((await second).waited).toBeGreaterThanOrEqual(110)
    })

    test('waits for a holder elsewhere', async () => {
      const other = store.elsewhere(key)
      const theirs = await other.locks.acquire(other.key)
      let granted = false
      const mine = locks.acquire(key).then((lock) => {
        granted = true
        return lock
      })
      await sleep(200)
      expect(granted).toBe(false)
      await theirs.release()
      expect((await mine).held).toBe(true)
    })

    test('keys, and prefixes, are worlds of their own', async () => {
      const held = await Promise.all([
        locks.acquire(key),
        locks.acquire(`${key}:other`),
        locks.acquire(` ${key}`),
        locks.acquire(`{${key}}`),
        store.createLocks({ keyPrefix: 'elsewhere:' }).acquire(key),
      ])
      expect(held.every((lock) => lock.held)).toBe(true)
    })

    test('prefix and key together are the name: the same name by another prefix is the same lock', async () => {
      const lock = await store.createLocks({ keyPrefix: 'a:' }).acquire(`b:${key}`)
      const other = store.createLocks({ keyPrefix: 'a:b:' })
      expect(await other.tryAcquire(key)).toBe(null)
      await lock.release()
      expect(await other.tryAcquire(key)).toBeInstanceOf(Lock)
    })

    test('takes any well-formed string as key, and gives it back as it was', async () => {
      for (const name of ['ключ 🔑', '{a}{b', 'a\0b', '\n', 'x'.repeat(65_536), '~q~f~s', '*']) {
        const lock = await locks.acquire(name)
        expect(lock.key).toBe(name)
        expect(await locks.tryAcquire(name)).toBe(null)
        expect(await lock.release()).toBe(true)
      }
    })

    test('tokens are unique, also when the lock is handed on inside the process', async () => {
      const tokens = await Promise.all(
        Array.from({ length: 50 }, async () => {
          const lock = await locks.acquire(key)
          await lock.release()
          return lock.token
        }),
      )
      expect(new Set(tokens).size).toBe(50)
    })

    test('P1 exclusion: callers of two cores never hold a key together', async () => {
      const other = store.elsewhere(key)
      let inside = 0
      let most = 0
      const turn = async (manager, name) => {
        const lock = await manager.acquire(name, { timeout: 20_000 })
        most = Math.max(most, ++inside)
        await sleep(1)
        inside--
        await lock.release()
      }
      const callers = []
      for (let i = 0; i < 20; i++) callers.push(turn(locks, key), turn(other.locks, other.key))
      await Promise.all(callers)
      expect(most).toBe(1)
    })
  })

  describe('tryAcquire', () => {
    test('gives the lock if it is free, and null while somebody holds it here or elsewhere', async () => {
      const lock = await locks.tryAcquire(key)
      expect(lock).toBeInstanceOf(Lock)
      expect(await locks.tryAcquire(key)).toBe(null)
      expect(await store.createLocks().tryAcquire(key)).toBe(null)
      const other = store.elsewhere(key)
      expect(await other.locks.tryAcquire(other.key)).toBe(null)
      await lock.release()
      const theirs = await other.locks.tryAcquire(other.key)
      expect(theirs).toBeInstanceOf(Lock)
      expect(await locks.tryAcquire(key)).toBe(null)
    })

    test('null means busy in the counters, neither a timeout nor a failure', async () => {
      await locks.acquire(key)
      await locks.tryAcquire(key)
      expect(locks.stats()).toMatchObject({ busy: 1, timeouts: 0, failed: 0 })
    })
  })

  describe('withLock', () => {
    test('runs the function while the lock is held, and gives its value', async () => {
      let seen
      const result = await locks.withLock(key, async (lock) => {
        seen = lock
        expect(lock).toBeInstanceOf(Lock)
        expect(lock.held).toBe(true)
        expect(await locks.tryAcquire(key)).toBe(null)
        return 'value'
      })
      expect(result).toBe('value')
      expect(seen.held).toBe(false)
      expect(await locks.tryAcquire(key)).toBeInstanceOf(Lock)
    })

    test('takes a function that is not async, and awaits a thenable', async () => {
      expect(await locks.withLock(key, () => 1)).toBe(1)
      const thenable = { then: (resolve) => setTimeout(resolve, 20, 'later') }
      expect(await locks.withLock(key, {}, () => thenable)).toBe('later')
      expect(await locks.withLock(key, {}, () => {})).toBe(undefined)
    })

    test.each([
      [
        'throws',
        (error) => {
          throw error
        },
      ],
      [
        'rejects',
        async (error) => {
          throw error
        },
      ],
    ])("rejects with the function's own error when it %s, and releases", async (_, fail) => {
      const error = new Error('mine')
      await expect(locks.withLock(key, () => fail(error))).rejects.toBe(error)
      await expect(locks.withLock(key, () => fail(null))).rejects.toBe(null)
      expect(await locks.tryAcquire(key)).toBeInstanceOf(Lock)
      expect(locks.stats().failed).toBe(0)
    })

    test('never runs the function without the lock', async () => {
      await locks.acquire(key)
      const fn = jest.fn()
      await expect(locks.withLock(key, { timeout: 30 }, fn)).rejects.toBeInstanceOf(LockTimeoutError)
      const aborted = AbortSignal.abort(new Error('no more'))
      await expect(locks.withLock(key, { signal: aborted }, fn)).rejects.toBe(aborted.reason)
      expect(fn).not.toHaveBeenCalled()
    })

    test("runs the function in the caller's async context", async () => {
      const context = new AsyncLocalStorage()
      const first = await locks.acquire(key)
      const seen = context.run('mine', () => locks.withLock(key, () => context.getStore()))
      await context.run('not mine', () => first.release())
      expect(await seen).toBe('mine')
    })

    const lossy = { ttl: 100, autoExtend: false }

    test('rejects with LockLostError, which carries the result, if the lock was lost meanwhile', async () => {
      const error = await locks.withLock(key, lossy, () => sleep(200, 'result')).catch((reason) => reason)
      expect(error).toBeInstanceOf(LockLostError)
      expect(error).toMatchObject({ code: 'ERR_LOCK_LOST', reason: 'expired', key, result: 'result' })
    })

    test("ifLost: 'ignore' gives the result all the same, per call and as the manager's default", async () => {
      expect(await locks.withLock(key, { ...lossy, ifLost: 'ignore' }, () => sleep(200, 'result'))).toBe(
        'result',
      )
      const lenient = store.createLocks({ ...lossy, ifLost: 'ignore' })
      expect(await lenient.withLock(key, () => sleep(200, 'result'))).toBe('result')
      const strict = lenient.withLock(key, { ifLost: 'reject' }, () => sleep(200))
      await expect(strict).rejects.toBeInstanceOf(LockLostError)
    })

    test("the function's error goes before the loss", async () => {
      const error = new Error('mine')
      const fail = () => sleep(200).then(() => Promise.reject(error))
      await expect(locks.withLock(key, lossy, fail)).rejects.toBe(error)
    })

    test('a function may release its lock itself', async () => {
      expect(await locks.withLock(key, async (lock) => [await lock.release(), 'value'])).toEqual([
        true,
        'value',
      ])
    })
  })

  describe('tryWithLock', () => {
    test('runs the function if the lock is free', async () => {
      expect(await locks.tryWithLock(key, async (lock) => lock.key)).toEqual({ acquired: true, result: key })
      expect(await locks.tryWithLock(key, { ttl: 5_000 }, () => 2)).toEqual({ acquired: true, result: 2 })
      expect(await locks.tryAcquire(key)).toBeInstanceOf(Lock)
    })

    test('skips it if somebody holds the lock', async () => {
      const other = store.elsewhere(key)
      await other.locks.acquire(other.key)
      const fn = jest.fn()
      const outcome = await locks.tryWithLock(key, fn)
      expect(outcome.acquired).toBe(false)
      expect(outcome.result).toBe(undefined)
      expect(fn).not.toHaveBeenCalled()
    })

    test("settles with the function's error, and tells of a loss", async () => {
      const error = new Error('mine')
      await expect(locks.tryWithLock(key, () => Promise.reject(error))).rejects.toBe(error)
      const lossy = { ttl: 100, autoExtend: false }
      await expect(locks.tryWithLock(key, lossy, () => sleep(200, 1))).rejects.toMatchObject({
        reason: 'expired',
        result: 1,
      })
      const ignored = await locks.tryWithLock(key, { ...lossy, ifLost: 'ignore' }, () => sleep(200, 1))
      expect(ignored).toEqual({ acquired: true, result: 1 })
    })
  })

  describe('release', () => {
    test('true when it was ours; then the lock is over and the key free', async () => {
      const lock = await locks.acquire(key)
      const { signal } = lock
      expect(await lock.release()).toBe(true)
      expect(lock.held).toBe(false)
      expect(lock.remaining).toBe(0)
      // The signal tells of a loss only.
      expect(signal.aborted).toBe(false)
      const other = store.elsewhere(key)
      expect(await other.locks.tryAcquire(other.key)).toBeInstanceOf(Lock)
    })

    test('the lock counts as given back from the call on, not from the answer', async () => {
      const lock = await locks.acquire(key)
      const answer = lock.release()
      expect(lock.held).toBe(false)
      expect(lock.remaining).toBe(0)
      expect(await answer).toBe(true)
    })

    test('again gives the same answer again, and touches nobody', async () => {
      const lock = await locks.acquire(key)
      expect(await Promise.all([lock.release(), lock.release()])).toEqual([true, true])
      const next = await locks.acquire(key)
      expect(await lock.release()).toBe(true)
      expect(next.held).toBe(true)
      expect(await locks.tryAcquire(key)).toBe(null)
      expect(locks.stats().released).toBe(1)
    })

    test('false when it was gone; never throws for that', async () => {
      const lock = await locks.acquire(key, { ttl: 100, autoExtend: false })
      await new Promise((resolve) => lock.signal.addEventListener('abort', resolve))
      expect(await lock.release()).toBe(false)
      expect(await lock.release()).toBe(false)
      await lock[Symbol.asyncDispose]()
    })

    test('is what Symbol.asyncDispose does, and what the function of that name does', async () => {
      const lock = await locks.acquire(key)
      expect(await lock[Symbol.asyncDispose]()).toBe(undefined)
      expect(lock.held).toBe(false)
      const next = await locks.acquire(key)
      expect(await holdfast.release(next)).toBe(true)
    })

    test('afterwards assertHeld and extend say that it was released', async () => {
      const lock = await locks.acquire(key)
      await lock.release()
      expect(() => lock.assertHeld()).toThrow(LockLostError)
      const released = { code: 'ERR_LOCK_LOST', reason: 'released', key }
      expect(() => lock.assertHeld()).toThrow(expect.objectContaining(released))
      await expect(lock.extend()).rejects.toMatchObject(released)
    })
  })

  describe('managers', () => {
    test('are event emitters, and ready once the store answers', async () => {
      expect(locks).toBeInstanceOf(LockManager)
      expect(locks).toBeInstanceOf(EventEmitter)
      expect(await locks.ready()).toBe(undefined)
      expect(await locks.ready({ timeout: 100 })).toBe(undefined)
    })

    test('count what they do', async () => {
      const none = {
        acquired: 0,
        handedOn: 0,
        timeouts: 0,
        busy: 0,
        failed: 0,
        released: 0,
        lost: 0,
        held: 0,
        waiting: 0,
      }
      expect(locks.stats()).toMatchObject(none)
      const lock = await locks.acquire(key)
      expect(locks.stats()).toMatchObject({ ...none, acquired: 1, held: 1 })
      await locks.acquire(key, { timeout: 20 }).catch(() => {})
      const waiting = locks.acquire(key, { signal: AbortSignal.timeout(40) })
      expect(locks.stats()).toMatchObject({ acquired: 1, held: 1, waiting: 1, timeouts: 1 })
      await waiting.catch(() => {})
      await lock.release()
      await locks.acquire(key, { ttl: 100, autoExtend: false })
      await new Promise((resolve) => locks.once('lost', resolve))
      expect(locks.stats()).toMatchObject({
        ...none,
        acquired: 2,
        timeouts: 1,
        failed: 1,
        released: 1,
        lost: 1,
      })
      const { acquired, atOnce, handedOn, polled, losses, commands, renewals } = locks.stats()
      expect(atOnce + handedOn + polled).toBe(acquired)
      expect(losses).toMatchObject({ expired: 1, taken: 0, stalled: 0, maxHold: 0 })
      for (const count of [commands, renewals]) expect(Number.isSafeInteger(count)).toBe(true)
    })

    test('count for themselves, although they share a connection', async () => {
      await locks.acquire(key)
      expect(store.createLocks().stats()).toMatchObject({ acquired: 0, held: 0 })
    })
  })

  test('errors can be told apart by class, by code, and without instanceof', async () => {
    await locks.acquire(key)
    const error = await locks.acquire(key, { timeout: 0 }).catch((reason) => reason)
    expect(error).toBeInstanceOf(LockTimeoutError)
    expect(error).toBeInstanceOf(LockError)
    expect(error).toBeInstanceOf(Error)
    expect(error.name).toBe('LockTimeoutError')
    expect(error.stack).toContain(error.message)
    expect(isLockError(error)).toBe(true)
    expect(isLockError(error, 'ERR_LOCK_TIMEOUT')).toBe(true)
    expect(isLockError(error, 'ERR_LOCK_LOST')).toBe(false)
    for (const other of [new Error('x'), null, undefined, 'ERR_LOCK_TIMEOUT', {}])
      expect(isLockError(other)).toBe(false)
  })
})
