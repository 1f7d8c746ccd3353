'use strict'

// The figures as Prometheus reads them.

const { Registry } = require('prom-client')
const { createLocks } = require('..')
const { register } = require('../prometheus')

test('figures of managers and caches are metrics, with names of their own', async () => {
  const locks = createLocks({ url: 'memory:prometheus' })
  const cache = locks.cache({ ttl: 60_000 })
  const registry = new Registry()
  const unregister = register({ locks: { main: locks }, caches: { users: cache }, registry })
  // Nothing was done yet.
  expect(await registry.metrics()).toContain('holdfast_cache_loads_total{cache="users"} 0')

  await cache.getOrSet('a', () => 1)
  await cache.getOrSet('a', () => 2)
  await cache.getOrSet('b', () => Promise.reject(new Error('no'))).catch(() => {})
  const lock = await locks.acquire('c')
  const text = await registry.metrics()
  for (const line of [
    'holdfast_cache_requests_total{cache="users",outcome="hit"} 1',
    'holdfast_cache_requests_total{cache="users",outcome="miss"} 2',
    'holdfast_cache_loads_total{cache="users"} 2',
    'holdfast_cache_load_errors_total{cache="users"} 1',
    'holdfast_cache_herd_size{cache="users",quantile="1"} 1',
    'holdfast_lock_held{manager="main"} 1',
    'holdfast_lock_lost_total{manager="main",reason="taken"} 0',
    '# TYPE holdfast_lock_acquired_total counter',
  ]) {
    expect(text).toContain(line)
  }
  expect(text).toMatch(/holdfast_cache_load_seconds\{cache="users",quantile="0.99"\} 0?\.\d/)
  // Read again, counters aren't counted twice.
  expect(await registry.metrics()).toContain('holdfast_cache_loads_total{cache="users"} 2')
  await lock.release()
  unregister()
  expect(registry.getMetricsAsArray()).toEqual([])
  await locks.close()
  expect(cache.stats().loads).toBe(2)
})

test.each([
  [{ lock: {} }, /`lock` of register does not exist: did you mean `locks`/],
  [{ locks: [] }, /`locks` must be an object/],
  [{ caches: { users: {} } }, /`caches\.users` must be something with stats/],
  [{ registry: {} }, /`registry` must be a Registry/],
])('what can not be measured is refused: %j', (options, message) => {
  expect(() => register(options)).toThrow(message)
})

test('two registrations of the same names are refused by prom-client', () => {
  const locks = createLocks({ url: 'memory:prometheus' })
  const registry = new Registry()
  register({ locks: { main: locks }, registry })
  expect(() => register({ locks: { main: locks }, registry })).toThrow(/already been registered/)
  register({ locks: { main: locks }, registry, prefix: 'other_' })
})
