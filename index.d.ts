/**
 * Holdfast: a distributed lock for Node.js on Redis or Valkey.
 *
 * All times are milliseconds, as numbers. `ttl` is the lease: how long the key
 * lives in Redis without renewal. `timeout` is how long a caller is willing to wait.
 * A "command" is one request sent to the server; calls inside a script don't count.
 */

/// <reference types="node" />

import { EventEmitter } from 'node:events'
import type { SecureContextOptions } from 'node:tls'

// ---------------------------------------------------------------------------
// The ten lines that matter
// ---------------------------------------------------------------------------

/**
 * Runs `fn` while holding `key`, on the default manager, and releases afterwards,
 * whatever `fn` did. Settles with `fn`'s value or `fn`'s error.
 *
 * If the lock was lost while `fn` ran and `fn` succeeded, rejects with
 * {@link LockLostError}, whose `result` carries `fn`'s value (`ifLost: 'ignore'` returns
 * the value instead). A release that fails is a `releaseFailed` event, never the caller's error.
 *
 * Cost: two round trips and two commands when nobody else wants the key; none when the
 * lock is handed on inside this process.
 *
 * @throws {LockTimeoutError} the lock stayed taken for `timeout`
 * @throws {LockUnavailableError} Redis could not be used
 * @throws the reason of `options.signal`, untouched, if that aborted the wait
 */
export function withLock<T>(key: string, fn: (lock: Lock) => T | PromiseLike<T>): Promise<T>
export function withLock<T>(
  key: string,
  options: WithLockOptions,
  fn: (lock: Lock) => T | PromiseLike<T>,
): Promise<T>

/**
 * Run or skip: one attempt to take `key`; if somebody holds it, `fn` doesn't run and the
 * result is `{ acquired: false }`. For scheduled jobs and double submits.
 * Rejects as {@link withLock} does, except that it never waits, so never with LockTimeoutError.
 */
export function tryWithLock<T>(key: string, fn: (lock: Lock) => T | PromiseLike<T>): Promise<TryResult<T>>
export function tryWithLock<T>(
  key: string,
  options: TryWithLockOptions,
  fn: (lock: Lock) => T | PromiseLike<T>,
): Promise<TryResult<T>>

/** {@link LockManager.acquire} on the default manager. */
export function acquire(key: string, options?: AcquireOptions): Promise<Lock>

/** {@link LockManager.tryAcquire} on the default manager. */
export function tryAcquire(key: string, options?: TryAcquireOptions): Promise<Lock | null>

/** `release(lock)` is `lock.release()`. */
export function release(lock: Lock): Promise<boolean>

/**
 * Sets the options of the default manager. Must come before its first use: throws an Error with
 * code `ERR_LOCK_CONFIGURED` afterwards. Without it the default manager connects to `HOLDFAST_URL`,
 * else `REDIS_URL`, else `redis://127.0.0.1:6379`.
 */
export function configure(options: ManagerOptions): void

/** The default manager: created at the first use, connects at the first lock. */
export const locks: LockManager

/**
 * Creates a manager. Synchronous; it connects when first used. Managers with equal connection
 * options share one connection and queue, also across worker threads of a process.
 *
 * @throws {TypeError | RangeError} naming the option, the value and what is allowed
 */
export function createLocks(options?: ManagerOptions): LockManager

// ---------------------------------------------------------------------------
// Managers
// ---------------------------------------------------------------------------

export interface ManagerEvents {
  /** A held lock was lost. Its `lock.signal` aborts with the same error. */
  lost: [error: LockLostError]
  /** The server can't be used, or no longer; emitted once until `reconnected`. */
  unavailable: [error: LockUnavailableError]
  /** The server can be used again. */
  reconnected: []
  /** A release could not be confirmed. It is repeated in the background until answered or the lease is over. */
  releaseFailed: [error: LockUnavailableError]
}

/** One set of connection options and defaults. Never emits `'error'`. */
export class LockManager extends EventEmitter<ManagerEvents> {
  private constructor()

