'use strict'

// What a cache refuses, at once, in words that name the option, the value and what is allowed.

const { createLocks } = require('..')

const locks = createLocks({ url: 'memory:cache-options' })
afterAll(() => locks.close())
const load = () => 1

test.each([
  ['ttl', 5, /`ttl` must be an integer of milliseconds from 100 .*; `ttl` is in milliseconds/],
  ['ttl', '1m', /`ttl` must be a number of milliseconds; got '1m'/],
  ['ttlJitter', 1, /`ttlJitter` must be a number from 0 to 0.9/],
  ['staleFor', -1, /`staleFor` must be an integer from 0/],
  ['staleIfError', Infinity, /`staleIfError`/],
  ['earlyRefresh', true, /`earlyRefresh` must be 'xfetch', a share of `ttl` from 0 to 1, or false/],
  ['earlyRefresh', 2, /`earlyRefresh` must be a number from 0 to 1/],
  ['beta', NaN, /`beta`/],
  ['refreshEvery', Infinity, /`refreshEvery`/],
  ['negativeTtl', 0, /`negativeTtl`/],
  ['errorBackoff', 0.5, /`errorBackoff`/],
  ['loadTimeout', 0, /`loadTimeout`/],
  ['waitTimeout', -1, /`waitTimeout`/],
  ['onWaitTimeout', 'wait', /`onWaitTimeout` must be 'load', 'stale' or 'throw'/],
  ['lockTtl', 99, /`lockTtl`/],
])('%s: %p', async (name, value, message) => {
  expect(() => locks.cache({ ttl: 1_000, [name]: value })).toThrow(message)
  const cache = locks.cache({ ttl: 1_000 })
  await expect(cache.getOrSet('key', load, { [name]: value })).rejects.toThrow(message)
})

test.each([
  [{ prefix: 7 }, /`prefix` must be a string/],
  [{ prefix: '\ud800' }, /`prefix` must be a well-formed string/],
  [{ codec: 'xml' }, /`codec` must be 'json', 'buffer', or { encode, decode }/],
  [{ codec: { encode: String } }, /`codec`/],
  [{ maxAge: 1 }, /`maxAge` of cache does not exist/],
  [{ stalefor: 1 }, /did you mean `staleFor`/],
  ['cache:', /an object of cache's options/],
])('cache(%j)', (options, message) => {
  expect(() => locks.cache(options)).toThrow(message)
})

test.each([
  [[7, load], /`key` must be a string/],
  [['', load], /`key` must be a string that is not empty/],
  [['k'.repeat(65_537), load], /64 KiB/],
  [['\udfff', load], /well-formed/],
  [['key'], /`loader` must be a function/],
  [['key', load, { codec: 'json' }], /`codec` of getOrSet does not exist/],
  [['key', load, 7], /an object of getOrSet's options/],
])('getOrSet(...%j)', async (given, message) => {
  await expect(locks.cache({ ttl: 1_000 }).getOrSet(...given)).rejects.toThrow(message)
})

test('a ttl must come from somewhere', async () => {
  const cache = locks.cache()
  await expect(cache.getOrSet('key', load)).rejects.toThrow(
    /`ttl` must be given, to the cache or to the call/,
  )
  await expect(cache.set('key', 1)).rejects.toThrow(/`ttl`/)
  expect(await cache.getOrSet('key', load, { ttl: 1_000 })).toBe(1)
  expect(await cache.getOrSet('other', load, { refreshEvery: 60_000 })).toBe(1)
})

test('an option that is undefined is one that is not given', async () => {
  const nothing = { ttl: undefined, staleFor: undefined, fallback: undefined, codec: undefined }
  const cache = locks.cache({ ...nothing, ttl: 1_000 })
  const fails = () => Promise.reject(new Error('no'))
  await expect(cache.getOrSet('fails', fails, { fallback: undefined })).rejects.toThrow('no')
})
