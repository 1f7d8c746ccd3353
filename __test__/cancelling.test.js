'use strict'

// Waiting ends when the caller says so, and leaves nothing behind: neither in the process nor in the store.

const { getEventListeners } = require('node:events')
const { setTimeout: sleep } = require('node:timers/promises')
const { LockTimeoutError } = require('..')
const { monitor } = require('./support/monitor')
const { startProxy } = require('./support/proxy')
const { eachStore, onServer } = require('./support/stores')
const { until } = require('./support/until')

const took = async (promise) => {
  const from = performance.now()
  const error = await promise.then(
    () => null,
    (reason) => reason,
  )
  return { error, ms: performance.now() - from }
}

eachStore((store) => {
  let locks
  let key

  beforeEach(() => {
    locks = store.createLocks()
    key = store.newKey()
  })

  describe('timeout', () => {
    test('rejects with LockTimeoutError when the lock stayed taken here', async () => {
      const lock = await locks.acquire(key)
      const { error, ms } = await took(locks.acquire(key, { timeout: 150 }))
      expect(error).toBeInstanceOf(LockTimeoutError)
      expect(error).toMatchObject({ code: 'ERR_LOCK_TIMEOUT', key })
      expect(error.message).toContain(key)
      expect(error.waited).toBeGreaterThanOrEqual(145)
      expect(['spinning', 'queued']).toContain(error.phase)
      expect(ms).toBeGreaterThanOrEqual(145)
      expect(ms).toBeLessThan(1_500)
      expect(lock.held).toBe(true)
      expect(locks.stats()).toMatchObject({ held: 1, waiting: 0, timeouts: 1 })
    })

    test('says how it went: the first in line polls, the others are queued behind it', async () => {
      const other = store.elsewhere(key)
      const theirs = await other.locks.acquire(other.key)
      const [first, second] = await Promise.all([
        took(locks.acquire(key, { timeout: 300, strategy: 'backoff' })),
        took(locks.acquire(key, { timeout: 200, strategy: 'backoff' })),
      ])
      expect(first.error).toMatchObject({ code: 'ERR_LOCK_TIMEOUT', phase: 'spinning' })
      expect(first.error.attempts).toBeGreaterThanOrEqual(2)
      expect(second.error).toMatchObject({ code: 'ERR_LOCK_TIMEOUT', phase: 'queued', attempts: 0 })
      if (store.server) expect(first.error.holder).toBe(await store.server.command('GET', `lock:${key}`))
      // Who is told when its turn comes stands in a queue, first in line or not.
      const { error } = await took(locks.acquire(key, { timeout: 50 }))
      expect(error).toMatchObject({ phase: 'queued', holder: first.error.holder })
      expect(theirs.held).toBe(true)
    })

    test('0 is one attempt: the lock if it is free, an error if it is not', async () => {
      const lock = await locks.acquire(key, { timeout: 0 })
      expect(lock.held).toBe(true)
      const other = store.elsewhere(key)
      for (const [manager, name] of [
        [locks, key],
        [other.locks, other.key],
      ]) {
        const { error, ms } = await took(manager.acquire(name, { timeout: 0 }))
        expect(error).toBeInstanceOf(LockTimeoutError)
        expect(ms).toBeLessThan(1_000)
      }
    })

    test('Infinity waits for as long as it takes', async () => {
      const lock = await locks.acquire(key)
      const other = store.elsewhere(key)
      const waiting = [locks.acquire(key, { timeout: Number.POSITIVE_INFINITY })]
      waiting.push(other.locks.acquire(other.key, { timeout: Number.POSITIVE_INFINITY }))
      await sleep(300)
      await lock.release()
      const next = await Promise.race(waiting)
      await next.release()
      await Promise.all(waiting)
    })

    test("the manager's timeout is the default of the call's", async () => {
      const hasty = store.createLocks({ timeout: 50 })
      await hasty.acquire(key)
      expect((await took(hasty.acquire(key))).error).toBeInstanceOf(LockTimeoutError)
      const { ms } = await took(hasty.acquire(key, { timeout: 200 }))
      expect(ms).toBeGreaterThanOrEqual(195)
    })

    test('of one caller leaves the others in line', async () => {
      const lock = await locks.acquire(key)
      const line = [1_000, 50, 1_000].map((timeout) => locks.acquire(key, { timeout }))
      await expect(line[1]).rejects.toBeInstanceOf(LockTimeoutError)
      await lock.release()
      await (await line[0]).release()
      expect((await line[2]).held).toBe(true)
    })
  })

  describe('signal', () => {
    const reasons = [new Error('no more'), 'a word', 0, null, { any: 'thing' }]

    test.each(reasons)('aborted before: rejects with the reason untouched: %p', async (reason) => {
      const signal = AbortSignal.abort(reason)
      const before = locks.stats().commands
      const attempts = [locks.acquire(key, { signal }), locks.tryAcquire(key, { signal })]
      attempts.push(
        locks.withLock(key, { signal }, () => {}),
        locks.tryWithLock(key, { signal }, () => {}),
      )
      for (const attempt of attempts) expect((await took(attempt)).error).toBe(signal.reason)
      expect(locks.stats()).toMatchObject({ acquired: 0, commands: before })
      expect(getEventListeners(signal, 'abort')).toEqual([])
    })

    test.each(reasons)('aborted while waiting: rejects with the reason untouched: %p', async (reason) => {
      await locks.acquire(key)
      const controller = new AbortController()
      const waiting = locks.acquire(key, { signal: controller.signal })
      await sleep(30)
      controller.abort(reason)
      expect((await took(waiting)).error).toBe(reason)
      expect(locks.stats()).toMatchObject({ waiting: 0, failed: 1 })
    })

    test('without a reason, and by AbortSignal.timeout: the DOMException of the platform', async () => {
      await locks.acquire(key)
      const controller = new AbortController()
      const waiting = locks.acquire(key, { signal: controller.signal })
      controller.abort()
      await expect(waiting).rejects.toBe(controller.signal.reason)
      const signal = AbortSignal.timeout(30)
      const { error } = await took(locks.acquire(key, { signal }))
      expect(error).toBe(signal.reason)
      expect(signal.reason.name).toBe('TimeoutError')
    })

    test('the first in line polling for a holder elsewhere can be called off', async () => {
      const other = store.elsewhere(key)
      await other.locks.acquire(other.key)
      const controller = new AbortController()
      const first = locks.acquire(key, { signal: controller.signal, strategy: 'backoff' })
      const second = locks.acquire(key, { timeout: 400, strategy: 'backoff' })
      await sleep(100)
      controller.abort('enough')
      expect((await took(first)).error).toBe('enough')
      // The next one polls in its place.
      expect((await took(second)).error).toMatchObject({ phase: 'spinning', code: 'ERR_LOCK_TIMEOUT' })
    })

    test('cancels the waiting only: a held lock is none of its business', async () => {
      const controller = new AbortController()
      const lock = await locks.acquire(key, { signal: controller.signal })
      controller.abort()
      await sleep(30)
      expect(lock.held).toBe(true)
      expect(lock.signal.aborted).toBe(false)
      expect(await lock.release()).toBe(true)
    })

    test('keeps no listener, however the call ended', async () => {
      const { signal } = new AbortController()
      const listeners = () => getEventListeners(signal, 'abort').length
      const lock = await locks.acquire(key, { signal })
      expect(listeners()).toBe(0)
      await took(locks.acquire(key, { signal, timeout: 0 }))
      await took(locks.acquire(key, { signal, timeout: 30 }))
      expect(await locks.tryAcquire(key, { signal })).toBe(null)
      await took(locks.acquire(key, { signal, ttl: 'x' }))
      expect(listeners()).toBe(0)
      const waiting = locks.acquire(key, { signal })
      await lock.release()
      await (await waiting).release()
      await locks.withLock(key, { signal }, () => expect(listeners()).toBe(0))
      const last = locks.acquire(key, { signal })
      await locks.close()
      await took(last)
      expect(listeners()).toBe(0)
    })

    test('may be aborted from a listener of its own, and at the moment of the grant', async () => {
      for (let round = 0; round < 50; round++) {
        const name = store.newKey()
        const holder = await locks.acquire(name)
        const controller = new AbortController()
        const waiting = locks.acquire(name, { signal: controller.signal })
        const released = holder.release()
        if (round % 2) await sleep(0)
        controller.abort('changed my mind')
        const outcome = await waiting.catch((reason) => reason)
        await released
        // Whoever won, nobody is left: either the caller has the lock, or nobody has it.
        if (outcome === 'changed my mind') {
          const next = await locks.acquire(name, { timeout: 2_000 })
          await next.release()
        } else expect(await outcome.release()).toBe(true)
      }
      expect(locks.stats()).toMatchObject({ held: 0, waiting: 0 })
    })
  })
})