  /**
   * Takes `key`, waiting up to `timeout`. Callers of one process are served first come, first
   * served, without further commands; between processes the first in line polls with backoff.
   *
   * Cost: one round trip, one command if the key is free.
   *
   * Cancelling (`signal`, `timeout`, `close()`) leaves nothing behind: an attempt whose outcome is
   * unknown is followed by a release of its token until that is answered or its ttl is over.
   *
   * @throws {LockTimeoutError} ERR_LOCK_TIMEOUT: taken by somebody else for all of `timeout`
   * @throws {LockUnavailableError} ERR_LOCK_UNAVAILABLE: Redis could not be used. Definite trouble
   *   (credentials, rights, database, TLS, a host name that doesn't exist) rejects at once; passing
   *   trouble (refused, reset, no answer, LOADING, READONLY …) is retried until `timeout`
   * @throws {LockWrongTypeError} ERR_LOCK_WRONG_TYPE: the key holds data of another kind
   * @throws {LockClosedError} ERR_LOCK_CLOSED: the manager is or was closed
   * @throws {LockBindingError} ERR_NATIVE_BINDING: the native addon could not be loaded
   * @throws the reason of `signal`, untouched
   */
  acquire(key: string, options?: AcquireOptions): Promise<Lock>

  /**
   * One attempt: the lock, or `null` if it is taken. Never waits for a holder. Rejects if Redis can't be used,
   * as {@link acquire} does, at the latest after `commandTimeout`.
   */
  tryAcquire(key: string, options?: TryAcquireOptions): Promise<Lock | null>

  /** See {@link withLock}. */
  withLock<T>(key: string, fn: (lock: Lock) => T | PromiseLike<T>): Promise<T>
  withLock<T>(key: string, options: WithLockOptions, fn: (lock: Lock) => T | PromiseLike<T>): Promise<T>

  /** See {@link tryWithLock}. */
  tryWithLock<T>(key: string, fn: (lock: Lock) => T | PromiseLike<T>): Promise<TryResult<T>>
  tryWithLock<T>(
    key: string,
    options: TryWithLockOptions,
    fn: (lock: Lock) => T | PromiseLike<T>,
  ): Promise<TryResult<T>>

  /**
   * Resolves once the server answered; optional. Rejects with {@link LockUnavailableError}: at once for definite
   * trouble, after `timeout` (default 10 000) for passing trouble.
   */
  ready(options?: { timeout?: number | undefined }): Promise<void>

  /** A snapshot of this manager's counters; cheap. `commands` and `reconnects` are of the shared connection. */
  stats(): Stats

  /**
   * Refuses new calls and rejects waiting ones with LockClosedError, waits up to `drain` ms (default 0) for holders
   * to release, then aborts the signals of those that are left (reason `closed`) and releases their
   * locks. Resolves when the releases are answered, at the latest `commandTimeout` later. Idempotent; never rejects.
   */
  close(options?: CloseOptions): Promise<void>

  /** `close()`. */
  [Symbol.asyncDispose](): Promise<void>
}

export interface CloseOptions {
  /** Wait this long (ms) for holders to release by themselves. Default 0. `Infinity` is allowed. */
  drain?: number | undefined
}

export interface Stats {
  /** Locks granted: all, and those handed on inside the process without a command. */
  acquired: number
  handedOn: number
  /** Acquisitions that gave up: by `timeout`, and by other errors or aborts. `tryAcquire` → null counts as `busy`. */
  timeouts: number
  busy: number
  failed: number
  /** Locks given back, and locks lost while held. */
  released: number
  lost: number
  /** At this moment. */
  held: number
  waiting: number
  /** Requests sent by the shared connection; locks renewed or extended over it (many travel in one request); and how often it was re-established. */
  commands: number
  renewals: number
  reconnects: number
}

// ---------------------------------------------------------------------------
// Locks
// ---------------------------------------------------------------------------

/** A held lock. */
export class Lock {
  private constructor()

  /** The key as given by the caller, without `keyPrefix`. */
  readonly key: string
  /** `[key]`. */
  readonly keys: readonly string[]
  /** Unique to this acquisition. Not a secret, but whoever has it can be told apart in logs. */
  readonly token: string
  /**
   * Rises strictly with every acquisition of the key: a safe integer. Send it along with writes and let
   * the resource refuse a smaller one than it has seen.
   * Numbers can be compared among managers with the same server, database and `keyPrefix`.
   */
  readonly fencingToken: number
  /** How long this acquisition waited, ms. */
  readonly waited: number
  /**
   * Aborts when the lock is lost before it was released (not when it is released); `reason` is the {@link LockLostError}.
   * Created on first read.
   */
  readonly signal: AbortSignal
  /** False from the very instant the lock is released, lost or past its deadline, even in a loop that never yielded. No round trip. */
  readonly held: boolean
  /** Milliseconds until the deadline by the local clock (which counts suspended time); 0 when not held. No round trip. */
  readonly remaining: number

