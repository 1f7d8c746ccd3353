'use strict'

// Caches: what callers get, on every store. Loaders here are gates: they load when the test says so.

const { setTimeout: sleep } = require('node:timers/promises')
const {
  CacheDeadlockError,
  CacheLoadError,
  CacheTimeoutError,
  CacheValueError,
  LockClosedError,
} = require('..')
const { eachStore } = require('./support/stores')
const { until } = require('./support/until')

/** Resolves when a cache waits for a load, and the store knows that: what is asked later on the same connection is answered. */
async function waits(cache) {
  await until('it waits', () => cache.stats().waits === 1)
  await cache.get('something else')
}

/** A loader that is let go by the test, and counts its runs. */
function gate() {
  const runs = []
  const load = (context) =>
    new Promise((resolve, reject) => {
      runs.push({ context, resolve, reject })
    })
  load.runs = runs
  load.begun = (count = 1) => until(`${count} loads have begun`, () => runs.length >= count)
  return load
}

eachStore((store) => {
  let locks
  let key
  /** Another core, as another process would have. */
  let elsewhere

  beforeEach(() => {
    locks = store.createLocks()
    elsewhere = store.server
      ? store.createLocks({ url: store.server.otherUrl })
      : store.createLocks({ commandTimeout: 1_999 })
    key = store.newKey()
  })

  const never = () => {
    throw new Error('this must not be loaded')
  }

  describe('getOrSet', () => {
    test('loads what is not there, once, and stores it', async () => {
      const cache = locks.cache({ ttl: 60_000 })
      const load = jest.fn(async () => ({ id: 7 }))
      expect(await cache.getOrSet(key, load)).toEqual({ id: 7 })
      expect(await cache.getOrSet(key, load)).toEqual({ id: 7 })
      expect(await elsewhere.cache({ ttl: 60_000 }).getOrSet(key, never)).toEqual({ id: 7 })
      expect(load).toHaveBeenCalledTimes(1)
      expect(load).toHaveBeenCalledWith({ key, signal: expect.any(AbortSignal), previous: undefined })
      expect(cache.stats()).toMatchObject({ hits: 1, misses: 1, loads: 1, loadTimes: { count: 1 } })
    })

    test('one load for all callers of all processes, who wait for the value', async () => {
      const caches = [locks, elsewhere].map((each) => each.cache({ ttl: 60_000 }))
      const load = gate()
      const calls = Array.from({ length: 100 }, (_, i) => caches[i % 2].getOrSet(key, load))
      await load.begun()
      await until('the others wait', () => caches[0].stats().waits + caches[1].stats().waits === 1)
      load.runs[0].resolve([1, { two: 2 }])
      expect(await Promise.all(calls)).toEqual(Array(100).fill([1, { two: 2 }]))
      expect(load.runs.length).toBe(1)
      const herds = caches.map((cache) => cache.stats().herds.max)
      expect(herds).toEqual([50, 50])
    })

    test('gives each caller a value of its own, as it is read back', async () => {
      const cache = locks.cache({ ttl: 60_000 })
      const calls = await Promise.all([1, 2].map(() => cache.getOrSet(key, () => ({ at: new Date(0) }))))
      calls.push(await cache.getOrSet(key, never))
      expect(calls).toEqual(Array(3).fill({ at: '1970-01-01T00:00:00.000Z' }))
      expect(new Set(calls).size).toBe(3)
    })

    test('two caches of one manager are two callers of one load', async () => {
      const caches = [locks.cache({ ttl: 60_000 }), locks.cache({ ttl: 60_000 })]
      const load = gate()
      const calls = caches.map((cache) => cache.getOrSet(key, load))
      await load.begun()
      await until('the other one waits', () => caches[0].stats().waits + caches[1].stats().waits === 1)
      load.runs[0].resolve(1)
      expect(await Promise.all(calls)).toEqual([1, 1])
      expect(load.runs.length).toBe(1)
    })

    test('keys of different prefixes have nothing to do with each other', async () => {
      const [a, b] = ['a:', 'b:'].map((prefix) => locks.cache({ prefix, ttl: 60_000 }))
      expect(await a.getOrSet(key, () => 'a')).toBe('a')
      expect(await b.getOrSet(key, () => 'b')).toBe('b')
    })

    test.each([' ', 'a b\nc', 'ä{ö}€', 'k'.repeat(65_536)])('of a key like %#', async (odd) => {
      const cache = locks.cache({ ttl: 60_000, prefix: `${key} ` })
      const other = elsewhere.cache({ ttl: 60_000, prefix: `${key} ` })
      const load = gate()
      const first = cache.getOrSet(odd, load)
      await load.begun()
      const second = other.getOrSet(odd, never)
      await waits(other)
      load.runs[0].resolve('x')
      expect(await Promise.all([first, second])).toEqual(['x', 'x'])
    })

    test('values that are null or undefined are kept only if asked', async () => {
      const cache = locks.cache({ ttl: 60_000 })
      for (const nothing of [null, undefined]) {
        const load = jest.fn(() => nothing)
        expect(await cache.getOrSet(key, load)).toBe(nothing)
        expect(await cache.getOrSet(key, load)).toBe(nothing)
        expect(load).toHaveBeenCalledTimes(2)
        expect(await cache.getOrSet(key, load, { negativeTtl: 60_000 })).toBe(nothing)
        expect(await cache.getOrSet(key, never)).toBe(nothing)
        expect(load).toHaveBeenCalledTimes(3)
        await cache.delete(key)
      }
    })

    test('who waits elsewhere gets null as well', async () => {
      const load = gate()
      const here = locks.cache({ ttl: 60_000 }).getOrSet(key, load)
      await load.begun()
      const cache = elsewhere.cache({ ttl: 60_000 })
      const there = cache.getOrSet(key, never)
      await waits(cache)
      load.runs[0].resolve(null)
      expect(await Promise.all([here, there])).toEqual([null, null])
    })

    test('a value of 10 MB, and none that is larger', async () => {
      const cache = locks.cache({ ttl: 60_000, codec: 'buffer' })
      const large = Buffer.alloc(10 * 1_024 * 1_024, 'x')
      expect((await cache.getOrSet(key, () => large)).equals(large)).toBe(true)
      expect((await cache.getOrSet(key, never)).equals(large)).toBe(true)
      const larger = Buffer.concat([large, Buffer.from('y')])
      await expect(cache.getOrSet(`${key}!`, () => larger)).rejects.toBeInstanceOf(CacheValueError)
      await expect(cache.set(`${key}!`, larger)).rejects.toMatchObject({ code: 'ERR_CACHE_VALUE' })
    })
  })

  test('many large values at once are stored one after the other, and cost no lock', async () => {
    const cache = locks.cache({ ttl: 60_000, codec: 'buffer' })
    const failed = jest.fn()
    cache.on('writeFailed', failed)
    locks.on('unavailable', failed)
    const large = Buffer.alloc(10 * 1_024 * 1_024, 'x')
    const names = Array.from({ length: 12 }, (_, i) => `${key}:${i}`)
    await Promise.all(names.map((name) => cache.getOrSet(name, () => large)))
    await Promise.all(names.map((name) => cache.set(name, large)))
    expect(failed).not.toHaveBeenCalled()
    expect(await Promise.all(names.map((name) => cache.delete(name)))).toEqual(Array(12).fill(true))
  })

  describe('codecs', () => {
    test('bytes', async () => {
      const cache = locks.cache({ ttl: 60_000, codec: 'buffer' })
      const bytes = Buffer.from([0, 255, 10, 128])
      expect(await cache.getOrSet(key, () => new Uint8Array(bytes))).toEqual(bytes)
      const [one, other] = [await cache.get(key), await cache.get(key)]
      expect(one).toEqual(bytes)
      one[0] = 9
      expect(other).toEqual(bytes)
    })

    test('of the caller', async () => {
      const codec = {
        encode: (date) => date.toISOString(),
        decode: (text) => new Date(text.toString()),
      }
      const cache = locks.cache({ ttl: 60_000, codec })
      expect(await cache.getOrSet(key, () => new Date(5))).toEqual(new Date(5))
      expect(await cache.getOrSet(key, never)).toEqual(new Date(5))
    })

    test.each([
      ['a BigInt', 1n],
      ['a function', () => {}],
      ['a circle', Object.assign([], { toJSON: undefined })],
    ])(
      'what JSON can not write is an error for all callers, and nobody waits for it: %s',
      async (_, value) => {
        if (Array.isArray(value)) value.push(value)
        const [here, there] = [locks, elsewhere].map((each) => each.cache({ ttl: 60_000 }))
        const load = gate()
        const calls = [here.getOrSet(key, load)]
        await load.begun()
        calls.push(there.getOrSet(key, never))
        await waits(there)
        load.runs[0].resolve(value)
        const [own, other] = await Promise.allSettled(calls)
        expect(own.reason).toBeInstanceOf(CacheValueError)
        expect(other.reason).toMatchObject({ code: 'ERR_CACHE_LOAD', cause: { code: 'ERR_CACHE_VALUE' } })
        expect(await there.getOrSet(key, () => 1)).toBe(1)
      },
    )

    test('a value that can not be decoded is loaded anew, and replaced', async () => {
      const broken = {
        encode: (value) => JSON.stringify(value),
        decode: (bytes) => {
          if (bytes.toString() === '"bad"') throw new Error('torn')
          return JSON.parse(bytes.toString())
        },
      }
      const cache = locks.cache({ ttl: 60_000, codec: broken })
      const failed = jest.fn()
      cache.on('readFailed', failed)
      await cache.set(key, 'bad')
      expect(await cache.get(key)).toBe(undefined)
      expect(await cache.getOrSet(key, () => 'good')).toBe('good')
      expect(await cache.getOrSet(key, never)).toBe('good')
      expect(failed.mock.calls[0][0]).toMatchObject({
        code: 'ERR_CACHE_VALUE',
        key,
        cause: { message: 'torn' },
      })
      // Nor is one that was written by another codec.
      expect(await locks.cache({ ttl: 60_000 }).getOrSet(key, () => 'other')).toBe('other')
    })

    test('a value that can never be decoded is an error, and no endless loop', async () => {
      const codec = {
        encode: () => 'x',
        decode: () => {
          throw new Error('torn')
        },
      }
      const cache = locks.cache({ ttl: 60_000, codec })
      const load = jest.fn(() => 1)
      await expect(cache.getOrSet(key, load)).rejects.toMatchObject({ code: 'ERR_CACHE_VALUE' })
      await expect(cache.getOrSet(key, load)).rejects.toMatchObject({ code: 'ERR_CACHE_VALUE' })
      expect(load).toHaveBeenCalledTimes(2)
    })
  })

  describe('age', () => {
    test('a value is fresh for its ttl', async () => {
      const cache = locks.cache({ ttl: 200, ttlJitter: 0, earlyRefresh: false })
      await cache.set(key, 1)
      expect(await cache.getOrSet(key, never)).toBe(1)
      await until('it is over', async () => (await cache.get(key)) === undefined)
      expect(await cache.getOrSet(key, () => 2)).toBe(2)
    })

    test('staleFor: the old value at once, and one load in the background of the whole fleet', async () => {
      const terms = { ttl: 100, ttlJitter: 0, staleFor: 60_000 }
      const caches = [locks, elsewhere].map((each) => each.cache(terms))
      await caches[0].set(key, 'old')
      await until('it is old', async () => (await caches[0].get(key, { staleFor: 0 })) === undefined)
      const load = gate()
      const answers = await Promise.all(
        Array.from({ length: 50 }, (_, i) => caches[i % 2].getOrSet(key, load)),
      )
      expect(answers).toEqual(Array(50).fill('old'))
      await load.begun()
      expect(await caches[1].getOrSet(key, load)).toBe('old')
      expect(load.runs[0].context.previous).toBe('old')
      load.runs[0].resolve('new')
      await until('it is stored', async () => (await caches[1].get(key)) === 'new')
      expect(load.runs.length).toBe(1)
      expect(caches[0].stats().staleHits + caches[1].stats().staleHits).toBeGreaterThanOrEqual(51)
    })

    test('a failed load in the background is an event, and is not repeated before errorBackoff is over', async () => {
      const cache = locks.cache({ ttl: 100, ttlJitter: 0, staleFor: 60_000, errorBackoff: 300 })
      const other = elsewhere.cache({ ttl: 100, ttlJitter: 0, staleFor: 60_000, errorBackoff: 300 })
      const failed = jest.fn()
      cache.on('loadFailed', failed)
      await cache.set(key, 'old')
      await until('it is old', async () => (await cache.get(key, { staleFor: 0 })) === undefined)
      const load = jest.fn(() => {
        throw new TypeError('no route')
      })
      expect(await cache.getOrSet(key, load)).toBe('old')
      await until('it failed', () => failed.mock.calls.length === 1)
      expect(failed.mock.calls[0][0]).toMatchObject({
        code: 'ERR_CACHE_LOAD',
        key,
        cause: { message: 'no route' },
      })
      const began = performance.now()
      while (load.mock.calls.length === 1) {
        expect(await cache.getOrSet(key, load)).toBe('old')
        expect(await other.getOrSet(key, load)).toBe('old')
        await sleep(5)
      }
      expect(performance.now() - began).toBeGreaterThan(200)
    })

    test('staleIfError: callers wait for the new value, and get the old one if the load fails', async () => {
      const cache = locks.cache({ ttl: 100, ttlJitter: 0, staleIfError: 60_000, errorBackoff: 0 })
      await cache.set(key, 'old')
      await until('it is old', async () => (await cache.get(key)) === undefined)
      const load = gate()
      const call = cache.getOrSet(key, load)
      await load.begun()
      load.runs[0].reject(new Error('no route'))
      expect(await call).toBe('old')
      expect(await cache.getOrSet(key, () => 'new')).toBe('new')
    })

    test('earlyRefresh by a share: in the background, while the value is still fresh', async () => {
      const terms = { ttl: 60_000, ttlJitter: 0, earlyRefresh: 1 }
      const caches = [locks, elsewhere].map((each) => each.cache(terms))
      await caches[0].set(key, 'old')
      await sleep(5)
      const load = gate()
      const answers = await Promise.all(
        Array.from({ length: 50 }, (_, i) => caches[i % 2].getOrSet(key, load)),
      )
      expect(answers).toEqual(Array(50).fill('old'))
      await load.begun()
      load.runs[0].resolve('new')
      await until('it is stored', async () => (await caches[1].get(key)) === 'new')
      expect(load.runs.length).toBe(1)
    })

    test('XFetch: never far from the end, and nearly always right before it', async () => {
      const cache = locks.cache({ ttl: 2_000, ttlJitter: 0 })
      const load = jest.fn(() => sleep(100, 'value'))
      await cache.getOrSet(key, load)
      await Promise.all(Array.from({ length: 100 }, () => cache.getOrSet(key, load, { beta: 0 })))
      expect(cache.stats().earlyRefreshes).toBe(0)
      // A thousand times as early: from the beginning.
      await until('it is loaded early', async () => {
        expect(await cache.getOrSet(key, load, { beta: 100 })).toBe('value')
        return load.mock.calls.length > 1
      })
      expect(cache.stats().earlyRefreshes).toBeGreaterThan(0)
    })

    test('refreshEvery: never expires, and is loaded on time by one process', async () => {
      const terms = { refreshEvery: 200 }
      const caches = [locks, elsewhere].map((each) => each.cache(terms))
      let count = 0
      const load = jest.fn(async () => ++count)
      expect(await caches[0].getOrSet(key, load)).toBe(1)
      expect(await caches[1].getOrSet(key, load)).toBe(1)
      // Nobody asks.
      const began = performance.now()
      await until('it was loaded five times', () => count === 5)
      expect(performance.now() - began).toBeGreaterThan(600)
      const value = await caches[1].getOrSet(key, load)
      expect(value).toBeGreaterThanOrEqual(4)
      await Promise.all([locks.close(), elsewhere.close()])
      const last = count
      await sleep(500)
      expect(count).toBe(last)
    })

    test('ttlJitter spreads the ends of what was stored together', async () => {
      const cache = locks.cache({ ttl: 10_000, ttlJitter: 0.5 })
      await Promise.all(Array.from({ length: 50 }, (_, i) => cache.set(`${key}${i}`, i)))
      const fresh = jest.fn()
      cache.on('loadFailed', fresh)
      // By the share of ttl that is left, 1 means now: those that are fresh for less are loaded.
      const load = jest.fn(() => 0)
      await Promise.all(
        Array.from({ length: 50 }, (_, i) => cache.getOrSet(`${key}${i}`, load, { earlyRefresh: 0.99 })),
      )
      await until('they are loaded', () => load.mock.calls.length > 5)
      expect(cache.stats().earlyRefreshes).toBeGreaterThan(5)
      expect(cache.stats().earlyRefreshes).toBeLessThan(45)
    })
  })

  describe('orders', () => {
    test('set, get, delete, expire', async () => {
      const cache = locks.cache({ ttl: 60_000 })
      expect(await cache.get(key)).toBe(undefined)
      expect(await cache.delete(key)).toBe(false)
      expect(await cache.expire(key)).toBe(false)
      await cache.set(key, 'a')
      expect(await cache.get(key)).toBe('a')
      expect(await cache.delete(key)).toBe(true)
      expect(await cache.get(key)).toBe(undefined)
      await cache.set(key, 'b')
      expect(await cache.expire(key)).toBe(true)
      expect(await cache.get(key)).toBe(undefined)
      await cache.set(key, 'c', { staleFor: 60_000, ttl: Infinity })
      expect(await cache.expire(key)).toBe(true)
      expect(await cache.get(key)).toBe(undefined)
      expect(await cache.get(key, { staleFor: 60_000 })).toBe('c')
    })

    const orders = [
      ['delete', (cache) => cache.delete(key), undefined],
      ['expire', (cache) => cache.expire(key), undefined],
      ['set', (cache) => cache.set(key, 'set'), 'set'],
    ]
    describe.each(orders)('%s while it is loaded', (_, order, left) => {
      test.each(['here', 'elsewhere'])(
        'ordered %s, wins, and who asks afterwards is served anew',
        async (where) => {
          const cache = locks.cache({ ttl: 60_000 })
          const other = elsewhere.cache({ ttl: 60_000 })
          const load = gate()
          const before = cache.getOrSet(key, load)
          await load.begun()
          await order(where === 'here' ? cache : other)
          const after = cache.getOrSet(key, () => 'anew')
          const there = other.getOrSet(key, () => 'anew')
          load.runs[0].resolve('old')
          expect(await before).toBe('old')
          expect(await after).toBe(left ?? 'anew')
          expect(await there).toBe(left ?? 'anew')
          expect(await other.get(key)).toBe(left ?? 'anew')
          expect(cache.stats().overruled).toBe(1)
        },
      )
    })

    test('whoever asks after a delete gets nothing that was loaded before it, however often and wherever that is ordered', async () => {
      const caches = [locks, locks, elsewhere].map((each) => each.cache({ ttl: 60_000 }))
      /** What the source says, and what it said when the last delete was over. */
      let source = 0
      let deleted = 0
      let reads = 0
      const tooOld = []
      const load = async () => {
        const seen = source
        await sleep(Math.random() * 4)
        return seen
      }
      const end = performance.now() + 1_000
      const reader = async (cache) => {
        while (performance.now() < end) {
          const least = deleted
          const value = await cache.getOrSet(key, load)
          if (value < least) tooOld.push({ value, least })
          reads++
        }
      }
      const writer = async () => {
        while (performance.now() < end) {
          const now = ++source
          await caches[now % 3].delete(key)
          deleted = now
          await sleep(Math.random() * 10)
        }
      }
      await Promise.all([writer(), ...[...caches, ...caches, ...caches].map(reader)])
      expect(tooOld).toEqual([])
      expect(deleted).toBeGreaterThan(20)
      expect(reads).toBeGreaterThan(20)
    })

    test('who asks after a set elsewhere has that value, and does not wait for the load that is overruled', async () => {
      const cache = locks.cache({ ttl: 60_000 })
      const load = gate()
      const before = cache.getOrSet(key, load)
      await load.begun()
      await elsewhere.cache({ ttl: 60_000 }).set(key, 'set')
      await until('the loader is told', () => load.runs[0].context.signal.aborted)
      expect(await cache.getOrSet(key, never)).toBe('set')
      load.runs[0].resolve('old')
      expect(await before).toBe('old')
    })

    test('refresh loads whatever is there, after what is loaded now, and is shared by those who ask before it begins', async () => {
      const cache = locks.cache({ ttl: 60_000 })
      const other = elsewhere.cache({ ttl: 60_000 })
      await cache.set(key, 'old')
      const load = gate()
      const first = cache.refresh(key, load)
      await load.begun()
      expect(await cache.getOrSet(key, never)).toBe('old')
      const more = [cache.refresh(key, load), cache.refresh(key, load), other.refresh(key, load)]
      load.runs[0].resolve(1)
      expect(await first).toBe(1)
      await load.begun(2)
      load.runs[1].resolve(2)
      await load.begun(3)
      load.runs[2].resolve(3)
      const answers = await Promise.all(more)
      expect(answers[0]).toBe(answers[1])
      expect(answers.sort()).toEqual([2, expect.any(Number), 3])
      expect(load.runs.length).toBe(3)
      expect(await cache.get(key)).toBe(3)
    })
  })

  describe('bounds', () => {
    test('the error of the loader reaches everybody who waited for that load, once', async () => {
      const [here, there] = [locks, elsewhere].map((each) => each.cache({ ttl: 60_000 }))
      const load = gate()
      const calls = [here.getOrSet(key, load)]
      await load.begun()
      calls.push(here.getOrSet(key, never), there.getOrSet(key, never), there.getOrSet(key, never))
      await waits(there)
      const cause = Object.assign(new RangeError('no route to "db"'), { code: 'EHOSTUNREACH' })
      load.runs[0].reject(cause)
      const reasons = (await Promise.allSettled(calls)).map(({ reason }) => reason)
      for (const reason of reasons) {
        expect(reason).toBeInstanceOf(CacheLoadError)
        expect(reason).toMatchObject({
          code: 'ERR_CACHE_LOAD',
          key,
          cause: { name: 'RangeError', message: 'no route to "db"', code: 'EHOSTUNREACH' },
        })
      }
      expect(reasons[0].cause).toBe(cause)
      // The next call is a new one.
      expect(await there.getOrSet(key, () => 'well')).toBe('well')
    })

    test.each([
      [
        'throws at once',
        () => {
          throw new Error('no')
        },
      ],
      ['rejects with undefined', () => Promise.reject()],
      [
        'throws null',
        () => {
          throw null
        },
      ],
      ['is a thenable that fails', () => ({ then: (_, reject) => reject(new Error('no')) })],
    ])('a loader that %s', async (_, load) => {
      const cache = locks.cache({ ttl: 60_000 })
      await expect(cache.getOrSet(key, load)).rejects.toBeInstanceOf(CacheLoadError)
      expect(await cache.getOrSet(key, () => 1)).toBe(1)
    })

    test('a loader that hangs is aborted after loadTimeout, and the next one loads', async () => {
      const cache = locks.cache({ ttl: 60_000, loadTimeout: 100 })
      const load = gate()
      const calls = [cache.getOrSet(key, load), cache.getOrSet(key, load)]
      const reasons = (await Promise.allSettled(calls)).map(({ reason }) => reason)
      for (const reason of reasons) {
        expect(reason).toBeInstanceOf(CacheTimeoutError)
        expect(reason).toMatchObject({ code: 'ERR_CACHE_TIMEOUT', phase: 'loading', key })
      }
      expect(load.runs[0].context.signal).toMatchObject({ aborted: true, reason: reasons[0] })
      expect(await cache.getOrSet(key, () => 1)).toBe(1)
      load.runs[0].resolve('late')
      await sleep(20)
      expect(await cache.getOrSet(key, never)).toBe(1)
      load.runs[0].reject(new Error('later'))
    })

    describe('who waits for longer than waitTimeout', () => {
      let load
      let loading
      let other

      beforeEach(async () => {
        load = gate()
        loading = locks.cache({ ttl: 60_000 }).getOrSet(key, load)
        await load.begun()
        other = elsewhere.cache({ ttl: 60_000, waitTimeout: 50 })
      })
      afterEach(async () => {
        load.runs[0].resolve('loaded')
        expect(await loading).toBe('loaded')
        expect(await other.getOrSet(key, never)).toBe('loaded')
      })

      test('loads for itself, once per process, without storing that', async () => {
        const own = jest.fn(async () => 'own')
        const answers = await Promise.all([other.getOrSet(key, own), other.getOrSet(key, own)])
        expect(answers).toEqual(['own', 'own'])
        expect(own).toHaveBeenCalledTimes(1)
        expect(await other.get(key)).toBe(undefined)
        expect(other.stats()).toMatchObject({ waitTimeouts: 2 })
      })

      test('or gets an error', async () => {
        const call = other.getOrSet(key, never, { onWaitTimeout: 'throw' })
        await expect(call).rejects.toMatchObject({ code: 'ERR_CACHE_TIMEOUT', phase: 'waiting', key })
      })

      test('or what it would have instead of an error', async () => {
        for (const onWaitTimeout of ['throw', 'stale']) {
          const options = { onWaitTimeout, fallback: null }
          expect(await other.getOrSet(key, never, options)).toBe(null)
          const fallback = jest.fn(async () => 'instead')
          expect(await other.getOrSet(key, never, { onWaitTimeout, fallback })).toBe('instead')
          expect(fallback).toHaveBeenCalledWith(expect.any(CacheTimeoutError), key)
          const fails = () => {
            throw new Error('this one too')
          }
          await expect(other.getOrSet(key, never, { onWaitTimeout, fallback: fails })).rejects.toThrow(
            'this one too',
          )
        }
        expect(other.stats()).toMatchObject({ fallbacks: 4, waitTimeouts: 6 })
      })
    })

    test('or gets the old value, however old', async () => {
      const cache = locks.cache({ ttl: 100, ttlJitter: 0, staleIfError: 60_000 })
      await cache.set(key, 'old')
      await until('it is old', async () => (await cache.get(key)) === undefined)
      const load = gate()
      const loading = cache.getOrSet(key, load)
      await load.begun()
      const waiting = { ttl: 100, waitTimeout: 50, onWaitTimeout: 'stale' }
      expect(await elsewhere.cache(waiting).getOrSet(key, never)).toBe('old')
      load.runs[0].resolve('new')
      expect(await loading).toBe('new')
    })

    test('a fallback goes for errors of the loader as well', async () => {
      const cache = locks.cache({ ttl: 60_000 })
      expect(await cache.getOrSet(key, never, { fallback: 0 })).toBe(0)
      expect(await cache.get(key)).toBe(undefined)
    })

    test('a loader that asks for its own key is told', async () => {
      const cache = locks.cache({ ttl: 60_000 })
      const load = () => cache.getOrSet(key, () => 1)
      await expect(cache.getOrSet(key, load)).rejects.toBeInstanceOf(CacheDeadlockError)
      // For another one it may.
      expect(await cache.getOrSet(key, () => cache.getOrSet(`${key}!`, () => 2))).toBe(2)
    })

    test('close() ends what is under way', async () => {
      const cache = locks.cache({ ttl: 60_000 })
      const load = gate()
      const loading = cache.getOrSet(key, load)
      await load.begun()
      const other = elsewhere.cache({ ttl: 60_000 })
      const waiting = other.getOrSet(key, never)
      await waits(other)
      const [, own, others] = await Promise.allSettled([
        Promise.all([locks.close(), elsewhere.close()]),
        loading,
        waiting,
      ])
      expect(own.reason).toBeInstanceOf(LockClosedError)
      expect(others.reason).toBeInstanceOf(LockClosedError)
      expect(load.runs[0].context.signal.reason).toBeInstanceOf(LockClosedError)
      load.runs[0].resolve('late')
      await expect(cache.getOrSet(key, never)).rejects.toBeInstanceOf(LockClosedError)
      await expect(cache.get(key)).rejects.toBeInstanceOf(LockClosedError)
      await expect(cache.set(key, 1)).rejects.toBeInstanceOf(LockClosedError)
      expect(
        await store
          .createLocks()
          .cache({ ttl: 60_000 })
          .getOrSet(key, () => 'anew'),
      ).toBe('anew')
    })
  })

  test('200 managers at the window of early refresh: one load', async () => {
    const all = Array.from({ length: 200 }, (_, i) =>
      store.createLocks(i % 10 === 0 ? { commandTimeout: 3_000 + i } : {}),
    )
    const caches = all.map((each) => each.cache({ ttl: 60_000, ttlJitter: 0, earlyRefresh: 1 }))
    await caches[0].set(key, 'old')
    await sleep(5)
    const load = jest.fn(() => sleep(50, 'new'))
    const answers = await Promise.all(caches.map((cache) => cache.getOrSet(key, load)))
    expect(answers).toEqual(Array(200).fill('old'))
    await until('it is stored', async () => (await caches[7].get(key)) === 'new')
    await Promise.all(all.map((each) => each.close()))
    expect(load).toHaveBeenCalledTimes(1)
  })
})