onServer((store) => {
  let proxy
  let locks
  let key
  let seen

  beforeEach(async () => {
    proxy = await startProxy(store.server.port)
    locks = store.createLocks({ url: proxy.url })
    key = store.newKey()
    seen = await monitor(store.server)
    await locks.ready()
  })

  afterEach(() => {
    store.server.resume()
    seen.close()
  })

  // The lease would outlive the test by far: a key that is gone was given back, it has not run out.
  const ttl = 600_000
  const attempts = [
    ['timed out', () => locks.acquire(key, { ttl, timeout: 100 })],
    ['aborted', () => locks.acquire(key, { ttl, signal: AbortSignal.timeout(100) })],
    ['aborted single attempt', () => locks.tryAcquire(key, { ttl, signal: AbortSignal.timeout(100) })],
    ['closed', () => setTimeout(() => locks.close(), 100) && locks.acquire(key, { ttl })],
  ]
  // Looking for a ghost makes sense from its birth on.
  const birth = () => seen.next(`"lock:${key}"`)
  const nothingIsLeft = async () => {
    await until('the key is gone', async () => (await store.server.command('EXISTS', `lock:${key}`)) === 0)
    expect(locks.stats()).toMatchObject({ held: 0, waiting: 0, acquired: 0 })
  }

  test.each(attempts)('P3 no ghost: %s while the network is slow', async (_, attempt) => {
    const born = birth()
    proxy.setDelay(300)
    expect((await took(attempt())).error).not.toBe(null)
    await born
    await nothingIsLeft()
  })

  test.each(attempts)('P3 no ghost: %s while the server stands still', async (_, attempt) => {
    const born = birth()
    store.server.pause()
    expect((await took(attempt())).error).not.toBe(null)
    store.server.resume()
    await born
    await nothingIsLeft()
  })

  test.each(attempts)('P3 no ghost: %s while answers get lost', async (_, attempt) => {
    const born = birth()
    proxy.blackHole('toClient')
    const { error } = await took(attempt())
    expect(error).not.toBe(null)
    await born
    await proxy.resume()
    await nothingIsLeft()
  })

  test('P3 no ghost: many at once, called off at any moment while connections are cut', async () => {
    const keys = Array.from({ length: 200 }, () => store.newKey())
    const outcomes = keys.map((name, i) => {
      const controller = new AbortController()
      setTimeout(() => controller.abort(), i / 2)
      return locks.acquire(name, { ttl, signal: controller.signal }).then(
        (lock) => lock.release(),
        () => {},
      )
    })
    proxy.setDelay(20)
    for (let i = 0; i < 4; i++) {
      await sleep(20)
      proxy.cut()
    }
    await Promise.all(outcomes)
    await proxy.resume()
    const names = keys.map((name) => `lock:${name}`)
    await until('all keys are gone', async () => (await store.server.command('EXISTS', ...names)) === 0)
    expect(locks.stats()).toMatchObject({ held: 0, waiting: 0 })
  })

  test('a caller that goes on waiting gets the lock once, although the answer to its first attempt was lost', async () => {
    const born = birth()
    proxy.blackHole('toClient')
    const waiting = locks.acquire(key, { ttl, timeout: 20_000 })
    await born
    await proxy.resume()
    const lock = await waiting
    expect(lock.held).toBe(true)
    expect(await lock.release()).toBe(true)
    expect(await store.server.command('EXISTS', `lock:${key}`)).toBe(0)
    expect(locks.stats()).toMatchObject({ acquired: 1, released: 1, held: 0 })
  })
})
