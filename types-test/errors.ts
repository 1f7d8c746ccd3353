// Errors: telling them apart by class, by code and without either class at hand.
import {
  isLockError,
  LockBindingError,
  LockClosedError,
  LockDeadlockError,
  LockError,
  type LockErrorCode,
  LockLostError,
  LockTimeoutError,
  LockUnavailableError,
  LockWrongTypeError,
} from 'holdfast'
import { type Same, sure } from './same.js'

export function toldApartByClass(error: unknown) {
  if (error instanceof LockTimeoutError) {
    sure<Same<typeof error.code, 'ERR_LOCK_TIMEOUT'>>()
    sure<Same<typeof error.key, string>>()
    sure<Same<typeof error.waited, number>>()
    sure<Same<typeof error.attempts, number>>()
    sure<Same<typeof error.phase, 'spinning' | 'queued' | 'connecting'>>()
    sure<Same<typeof error.holder, string | undefined>>()
  } else if (error instanceof LockLostError) {
    sure<Same<typeof error.code, 'ERR_LOCK_LOST'>>()
    sure<Same<typeof error.key, string>>()
    sure<
      Same<
        typeof error.reason,
        'expired' | 'taken' | 'unreachable' | 'stalled' | 'maxHold' | 'closed' | 'released'
      >
    >()
    sure<Same<typeof error.result, unknown>>()
  } else if (error instanceof LockUnavailableError) {
    sure<Same<typeof error.code, 'ERR_LOCK_UNAVAILABLE'>>()
    sure<Same<typeof error.cause.code, string>>()
    sure<Same<typeof error.cause.message, string>>()
    sure<Same<typeof error.key, string | undefined>>()
  } else if (error instanceof LockClosedError) {
    sure<Same<typeof error.code, 'ERR_LOCK_CLOSED'>>()
  } else if (error instanceof LockDeadlockError) {
    sure<Same<typeof error.code, 'ERR_LOCK_DEADLOCK'>>()
    sure<Same<typeof error.key, string>>()
  } else if (error instanceof LockWrongTypeError) {
    sure<Same<typeof error.code, 'ERR_LOCK_WRONG_TYPE'>>()
    sure<Same<typeof error.key, string>>()
  } else if (error instanceof LockBindingError) {
    sure<Same<typeof error.code, 'ERR_NATIVE_BINDING'>>()
    sure<Same<typeof error.platform, string>>()
    sure<Same<typeof error.arch, string>>()
    sure<Same<typeof error.libc, string | undefined>>()
  } else if (error instanceof LockError) {
    sure<Same<typeof error.code, LockErrorCode>>()
    sure<Same<typeof error.key, string | undefined>>()
    sure<Same<typeof error.message, string>>()
    // @ts-expect-error read only
    error.code = 'ERR_LOCK_LOST'
    // @ts-expect-error not of every lock error
    return error.reason
  }
  return undefined
}

export function everyClassIsALockError(
  each:
    | LockTimeoutError
    | LockLostError
    | LockUnavailableError
    | LockClosedError
    | LockDeadlockError
    | LockWrongTypeError
    | LockBindingError,
) {
  const base: LockError = each
  const asError: Error = base
  if (each.code === 'ERR_LOCK_LOST') sure<Same<typeof each, LockLostError>>()
  // @ts-expect-error no such code
  if (each.code === 'ERR_LOCK_GONE') return undefined
  return asError
}

export function toldApartWithoutTheClass(error: unknown) {
  if (isLockError(error)) sure<Same<typeof error, LockError>>()
  // @ts-expect-error no such code
  isLockError(error, 'ERR_LOCK_GONE')
  // @ts-expect-error nothing to look at
  isLockError()
  // @ts-expect-error not known to be a lock error
  return error.code
}

export function toldApartByCode(error: unknown) {
  if (isLockError(error, 'ERR_LOCK_TIMEOUT')) return error.key
  return undefined
}