  /** Throws {@link LockLostError} unless {@link held}; also after `release()`, with reason `'released'`. */
  assertHeld(): void

  /**
   * Sets what remains to `ttl` (default: the ttl it was acquired with) from now, longer or shorter, in place. Renewal goes on with the new ttl.
   * One round trip, one command.
   *
   * @throws {LockLostError} the lock is no longer ours
   * @throws {LockUnavailableError} no answer within `commandTimeout`; whether the ttl was set is unknown, and `remaining` stays on the safe side
   */
  extend(ttl?: number): Promise<void>

  /**
   * Gives the lock back. `true`: it was ours until now; `false`: it was already gone. Idempotent; never
   * rejects because the lock was lost.
   * One round trip, one command; none if it is handed on inside the process.
   *
   * @throws {LockUnavailableError} no answer within `commandTimeout`. The lock counts as gone, and the release goes on in the background.
   */
  release(): Promise<boolean>

  /** `release()`, but never throws: failures are `releaseFailed` events. */
  [Symbol.asyncDispose](): Promise<void>
}

// ---------------------------------------------------------------------------
// Options
// ---------------------------------------------------------------------------

export interface LockOptions {
  /**
   * The lease, ms: an integer from 100 to 2 147 483 647. Default 10 000. Renewed every ttl/3 while held, so it needn't cover the work;
   * it is how long others wait after a crash of the holder.
   */
  ttl?: number | undefined
  /** Renew while held. Default true. With `false` the lock is lost, reason `expired`, when `ttl` is over. */
  autoExtend?: boolean | undefined
}

export interface AcquireOptions extends LockOptions {
  /** How long to wait, ms. 0: one attempt. `Infinity` is allowed. Default 10 000. */
  timeout?: number | undefined
  /** Cancels the *waiting* only; the call rejects with `signal.reason`. */
  signal?: AbortSignal | undefined
}

export interface TryAcquireOptions extends LockOptions {
  /** Cancels the attempt; the call rejects with `signal.reason`. */
  signal?: AbortSignal | undefined
}

export interface WithLockOptions extends AcquireOptions {
  /** What to do if the lock was lost while `fn` ran and `fn` succeeded: `'reject'` (default) or `'ignore'`. */
  ifLost?: 'reject' | 'ignore' | undefined
}

export interface TryWithLockOptions extends TryAcquireOptions {
  ifLost?: 'reject' | 'ignore' | undefined
}

export type TryResult<T> = { acquired: true; result: T } | { acquired: false; result?: undefined }

export interface ManagerOptions extends LockOptions {
  /**
   * Where: `redis://[[user]:password@]host[:port][/db]`, `rediss://` (TLS), `valkey://`, `valkeys://`, `unix:///path/to.sock[?db=1]`,
   * or `memory:` / `memory:name`, an embedded store that excludes nobody outside this process.
   * Default: `HOLDFAST_URL`, else `REDIS_URL`, else `redis://127.0.0.1:6379`.
   */
  url?: string | undefined
  /** Overrides the user name of `url`. */
  username?: string | undefined
  /** Overrides the password of `url`. Never shown in an error, an event or `util.inspect`. */
  password?: string | undefined
  /** Overrides the database of `url`: an integer from 0. */
  db?: number | undefined
  /** For `rediss:` and `valkeys:`, by node:tls's names. */
  tls?: TlsOptions | undefined
  /** Goes before every key in Redis. Default `'lock:'`; `''` is allowed. */
  keyPrefix?: string | undefined
  /** How long a single command may take, ms: an integer from 10 to 60 000. Default 2 000; at most a third of the ttl where a lock is concerned. */
  commandTimeout?: number | undefined
  /** Default of {@link AcquireOptions.timeout}. */
  timeout?: number | undefined
  /** Default of {@link WithLockOptions.ifLost}. */
  ifLost?: 'reject' | 'ignore' | undefined
  /** How processes wait for each other. Only `'backoff'` in this version: 50 ms × 2 up to 1 000 ms, jitter 0.3, by the first in line of each process. */
  strategy?: 'backoff' | undefined
}

export interface TlsOptions {
  /** Certificates to trust instead of the system's, PEM. */
  ca?: SecureContextOptions['ca'] | undefined
  /** Client certificate chain, PEM. */
  cert?: string | Buffer | undefined
  /** Private key of `cert`, PEM, not encrypted. */
  key?: string | Buffer | undefined
  /** The name to check the certificate for, if it isn't the host of `url`. */
  servername?: string | undefined
  /** `false` accepts any certificate. Default true. */
  rejectUnauthorized?: boolean | undefined
}

