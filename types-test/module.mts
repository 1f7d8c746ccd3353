// The ES module: the same names, the very same types, and no default export.
import type * as all from 'holdfast'
import cjs = require('holdfast')
import {
  type AcquireOptions,
  acquire,
  Cache,
  CacheDeadlockError,
  CacheError,
  CacheLoadError,
  CacheTimeoutError,
  CacheValueError,
  type CloseOptions,
  configure,
  createLocks,
  isLockError,
  Lock,
  LockBindingError,
  LockClosedError,
  LockDeadlockError,
  LockError,
  type LockErrorCode,
  LockLostError,
  LockManager,
  type LockOptions,
  LockTimeoutError,
  LockUnavailableError,
  LockWrongTypeError,
  locks,
  type ManagerEvents,
  type ManagerOptions,
  release,
  type Stats,
  type TlsOptions,
  type TryAcquireOptions,
  type TryResult,
  type TryWithLockOptions,
  tryAcquire,
  tryWithLock,
  type WithLockOptions,
  withLock,
} from 'holdfast'
import { type Same, sure } from './same.js'

sure<Same<typeof all, typeof cjs>>()
sure<Same<keyof typeof all, keyof typeof named>>()
export const named = {
  acquire,
  Cache,
  CacheDeadlockError,
  CacheError,
  CacheLoadError,
  CacheTimeoutError,
  CacheValueError,
  configure,
  createLocks,
  isLockError,
  Lock,
  LockBindingError,
  LockClosedError,
  LockDeadlockError,
  LockError,
  LockLostError,
  LockManager,
  LockTimeoutError,
  LockUnavailableError,
  LockWrongTypeError,
  locks,
  release,
  tryAcquire,
  tryWithLock,
  withLock,
}
export type Named = [
  AcquireOptions,
  CloseOptions,
  LockErrorCode,
  LockOptions,
  ManagerEvents,
  ManagerOptions,
  Stats,
  TlsOptions,
  TryAcquireOptions,
  TryResult<unknown>,
  TryWithLockOptions,
  WithLockOptions,
]

// @ts-expect-error no default export
export { default } from 'holdfast'

// One file's lock is the other's.
const lock: Lock = await cjs.acquire('key')
const ofCommonJs: cjs.Lock = lock
await release(ofCommonJs)
await using held = await acquire('key')
if (!(held instanceof Lock)) throw new LockError('unreachable')
sure<Same<typeof held, cjs.Lock>>()
await withLock('key', { ttl: 1_000 }, async (inside) => sure<Same<typeof inside, cjs.Lock>>())
