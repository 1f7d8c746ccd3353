'use strict'

// Caches at odds with what is around them: values that can't be read, errors that can't be looked at, loads that are overruled while
// they listen, the end of a manager at the wrong moment. Each once, on every store.

const { AsyncLocalStorage } = require('node:async_hooks')
const { setTimeout: sleep } = require('node:timers/promises')
const { CacheDeadlockError, CacheLoadError, LockClosedError } = require('..')
const { startProxy } = require('./support/proxy')
const { eachStore, onServer } = require('./support/stores')
const { until } = require('./support/until')

const never = () => {
  throw new Error('this must not be loaded')
}

/** As its documentation says a loader should be. */
function listening(value, ms, { signal }) {
  return new Promise((resolve, reject) => {
    const timer = setTimeout(resolve, ms, value)
    signal.addEventListener('abort', () => {
      clearTimeout(timer)
      reject(signal.reason)
    })
  })
}

eachStore((store) => {
  let locks
  let elsewhere
  let key

  beforeEach(() => {
    locks = store.createLocks()
    elsewhere = store.server
      ? store.createLocks({ url: store.server.otherUrl })
      : store.createLocks({ commandTimeout: 1_999 })
    key = store.newKey()
  })

  const torn = {
    encode: String,
    decode: () => {
      throw new Error('torn')
    },
  }

  describe('a value that can not be decoded', () => {
    const terms = { ttl: 100, ttlJitter: 0, staleIfError: 60_000, waitTimeout: 50 }

    test('is no old value: not for a load that fails, not for who waits for too long, not for a loader', async () => {
      const cache = locks.cache({ ...terms, codec: torn })
      await cache.set(key, 'x')
      await sleep(120)
      await expect(cache.getOrSet(key, never)).rejects.toBeInstanceOf(CacheLoadError)
      const previous = jest.fn((context) => `${context.previous}`)
      await cache.getOrSet(key, previous).catch(() => {})
      expect(previous.mock.results[0].value).toBe('undefined')
      await sleep(120)
      let go
      const loading = locks.cache(terms).getOrSet(`${key}!`, () => new Promise((resolve) => (go = resolve)))
      await until('it is loaded', () => go)
      for (const onWaitTimeout of ['stale', 'throw']) {
        const call = cache.getOrSet(`${key}!`, never, { onWaitTimeout })
        await expect(call).rejects.toMatchObject({ code: 'ERR_CACHE_TIMEOUT' })
      }
      go(1)
      expect(await loading).toBe(1)
    })

    test('does not keep anybody busy who waits for its successor', async () => {
      const cache = elsewhere.cache({ ttl: 60_000 })
      await locks.cache({ ttl: 60_000, codec: torn }).set(key, 'x')
      let go
      const load = () => new Promise((resolve) => (go = resolve))
      const loading = locks.cache({ ttl: 60_000 }).getOrSet(key, load)
      await until('it is loaded', () => go)
      const waiting = cache.getOrSet(key, never)
      await until('it waits', () => cache.stats().waits > 0)
      const before = elsewhere.stats().commands
      await sleep(500)
      expect(elsewhere.stats().commands - before).toBeLessThan(20)
      expect(cache.stats().readFailures).toBeLessThan(5)
      go('new')
      expect(await Promise.all([loading, waiting])).toEqual(['new', 'new'])
    })
  })

  describe.each(['set', 'delete', 'expire'])(
    '%s while it is loaded by who listens to its signal',
    (order) => {
      test.each(['here', 'elsewhere'])('ordered %s: nobody gets an error', async (where) => {
        const cache = locks.cache({ ttl: 60_000, lockTtl: 300 })
        const other = (where === 'here' ? locks : elsewhere).cache({ ttl: 60_000 })
        const load = jest.fn((context) => listening('loaded', 400, context))
        const calls = [cache.getOrSet(key, load), cache.getOrSet(key, load)]
        await until('it is loaded', () => load.mock.calls.length === 1)
        if (order === 'set') await other.set(key, 'set')
        else await other[order](key)
        const value = order === 'set' ? 'set' : 'loaded'
        expect(await Promise.all(calls)).toEqual([value, value])
        expect(load).toHaveBeenCalledTimes(order === 'set' ? 1 : 2)
      })

      test('in the background: that is no failure', async () => {
        const cache = locks.cache({ ttl: 100, ttlJitter: 0, staleFor: 60_000, errorBackoff: 60_000 })
        const failed = jest.fn()
        cache.on('loadFailed', failed)
        await cache.set(key, 'old')
        await sleep(120)
        const load = jest.fn((context) => listening('loaded', 400, context))
        expect(await cache.getOrSet(key, load)).toBe('old')
        await until('it is loaded', () => load.mock.calls.length === 1)
        if (order === 'set') await cache.set(key, 'set', { ttl: 100 })
        else await cache[order](key)
        await sleep(120)
        await until('it is loaded anew', async () => (await cache.getOrSet(key, () => 'anew')) === 'anew')
        expect(failed).not.toHaveBeenCalled()
      })
    },
  )

  describe('a loader', () => {
    const revoked = () => {
      const { proxy, revoke } = Proxy.revocable({}, {})
      revoke()
      throw proxy
    }
    test.each([
      [
        'whose name is an object',
        () => Promise.reject(Object.assign(new Error('x'), { name: { __proto__: null } })),
      ],
      ['that throws at any look', () => Promise.reject(new Proxy({}, { get: never }))],
      ['that is a revoked proxy', revoked],
      ['without a prototype', () => Promise.reject({ __proto__: null })],
      ['that is a symbol', () => Promise.reject(Symbol('s'))],
    ])('may fail with an error %s: no lock stays', async (_, load) => {
      const cache = locks.cache({ ttl: 60_000 })
      const error = await cache.getOrSet(key, load).catch((reason) => reason)
      expect(error.code).toBe('ERR_CACHE_LOAD')
      expect(locks.stats().held).toBe(0)
      expect(await elsewhere.cache({ ttl: 60_000 }).getOrSet(key, () => 1)).toBe(1)
    })

    test('runs where it was called, as does a fallback', async () => {
      const storage = new AsyncLocalStorage()
      const cache = locks.cache({ ttl: 60_000 })
      const load = () => Promise.reject(new Error(storage.getStore()))
      const call = () =>
        cache.getOrSet(key, load, { fallback: (error) => [error.cause.message, storage.getStore()] })
      expect(await storage.run('one', call)).toEqual(['one', 'one'])
      expect(await storage.run('two', call)).toEqual(['two', 'two'])
    })

    test('knows that it holds a lock of its caller', async () => {
      const cache = locks.cache({ ttl: 60_000 })
      const nested = () => locks.withLock(`${key}!`, { reentrant: true, timeout: 500 }, () => 'in')
      expect(await locks.withLock(`${key}!`, () => cache.getOrSet(key, nested))).toBe('in')
    })

    test('that waits for itself in a roundabout way is told', async () => {
      const [cache, twin] = [locks.cache({ ttl: 60_000 }), locks.cache({ ttl: 60_000 })]
      const cause = async (call) => {
        let error = await call().catch((reason) => reason)
        while (error instanceof CacheLoadError) error = error.cause
        return error
      }
      const ways = [
        () => cache.refresh(key, () => cache.getOrSet(key, never)),
        () => cache.getOrSet(key, () => cache.refresh(key, never)),
        () => cache.refresh(key, () => cache.refresh(key, never)),
        () => cache.getOrSet(key, () => twin.getOrSet(key, never)),
        () => cache.getOrSet(key, () => cache.getOrSet(`${key}!`, () => cache.getOrSet(key, never))),
      ]
      for (const way of ways) expect(await cause(way)).toBeInstanceOf(CacheDeadlockError)
      // What is there can be read, and work that is detached waits for nobody who waits for it.
      await cache.set(key, 'there')
      expect(await cache.refresh(key, () => cache.getOrSet(key, never))).toBe('there')
      let later
      await cache.refresh(key, () => {
        later = locks.detached(() => cache.refresh(key, () => 'later'))
        return 'now'
      })
      expect(await later).toBe('later')
    })
  })

  test.each(['throw', 'stale', 'load'])(
    'waitTimeout: 0 with %p is no time-out where nobody else loads',
    async (onWaitTimeout) => {
      const cache = locks.cache({ ttl: 60_000, waitTimeout: 0, onWaitTimeout })
      expect(await cache.getOrSet(key, () => 1)).toBe(1)
      expect(await cache.get(key)).toBe(1)
      expect(cache.stats().waitTimeouts).toBe(0)
    },
  )

  test('who loads for himself does not get what was loaded before he asked', async () => {
    let go
    const loading = locks.cache({ ttl: 60_000 }).getOrSet(key, () => new Promise((resolve) => (go = resolve)))
    await until('it is loaded', () => go)
    const cache = elsewhere.cache({ ttl: 60_000, waitTimeout: 30 })
    const load = async () => {
      const at = performance.now()
      await sleep(100)
      return at
    }
    for (let i = 0; i < 5; i++) {
      const asked = performance.now()
      const other = sleep(50).then(() => cache.getOrSet(key, load))
      expect(await cache.getOrSet(key, load)).toBeGreaterThan(asked)
      expect(await other).toBeGreaterThan(asked + 40)
    }
    go(1)
    await loading
  })

  test('a value that was deleted is refreshed on time by a loader that looks for the previous one', async () => {
    const cache = locks.cache({ refreshEvery: 100 })
    const seen = []
    const load = ({ previous }) => seen.push(previous)
    await cache.getOrSet(key, load)
    await until('it is refreshed', () => seen.length >= 2)
    await cache.delete(key)
    await until('it is there again', async () => (await cache.get(key)) !== undefined)
    expect(seen.slice(0, 2)).toEqual([undefined, 1])
    expect(seen.filter((each) => each === undefined).length).toBeGreaterThan(1)
  })

  describe('close()', () => {
    test('while values are read', async () => {
      const cache = locks.cache({ ttl: 60_000 })
      await cache.set(key, 1)
      const calls = [cache.getOrSet(key, never), cache.get(key), cache.set(key, 2), cache.refresh(key, never)]
      await locks.close()
      for (const { status, reason } of await Promise.allSettled(calls)) {
        if (status === 'rejected') expect(reason).toBeInstanceOf(LockClosedError)
      }
    })

    test('while a loader hangs, without or with somebody who waits, and while one runs on time', async () => {
      const cache = locks.cache({ ttl: 60_000, loadTimeout: Infinity })
      const hangs = jest.fn(() => new Promise(() => {}))
      const calls = [cache.getOrSet(key, hangs)]
      await until('it is loaded', () => hangs.mock.calls.length === 1)
      await cache.set(`${key}!`, 'old', { ttl: 100, ttlJitter: 0, staleFor: 60_000 })
      await sleep(120)
      await cache.getOrSet(`${key}!`, hangs, { staleFor: 60_000 })
      await until('it is loaded', () => hangs.mock.calls.length === 2)
      await cache.getOrSet(`${key}?`, () => 1, { refreshEvery: 100 })
      const timed = jest.fn(() => new Promise(() => {}))
      await cache.getOrSet(`${key}?`, timed, { refreshEvery: 100 })
      await until('it is loaded', () => timed.mock.calls.length === 1)
      await locks.close()
      const [{ reason }] = await Promise.allSettled(calls)
      expect(reason).toBeInstanceOf(LockClosedError)
      for (const [{ signal }] of [...hangs.mock.calls, ...timed.mock.calls]) {
        expect(signal.reason).toBeInstanceOf(LockClosedError)
      }
      await sleep(150)
      expect(timed).toHaveBeenCalledTimes(1)
    })
  })

  test('old values cost one command each while somebody else loads, or nobody is to', async () => {
    const terms = { ttl: 100, ttlJitter: 0, staleFor: 60_000 }
    const [cache, other] = [locks.cache(terms), elsewhere.cache(terms)]
    await cache.set(key, 'old')
    await sleep(120)
    let go
    const load = () => new Promise((_, reject) => (go = reject))
    await cache.getOrSet(key, load)
    await until('it is loaded', () => go)
    for (const end of [() => {}, () => go(new Error('no'))]) {
      end()
      await sleep(20)
      const before = elsewhere.stats().commands
      for (let i = 0; i < 100; i++) expect(await other.getOrSet(key, never)).toBe('old')
      expect(elsewhere.stats().commands - before).toBeLessThan(120)
    }
  })

  test('keys that are names of locks are refused', async () => {
    const cache = store.createLocks({ keyPrefix: '' }).cache({ ttl: 60_000, prefix: '' })
    for (const name of ['load:x', '~f{0}']) {
      await expect(cache.getOrSet(name, never)).rejects.toMatchObject({ code: 'ERR_INVALID_ARG_VALUE' })
      await expect(cache.set(name, 1)).rejects.toThrow('as names of locks do')
    }
    expect(await cache.getOrSet(`${key}load:`, () => 1)).toBe(1)
    expect(await locks.cache({ ttl: 60_000 }).getOrSet('load:x', () => 1)).toBe(1)
  })
})

