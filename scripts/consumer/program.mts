import { strict as assert } from 'node:assert'
import * as holdfast from 'holdfast'
import { createLocks, isLockError, type Lock, LockTimeoutError, type TryResult } from 'holdfast'

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
}

// What is declared is there, and nothing else: the compiler wants each declared name in this list, once.
const declared: Record<keyof typeof holdfast, true> = {
  acquire: true,
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
