import { strict as assert } from 'node:assert'
import * as holdfast from 'holdfast'
import {
  type Cache,
  CacheLoadError,
  createLocks,
  isLockError,
  type Lock,
  LockTimeoutError,
  type TryResult,
} from 'holdfast'
import { register } from 'holdfast/prometheus'

for (const url of ['memory:', process.env.CONSUMER_REDIS_URL as string]) {
  await using locks = createLocks({ url, ttl: 5_000 })
  const fence: number = await locks.withLock('typed', { timeout: 1_000 }, async (lock) => lock.fencingToken)
  {
    await using lock: Lock = await locks.acquire('typed')
    assert.ok(lock.fencingToken > fence)
    const skipped: TryResult<number> = await locks.tryWithLock('typed', () => 1)
    assert.equal(skipped.acquired, false)
    await assert.rejects(
      locks.acquire('typed', { timeout: 0 }),
      (error) => isLockError(error) && error instanceof LockTimeoutError && error.key === 'typed',
    )
  }
  // Leaving the scope gave the lock back.
  const again = await locks.tryAcquire('typed')
  assert.equal(await again?.release(), true)
  const cache: Cache = locks.cache({ ttl: 5_000, prefix: 'typed:' })
  const loaded: { at: number } = await cache.getOrSet('key', async () => ({ at: 7 }))
  assert.deepEqual(loaded, { at: 7 })
  await assert.rejects(
    cache.refresh('key', () => Promise.reject(new Error('no'))),
    CacheLoadError,
  )
  // Without prom-client beside it, it says what to install; whatever there is, it is found.
  try {
    register({ caches: { typed: cache } })()
  } catch (error) {
    assert.match(String(error), /npm install prom-client/)
  }
}

// What is declared is there, and nothing else: the compiler wants each declared name in this list, once.
const declared: Record<keyof typeof holdfast, true> = {
  acquire: true,
  Cache: true,
  CacheDeadlockError: true,
  CacheError: true,
  CacheLoadError: true,
  CacheTimeoutError: true,
  CacheValueError: true,
  configure: true,
  createLocks: true,
  isLockError: true,
  Lock: true,
  LockBindingError: true,
  LockClosedError: true,
  LockDeadlockError: true,
  LockError: true,
  LockLostError: true,
  LockManager: true,
  LockTimeoutError: true,
  LockUnavailableError: true,
  LockWrongTypeError: true,
  locks: true,
  release: true,
  tryAcquire: true,
  tryWithLock: true,
  withLock: true,
}
assert.deepEqual(Object.keys(holdfast).sort(), Object.keys(declared).sort())