onServer((store) => {
  test('who asks after a delete is not served by an answer from before it that is still on its way', async () => {
    const proxy = await startProxy(store.server.port)
    const near = store.createLocks().cache({ ttl: 60_000 })
    const far = store.createLocks({ url: proxy.url }).cache({ ttl: 60_000 })
    const key = store.newKey()
    let source = 'old'
    const load = async () => source
    await near.set(key, 'old')
    await far.get(key)
    proxy.setDelay(200, 'toClient')
    const before = far.getOrSet(key, load)
    await sleep(50)
    source = 'new'
    await near.delete(key)
    expect(await Promise.all([before, far.getOrSet(key, load)])).toEqual(['old', 'new'])
    proxy.setDelay(0)
    await until('the delay is over', async () => {
      const began = performance.now()
      await far.get(key)
      return performance.now() - began < 50
    })

    // Nor by the end of a load.
    await near.delete(key)
    source = 'old'
    let go
    const loading = far.getOrSet(key, async () => {
      const seen = source
      await new Promise((resolve) => (go = resolve))
      return seen
    })
    await until('it is loaded', () => go)
    proxy.setDelay(200, 'toClient')
    go()
    await until('it is stored', async () => (await near.get(key)) === 'old')
    source = 'new'
    await near.delete(key)
    expect(await Promise.all([loading, far.getOrSet(key, load)])).toEqual(['old', 'new'])
  })

  test('nor by a load without a lock that began before it', async () => {
    const near = store.createLocks({ url: store.server.otherUrl })
    const cache = store.createLocks().cache({ ttl: 60_000 })
    const key = store.newKey()
    await cache.get(key)
    let source = 'old'
    const load = async () => {
      const seen = source
      await sleep(1_000)
      return seen
    }
    await store.server.kill()
    const before = cache.getOrSet(key, load)
    await until('it is loaded', () => cache.stats().loads === 1)
    await store.server.restart()
    await near.ready()
    source = 'new'
    await near.cache({ ttl: 60_000 }).delete(key)
    expect(await cache.getOrSet(key, load)).toBe('new')
    expect(await before).toBe('old')
  })
})