// ---------------------------------------------------------------------------
// Errors
// ---------------------------------------------------------------------------

export type LockErrorCode =
  | 'ERR_LOCK_TIMEOUT'
  | 'ERR_LOCK_LOST'
  | 'ERR_LOCK_UNAVAILABLE'
  | 'ERR_LOCK_CLOSED'
  | 'ERR_LOCK_DEADLOCK'
  | 'ERR_LOCK_WRONG_TYPE'
  | 'ERR_LOCK_CONFIGURED'
  | 'ERR_NATIVE_BINDING'

/** Base of all errors of this package except those for bad arguments, which are TypeError and RangeError with `ERR_INVALID_ARG_TYPE`, `ERR_INVALID_ARG_VALUE` and `ERR_OUT_OF_RANGE`. */
export class LockError extends Error {
  readonly code: LockErrorCode
  /** The key concerned, if any. */
  readonly key?: string
}

/** `ERR_LOCK_TIMEOUT`: somebody else had the lock for all of `timeout`. */
export class LockTimeoutError extends LockError {
  readonly code: 'ERR_LOCK_TIMEOUT'
  readonly key: string
  /** ms */
  readonly waited: number
  /** Commands sent to take the lock while this caller was first in line. */
  readonly attempts: number
  /** `spinning`: first in line, polling; `queued`: behind other callers of this process; `connecting`: the connection was still being made. */
  readonly phase: 'spinning' | 'queued' | 'connecting'
  /** The value of the key when last seen, if it is known: the holder's token. */
  readonly holder?: string
}

/** `ERR_LOCK_LOST`: the lock is no longer ours. */
export class LockLostError extends LockError {
  readonly code: 'ERR_LOCK_LOST'
  readonly key: string
  /**
   * `expired`: its deadline passed without renewal; `taken`: the key was deleted or belongs to somebody else;
   * `unreachable`: renewal failed until the deadline; `closed`: the manager was closed; `released`: it was given back before (`assertHeld`, `extend`).
   */
  readonly reason: 'expired' | 'taken' | 'unreachable' | 'closed' | 'released'
  /** What the callback of `withLock` returned, if it succeeded although the lock was lost. */
  result?: unknown
}

/** `ERR_LOCK_UNAVAILABLE`: Redis could not be used; `cause` is the reason, with the server's own words. */
export class LockUnavailableError extends LockError {
  readonly code: 'ERR_LOCK_UNAVAILABLE'
  readonly cause: Error & { code: string }
}

/** `ERR_LOCK_CLOSED`: the manager was closed. */
export class LockClosedError extends LockError {
  readonly code: 'ERR_LOCK_CLOSED'
}

/** `ERR_LOCK_DEADLOCK`: waiting would be waiting for oneself. Reserved for a later version. */
export class LockDeadlockError extends LockError {
  readonly code: 'ERR_LOCK_DEADLOCK'
  readonly key: string
}

/** `ERR_LOCK_WRONG_TYPE`: the key holds data, not a lock. */
export class LockWrongTypeError extends LockError {
  readonly code: 'ERR_LOCK_WRONG_TYPE'
  readonly key: string
}

/** `ERR_NATIVE_BINDING`: the native addon can't be loaded, or is of another version. Thrown by the first call, not by the import. */
export class LockBindingError extends LockError {
  readonly code: 'ERR_NATIVE_BINDING'
  readonly platform: string
  readonly arch: string
  /** `glibc`, `musl` or undefined. */
  readonly libc?: string
}

/** The class of each code. */
export interface LockErrors {
  ERR_LOCK_TIMEOUT: LockTimeoutError
  ERR_LOCK_LOST: LockLostError
  ERR_LOCK_UNAVAILABLE: LockUnavailableError
  ERR_LOCK_CLOSED: LockClosedError
  ERR_LOCK_DEADLOCK: LockDeadlockError
  ERR_LOCK_WRONG_TYPE: LockWrongTypeError
  ERR_LOCK_CONFIGURED: LockError
  ERR_NATIVE_BINDING: LockBindingError
}

/** For code that can't use `instanceof` (two copies of the package, another realm). */
export function isLockError<C extends keyof LockErrors>(error: unknown, code: C): error is LockErrors[C]
export function isLockError(error: unknown): error is LockError
