'use strict'

// close(): who is turned away, who may finish, and what is left.

const { once } = require('node:events')
const { setTimeout: sleep } = require('node:timers/promises')
const { LockClosedError, LockLostError } = require('..')
const { eachStore } = require('./support/stores')

eachStore((store) => {
  let locks
  let key

  beforeEach(() => {
    locks = store.createLocks()
    key = store.newKey()
  })

  const isFree = async (name) => {
    const lock = await store.createLocks().tryAcquire(name)
    await lock?.release()
    return lock !== null
  }

  test('refuses what comes after it', async () => {
    await locks.acquire(key)
    await locks.close()
    const calls = [
      locks.acquire(key),
      locks.tryAcquire(key),
      locks.withLock(key, () => {}),
      locks.tryWithLock(key, () => {}),
      locks.ready(),
    ]
    for (const call of calls) {
      const error = await call.catch((reason) => reason)
      expect(error).toBeInstanceOf(LockClosedError)
      expect(error.code).toBe('ERR_LOCK_CLOSED')
    }
  })

  test('turns away who waits', async () => {
    const other = store.elsewhere(key)
    await other.locks.acquire(other.key)
    const mine = store.newKey()
    await locks.acquire(mine)
    const waiting = [
      locks.acquire(key, { timeout: Number.POSITIVE_INFINITY }),
      locks.acquire(key),
      locks.acquire(mine),
    ]
    await sleep(50)
    await Promise.all([
      locks.close(),
      ...waiting.map((each) => expect(each).rejects.toBeInstanceOf(LockClosedError)),
    ])
    expect(locks.stats()).toMatchObject({ held: 0, waiting: 0 })
  })

  test('ends and gives back what is held', async () => {
    const lost = once(locks, 'lost')
    const lock = await locks.acquire(key)
    const { signal } = lock
    await locks.close()
    expect(lock.held).toBe(false)
    expect(signal.aborted).toBe(true)
    expect(signal.reason).toBeInstanceOf(LockLostError)
    expect(signal.reason).toMatchObject({ code: 'ERR_LOCK_LOST', reason: 'closed', key })
    expect((await lost)[0]).toBe(signal.reason)
    expect(await isFree(key)).toBe(true)
    expect(() => lock.assertHeld()).toThrow(expect.objectContaining({ reason: 'closed' }))
    await expect(lock.extend()).rejects.toMatchObject({ code: 'ERR_LOCK_LOST', reason: 'closed' })
    // It was closed, not gone: whatever the answer is, it is one, and no error.
    expect(typeof (await lock.release())).toBe('boolean')
  })

  test('waits up to drain for holders to finish', async () => {
    const lock = await locks.acquire(key)
    const closing = locks.close({ drain: 5_000 })
    await expect(locks.acquire(key)).rejects.toBeInstanceOf(LockClosedError)
    await sleep(50)
    expect(lock.held).toBe(true)
    await lock.extend(8_000)
    expect(await lock.release()).toBe(true)
    const from = performance.now()
    await closing
    expect(performance.now() - from).toBeLessThan(1_000)
    expect(lock.signal.aborted).toBe(false)
  })

  test('drain ends: who is left then is aborted', async () => {
    const lock = await locks.acquire(key)
    const from = performance.now()
    await locks.close({ drain: 150 })
    expect(performance.now() - from).toBeGreaterThanOrEqual(145)
    expect(lock.signal.reason).toMatchObject({ reason: 'closed' })
    expect(await isFree(key)).toBe(true)
  })

  test('a holder drained by Infinity takes the time it takes, and a renewed lock stays renewed', async () => {
    const lock = await locks.acquire(key, { ttl: 150 })
    const closing = locks.close({ drain: Number.POSITIVE_INFINITY })
    await sleep(500)
    expect(lock.held).toBe(true)
    await lock.release()
    await closing
  })

  test('withLock whose function outlasts close tells of the loss', async () => {
    const attempt = locks.withLock(key, async (lock) => {
      await once(lock.signal, 'abort')
      return 'result'
    })
    attempt.catch(() => {})
    await sleep(20)
    await locks.close()
    await expect(attempt).rejects.toMatchObject({ code: 'ERR_LOCK_LOST', reason: 'closed', result: 'result' })
  })

  test('is idempotent, at the same time and later, and fine for a manager that was never used', async () => {
    await locks.acquire(key)
    expect(await Promise.all([locks.close(), locks.close({ drain: 0 })])).toEqual([undefined, undefined])
    expect(await locks.close()).toBe(undefined)
    await store.createLocks().close()
  })

  test('is what Symbol.asyncDispose does', async () => {
    const lock = await locks.acquire(key)
    expect(await locks[Symbol.asyncDispose]()).toBe(undefined)
    expect(lock.held).toBe(false)
  })

  test('ends only its own: a manager that shares the connection goes on, holding and waiting', async () => {
    const sharer = store.createLocks()
    const theirs = await sharer.acquire(key)
    const mine = await locks.acquire(store.newKey())
    const waiting = sharer.acquire(mine.key)
    await locks.close()
    expect(theirs.held).toBe(true)
    expect(theirs.signal.aborted).toBe(false)
    expect((await waiting).held).toBe(true)
    expect(await theirs.release()).toBe(true)
    expect((await sharer.acquire(key)).held).toBe(true)
  })

  test('a manager created after it is as good as new', async () => {
    await locks.withLock(key, () => {})
    await locks.close()
    const next = store.createLocks()
    expect(await next.withLock(key, () => 'value')).toBe('value')
  })

  test('while hundreds come and go, everything settles', async () => {
    const outcomes = Array.from({ length: 500 }, (_, i) =>
      locks
        .withLock(`${key}:${i % 20}`, () => sleep(i % 3))
        .then(
          () => 'done',
          (error) => error.code,
        ),
    )
    await sleep(10)
    await locks.close()
    const seen = new Set(await Promise.all(outcomes))
    for (const outcome of seen) expect(['done', 'ERR_LOCK_CLOSED', 'ERR_LOCK_LOST']).toContain(outcome)
    for (let i = 0; i < 20; i++) expect(await isFree(`${key}:${i}`)).toBe(true)
  })
})
