// The ES module is a thin layer over the CommonJS one: both have the same classes and the same default manager.
import holdfast from './index.js'

export const {
  withLock,
  tryWithLock,
  acquire,
  tryAcquire,
  release,
  locks,
  configure,
  createLocks,
  Lock,
  LockManager,
  LockError,
  LockTimeoutError,
  LockLostError,
  LockUnavailableError,
  LockClosedError,
  LockDeadlockError,
  LockWrongTypeError,
  LockBindingError,
  isLockError,
} = holdfast
