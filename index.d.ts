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
 * A key, or up to 100 keys that are taken together, all or nothing: never a part of them, so overlapping sets can't
 * deadlock. Order and repetition don't matter. A key is a well-formed string of 1 byte to 64 KiB.
 */
export type Keys = string | readonly string[]

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
 * While `fn` runs, asking for the same key again from within would wait for itself, so that rejects at once with
 * {@link LockDeadlockError} (a try finds it taken), unless `reentrant` is set. Work that outlives `fn` is started with
 * {@link LockManager.detached}.
 *
 * @throws {LockTimeoutError} the lock stayed taken for `timeout`
 * @throws {LockDeadlockError} the caller runs inside a callback that holds the key
 * @throws {LockUnavailableError} Redis could not be used
 * @throws the reason of `options.signal`, untouched, if that aborted the wait
 */
export function withLock<T>(key: Keys, fn: (lock: Lock) => T | PromiseLike<T>): Promise<T>
export function withLock<T>(
  key: Keys,
  options: WithLockOptions,
  fn: (lock: Lock) => T | PromiseLike<T>,
): Promise<T>

/**
 * Run or skip: one attempt to take `key`; if somebody holds it, `fn` doesn't run and the
 * result is `{ acquired: false }`. For scheduled jobs and double submits.
 * Rejects as {@link withLock} does, except that it never waits, so never with LockTimeoutError.
 */
export function tryWithLock<T>(key: Keys, fn: (lock: Lock) => T | PromiseLike<T>): Promise<TryResult<T>>
export function tryWithLock<T>(
  key: Keys,
  options: TryWithLockOptions,
  fn: (lock: Lock) => T | PromiseLike<T>,
): Promise<TryResult<T>>

/** {@link LockManager.acquire} on the default manager. */
export function acquire(key: Keys, options?: AcquireOptions): Promise<Lock>

/** {@link LockManager.tryAcquire} on the default manager. */
export function tryAcquire(key: Keys, options?: TryAcquireOptions): Promise<Lock | null>

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
 * Creates a manager. Synchronous; it connects when first used. Managers with equal connection options (where, credentials,
 * `keyPrefix`, `commandTimeout`) share one connection and queue, also across worker threads of a process.
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
  /**
   * The event loop of this thread was silent for longer than `maxStall`, so renewal of what it holds stopped: what isn't
   * released or renewed by its deadline is lost, reason `stalled`. Comes when the loop turns again.
   */
  stalled: [info: { keys: readonly string[]; silent: number }]
  /**
   * The server can't push to this process (no right to subscribe, say): its turns in the queue are found by looking, once a second
   * at the most, and it keeps its place all the same. `error.cause` says why. Emitted once until push works again.
   */
  fallback: [error: LockUnavailableError]
  /** The strategy `adaptive` chose another way of waiting for a key; `p99` is that of its last hold times, ms. */
  adapted: [info: { key: string; strategy: 'spin' | 'backoff' | 'hybrid'; p99: number | undefined }]
  /** A release could not be confirmed. It is repeated in the background until answered or the lease is over. */
  releaseFailed: [error: LockUnavailableError]
}

/** One set of connection options and defaults. Never emits `'error'`. */
export class LockManager extends EventEmitter<ManagerEvents> {
  private constructor()

  /**
   * Takes `key`, or all keys of an array at once, waiting up to `timeout`. Callers of one process are served first come,
   * first served, without further commands; processes queue in Redis and take turns in the order of their arrival, each bounded
   * by `turn` while another one waits.
   *
   * Cost: one round trip, one command if the key is free. If it isn't, two commands for a process's turn, whoever many of its
   * callers it serves, and one round trip from the release to the next owner; a look each second (a fifth of shorter ttls) while it lasts.
   *
   * Cancelling (`signal`, `timeout`, `close()`) leaves nothing behind: an attempt whose outcome is
   * unknown is followed by a release of its token until that is answered or its ttl is over.
   *
   * @throws {LockTimeoutError} ERR_LOCK_TIMEOUT: taken by somebody else for all of `timeout`
   * @throws {LockUnavailableError} ERR_LOCK_UNAVAILABLE: Redis could not be used. Definite trouble
   *   (credentials, rights, database, TLS, a host name that doesn't exist) rejects at once; passing
   *   trouble (refused, reset, no answer, LOADING, READONLY …) is retried until `timeout`
   * @throws {LockWrongTypeError} ERR_LOCK_WRONG_TYPE: the key holds data of another kind
   * @throws {LockDeadlockError} ERR_LOCK_DEADLOCK: called from within a `withLock` callback that holds the key
   * @throws {LockClosedError} ERR_LOCK_CLOSED: the manager is or was closed
   * @throws {LockBindingError} ERR_NATIVE_BINDING: the native addon could not be loaded
   * @throws the reason of `signal`, untouched
   */
  acquire(key: Keys, options?: AcquireOptions): Promise<Lock>

  /**
   * One attempt: the lock, or `null` if it is taken (also by the caller itself). Never waits for a holder. Rejects if Redis can't be used,
   * as {@link acquire} does, at the latest after `commandTimeout`.
   */
  tryAcquire(key: Keys, options?: TryAcquireOptions): Promise<Lock | null>

  /** See {@link withLock}. */
  withLock<T>(key: Keys, fn: (lock: Lock) => T | PromiseLike<T>): Promise<T>
  withLock<T>(key: Keys, options: WithLockOptions, fn: (lock: Lock) => T | PromiseLike<T>): Promise<T>

  /** See {@link tryWithLock}. */
  tryWithLock<T>(key: Keys, fn: (lock: Lock) => T | PromiseLike<T>): Promise<TryResult<T>>
  tryWithLock<T>(
    key: Keys,
    options: TryWithLockOptions,
    fn: (lock: Lock) => T | PromiseLike<T>,
  ): Promise<TryResult<T>>

  /**
   * Turns a ticket of {@link Lock.detach} back into a lock, in this process or another one with the same server,
   * database and `keyPrefix`; once: a second adoption rejects with {@link LockLostError}, reason `taken`, as does one
   * after the ticket's `ttl`. The lock keeps its fencing token; from now on it lives for `ttl` and is renewed.
   * One round trip, one command.
   *
   * @throws {LockLostError} the ticket was adopted before, or its time is over
   * @throws {LockUnavailableError} no answer within `commandTimeout`; the ticket may be used up, or not
   */
  adopt(ticket: Ticket, options?: AdoptOptions): Promise<Lock>

  /**
   * Runs `fn` as if it weren't called from within a `withLock` callback: for work that outlives the callback, and
   * that may ask for the same keys afterwards. Returns what `fn` returns.
   */
  detached<T>(fn: () => T): T

  /**
   * Resolves once the server answered; optional. Rejects with {@link LockUnavailableError}: at once for definite
   * trouble, after `timeout` (default 10 000) for passing trouble.
   */
  ready(options?: { timeout?: number | undefined }): Promise<void>

  /**
   * A cache of values that are loaded once in the whole fleet, see {@link Cache}. Synchronous; make one per kind of value and
   * keep it: it remembers who is loading what. It ends with the manager.
   *
   * @throws {TypeError | RangeError} naming the option, the value and what is allowed
   */
  cache(options?: CacheOptions): Cache

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

/** Of durations in milliseconds; `undefined` where nothing was measured. Percentiles to two digits. */
export interface Distribution {
  count: number
  p50: number | undefined
  p90: number | undefined
  p99: number | undefined
  max: number | undefined
}

export interface Stats {
  /** Locks granted, by the way they came: at once (first attempt), handed on inside the process without a command, in Redis's queue, or after polling. */
  acquired: number
  atOnce: number
  handedOn: number
  fromQueue: number
  polled: number
  /** Of `acquired`: grants that went on to others because the event loop was blocked and didn't fetch them; the caller waited again at its place. */
  abandoned: number
  /** Acquisitions that gave up: by `timeout` or a strategy's end, and by other errors or aborts. A try that found the lock taken counts as `busy`. */
  timeouts: number
  busy: number
  failed: number
  /** `timeouts` and `busy` as a share of all that came to an end by a grant or by them; `undefined` before the first. */
  contentionFailureRate: number | undefined
  /** Attempts of those who polled, first one included: the mean per acquisition; `undefined` before the first. */
  attemptsPerAcquisition: number | undefined
  /** Of the acquisitions that polled with a strategy of several phases: the share that won in the first one (spinning), and the share that left it. */
  wonSpinning: number | undefined
  leftSpinning: number | undefined
  /** How often `adaptive` began to wait in which way. */
  adaptive: { spin: number; backoff: number; hybrid: number }
  /** Locks given back, locks lost while held, and those by reason. */
  released: number
  lost: number
  losses: Record<'expired' | 'taken' | 'unreachable' | 'stalled' | 'maxHold' | 'closed', number>
  /** At this moment: locks held; callers waiting, and of these the first in line of their key, which ask the server, and those queued behind them. */
  held: number
  waiting: number
  spinning: number
  queued: number
  /** How long acquisitions waited, and how long locks were held. */
  waits: Distribution
  holds: Distribution
  /** Three times the p99 of `holds`, at least 100 ms: a ttl that outlives nearly every hold even without renewal. `undefined` before 20 holds. */
  suggestedTtl: number | undefined
  /** Requests sent by the shared connection; locks renewed or extended over it (many travel in one request); and how often it was re-established. */
  commands: number
  renewals: number
  reconnects: number
  /** CPU time of the native thread, which all managers of the process share, ms. */
  nativeCpu: number
}

// ---------------------------------------------------------------------------
// Locks
// ---------------------------------------------------------------------------

/** A held lock. */
export class Lock {
  private constructor()

  /** The key as given by the caller, without `keyPrefix`; the first of several. */
  readonly key: string
  /** All keys, in the order given, without repetition. */
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
   * How many holds share the lock: nested ones of a `reentrant` lock at this moment; with `owner`, those of the owner
   * in all processes when this one was granted. 1 otherwise, 0 once released or lost.
   */
  readonly holdCount: number
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
   * Lets go without releasing: the key stays taken for `ttl` (default: the ttl it was acquired with) from now, not
   * renewed, for whoever turns the ticket back into a lock: {@link LockManager.adopt}. This lock is then no longer held.
   * One round trip, one command.
   *
   * @throws {LockLostError} the lock is no longer ours
   * @throws {LockUnavailableError} no answer within `commandTimeout`: this lock is still held
   */
  detach(ttl?: number): Promise<Ticket>

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

/** A lock on its way to another owner: plain data that survives JSON. */
export interface Ticket {
  keys: string[]
  /** What the keys hold until it is adopted. */
  token: string
  fencingToken: number
  /** How long it is good for, ms from its making; and the ttl of the lock that it becomes, unless another is given. */
  ttl: number
  /** See {@link LockOptions.owner}. */
  owner?: string
}

export interface LockOptions {
  /**
   * The lease, ms: an integer from 100 to 2 147 483 647. Default 10 000. Renewed every ttl/3 while held, so it needn't cover the work;
   * it is how long others wait after a crash of the holder.
   */
  ttl?: number | undefined
  /** Renew while held. Default true. With `false` the lock is lost, reason `expired`, when `ttl` is over. */
  autoExtend?: boolean | undefined
  /** The lock is lost, reason `maxHold`, when it has been held for this long, ms, whatever is extended. At least 1. Default `Infinity`. */
  maxHold?: number | undefined
  /**
   * How long the event loop that holds the lock may be silent, ms, before it isn't renewed any more and is lost, reason
   * `stalled`, at its deadline. At least 100; `Infinity` is allowed. Default 30 000.
   */
  maxStall?: number | undefined
  /**
   * Released earlier than this after its acquisition, the key stays taken, by nobody, for the rest of this time, ms: nobody
   * else runs the same job in the same period. A process or thread that ends while it holds the lock frees the key at once. An integer from 0 to 2 147 483 647. Default 0. Not with `owner`.
   */
  minHold?: number | undefined
  /**
   * Asked for from within a running `withLock` callback that holds the keys: share that lock instead of rejecting with {@link LockDeadlockError}.
   * Each hold is released by itself; the last one gives the lock back. No round trip. Told by AsyncLocalStorage, so all that
   * the callback has begun is inside, also siblings of a `Promise.all`: they don't exclude each other. Default false.
   */
  reentrant?: boolean | undefined
  /**
   * Who holds: all calls with this name share the lock, in all processes and threads, and exclude everybody else. The
   * holds are counted in Redis, each by its own token, so that a command sent twice counts once; the lock is free when the
   * last is released or over. A well-formed string of 1 to 200 characters.
   */
  owner?: string | undefined
  /** How much a process does with the lock before it hands it to another one that waits. Default: see {@link Turn}. */
  turn?: Turn | undefined
  /**
   * `turn: { holders: 1 }`: processes take turns after each holder. Dearer: two commands and a round trip each. Not together with
   * `turn.holders`; the `turn` of a call goes before the `fair` of its manager. Default false.
   */
  fair?: boolean | undefined
}

/**
 * The bounds of a turn, which count only while another process waits: the callers of the process whose turn it is are served one after
 * the other, without commands and pauses. They are those of the caller with which the turn begins.
 */
export interface Turn {
  /** Callers served: an integer from 1, or `Infinity`. Default 16. */
  holders?: number | undefined
  /** For how long, ms: no further caller is served after it. `Infinity` is allowed. Default: 20, or ten times what Redis takes to answer if that is more. */
  duration?: number | undefined
}

/**
 * Polling, in words of the field: attempts at growing intervals, until the lock is free, `timeout` is over, or the
 * strategy ends. One caller polls for all of its process that want the key.
 */
export interface PollStrategy {
  type: 'poll'
  /** The first pause, ms. 0 is allowed: the next attempt is sent as soon as the last is answered. Default 50. */
  interval?: number | undefined
  /** By how much each pause is longer than the one before: 1 to 10. Default 1. */
  factor?: number | undefined
  /** The longest pause, ms: at least `interval`. Default 1 000, or `interval` if that is more. */
  cap?: number | undefined
  /**
   * Randomness, so that processes don't ask in step. A number from 0 to 1: up to this share is added, capped after. `[low, high]`: multiplied
   * by something between. `'full'`: between 0 and the pause; `'equal'`: between half of it and all of it; `'decorrelated'`: between `interval` and
   * three times the pause before, capped (Brooker, Exponential Backoff And Jitter, 2015). Default 0.
   */
  jitter?: number | readonly [low: number, high: number] | 'full' | 'equal' | 'decorrelated' | undefined
  /** Go on to `then` after this long, ms. Default `Infinity`. */
  maxDuration?: number | undefined
  /** Go on to `then` after this many attempts, the first of all included. An integer from 1. Default `Infinity`. */
  maxAttempts?: number | undefined
  /**
   * What follows. `'fail'` (default): the caller gives up with {@link LockTimeoutError}. Callers behind others of their process
   * give up when as much time is over as these attempts would take.
   */
  then?: Exclude<Strategy, 'adaptive'> | 'fail' | undefined
}

/**
 * How processes wait for each other:
 * - `handoff` (default): in a queue in Redis, whose next one is told by push when the lock is given back. Without push (see the
 *   event `fallback`) the same queue, looked at once a second, or each fifth of shorter ttls
 * - `adaptive`: per key, from the hold times of the last turns: p99 below 50 ms `spin`, above 200 ms `backoff`, between or unknown `hybrid`
 * - `fixed`: every 100 ms
 * - `spin`: every 5 ms for 1 200 ms, then `backoff`
 * - `backoff`: 50 ms × 2 up to 1 000 ms, jitter 0.3
 * - `hybrid`: every 5 ms for 200 ms, then `backoff`
 * - `spin-subscribe`: 1 ms × 2 up to 100 ms × [0.75, 1] for 100 attempts or 1 000 ms, then `handoff`
 *
 * Those that poll stand in the same queue and are told as well; they ask besides. Where push doesn't work that is how they find their
 * turn: until they do, the lock is kept for them, and idle; who pauses for longer than 2 s doesn't queue then or ever, and gets a lock that
 * nobody waits for. A pause never outlasts the holder's lease.
 */
export type Strategy =
  | 'handoff'
  | 'adaptive'
  | 'fixed'
  | 'spin'
  | 'backoff'
  | 'hybrid'
  | 'spin-subscribe'
  | PollStrategy

export interface AcquireOptions extends LockOptions {
  /** How long to wait, ms. 0: one attempt. `Infinity` is allowed. Default 10 000. */
  timeout?: number | undefined
  /** Cancels the *waiting* only; the call rejects with `signal.reason`. */
  signal?: AbortSignal | undefined
  /** How to wait for other processes. Default `handoff`. */
  strategy?: Strategy | undefined
}

export interface TryAcquireOptions extends LockOptions {
  /** Cancels the attempt; the call rejects with `signal.reason`. */
  signal?: AbortSignal | undefined
}

export interface AdoptOptions {
  /** See {@link LockOptions}. Default: that of the ticket. */
  ttl?: number | undefined
  autoExtend?: boolean | undefined
  maxHold?: number | undefined
  maxStall?: number | undefined
}

export interface WithLockOptions extends AcquireOptions {
  /** What to do if the lock was lost while `fn` ran and `fn` succeeded: `'reject'` (default) or `'ignore'`. */
  ifLost?: 'reject' | 'ignore' | undefined
}

export interface TryWithLockOptions extends TryAcquireOptions {
  ifLost?: 'reject' | 'ignore' | undefined
}

export type TryResult<T> = { acquired: true; result: T } | { acquired: false; result?: undefined }

export interface ManagerOptions extends Omit<LockOptions, 'owner'> {
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
  /** Default of {@link AcquireOptions.strategy}. */
  strategy?: Strategy | undefined
  /**
   * Whether `withLock` callbacks are followed by AsyncLocalStorage, to tell a call that would wait for itself, and for `reentrant`.
   * Default true. Before Node.js 24 the first use of AsyncLocalStorage in a process makes every `await` in it dearer; with `false` it isn't touched.
   */
  detectDeadlock?: boolean | undefined
  /** Keep the stack of each acquisition, for the warning about a lock whose handle was garbage-collected while held. Default false. */
  captureStacks?: boolean | undefined
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
// node:diagnostics_channel
// ---------------------------------------------------------------------------

/** Of `holdfast:acquire`: an acquisition came to an end. */
export interface AcquireMessage {
  keys: readonly string[]
  outcome: 'granted' | 'busy' | 'timeout' | 'failed'
  /** If granted. */
  waited?: number
  fencingToken?: number
  /** If not; the reason of `signal`, if that ended it. */
  error?: unknown
}

/** Of `holdfast:hold`: a lock ended that was granted while somebody listened. `gone`: it was released, and already lost. */
export interface HoldMessage {
  keys: readonly string[]
  fencingToken: number
  outcome: 'released' | 'gone' | 'detached' | Exclude<LockLostError['reason'], 'released'>
  /** ms */
  held: number
}

/** Of `holdfast:renew`: a held lock was renewed. */
export interface RenewMessage {
  keys: readonly string[]
  fencingToken: number
}

/** Of `holdfast:lost`: a held lock was lost. */
export interface LostMessage {
  keys: readonly string[]
  fencingToken: number
  error: LockLostError
}

/** Of `holdfast:cache`: a caller of a cache got a value; `key` includes the prefix. */
export interface CacheMessage {
  key: string
  outcome: 'hit' | 'stale' | 'loaded' | 'fallback'
}

/** Of `holdfast:load`: a loader ended; `key` includes the prefix. */
export interface LoadMessage {
  key: string
  outcome: 'loaded' | 'failed'
  /** ms */
  took: number
  error?: unknown
}

// ---------------------------------------------------------------------------
// Caches
// ---------------------------------------------------------------------------

/** How a loader is called. */
export interface LoadContext {
  /** As given by the caller, without `prefix`. */
  readonly key: string
  /**
   * Aborts when the load is pointless: `loadTimeout` is over, its lock was lost, or the manager was closed. `reason` is the error
   * that says so. Pass it on to whatever the loader waits for.
   */
  readonly signal: AbortSignal
  /**
   * The value that there is, if it was read and is to be replaced: one that isn't fresh any more, or is about not to be. A copy of
   * its own with each read. `undefined` in a load by `refresh`.
   */
  readonly previous: unknown
}

/**
 * Gets the value from where it really is. What it returns is what callers get, as the codec would bring it back. Runs in the asynchronous context
 * (AsyncLocalStorage) of the caller whose loader it is.
 */
export type Loader<T> = (context: LoadContext) => T | PromiseLike<T>

/** How long values are kept, and what happens when they aren't there. All times in ms. */
export interface CacheTerms<T = unknown> {
  /** How long a value is fresh; at least 100, or `Infinity`. Has no default: here or with the cache it must be given, unless `refreshEvery` is. */
  ttl?: number | undefined
  /** Spreads `ttl` by this share in both directions, at random, so that what was stored together doesn't expire together. Default 0.1. */
  ttlJitter?: number | undefined
  /**
   * For how long after `ttl` the old value is given to callers at once, while one process of the fleet loads the new one in the
   * background. Default 0: callers wait for the new one.
   */
  staleFor?: number | undefined
  /** For how long after `ttl` the old value is given to callers if the load fails. Default: as long as `staleFor`. */
  staleIfError?: number | undefined
  /**
   * Loads a value that is still fresh again in the background, so that it never expires under load. `'xfetch'`, the default: at random,
   * the more likely the nearer the end and the longer the last load took (Vattani et al., VLDB 2015). A number from 0 to 1: when less
   * than this share of `ttl` is left. `false`: never.
   */
  earlyRefresh?: 'xfetch' | number | false | undefined
  /** How early `'xfetch'` is: 1 by default, more is earlier. */
  beta?: number | undefined
  /**
   * The value never expires, and is loaded again this often by one process of those that have asked for it since they were started; each uses the
   * loader it was last given. Instead of `ttl`. Doesn't keep the process alive.
   */
  refreshEvery?: number | undefined
  /** How long it is remembered that the loader returned `null` or `undefined`. Without it that isn't remembered. */
  negativeTtl?: number | undefined
  /**
   * After a failed load of a value of which there is an old one, nobody in the fleet loads it again for this long; callers get the old value.
   * Default 10 000.
   */
  errorBackoff?: number | undefined
  /** How long a loader may take. Then callers get {@link CacheTimeoutError}, and somebody else may load. Default 30 000; `Infinity` is allowed. */
  loadTimeout?: number | undefined
  /** How long a caller waits for a load by another process, or by another caller of this one. Default 5 000; `Infinity` is allowed. */
  waitTimeout?: number | undefined
  /**
   * What happens then. `'load'`, the default: it loads for itself, without storing that, once for all such callers of the process; if the load it waits for runs in this very process, it goes on waiting.
   * `'stale'`: it gets the old value, however old, if there is one. `'throw'`: {@link CacheTimeoutError}.
   */
  onWaitTimeout?: 'load' | 'stale' | 'throw' | undefined
  /** What callers get instead of an error, as it is: a value, or a function that returns one. It isn't stored. `undefined` is none; a function may return it. */
  fallback?: T | ((error: Error, key: string) => T | PromiseLike<T>) | undefined
  /** The lease of the lock of whoever loads, renewed while it does: for how long others wait if its process dies. Default 10 000. */
  lockTtl?: number | undefined
}

export interface CacheOptions extends CacheTerms {
  /**
   * Goes before every key: values stand in Redis under `prefix` + key. The locks of loads are the manager's, with its `keyPrefix`, which must be
   * the same for all who share values. Default `'cache:'`.
   */
  prefix?: string | undefined
  /** How values are written: `'json'` (default), `'buffer'` for bytes, or your own. Both functions are synchronous. */
  codec?: 'json' | 'buffer' | CacheCodec | undefined
}

/** `encode` returns text or bytes; `decode` gets a Buffer of its own. */
export interface CacheCodec<T = unknown> {
  encode(value: T): string | Uint8Array
  decode(bytes: Buffer): T
}

export interface CacheEvents {
  /** A load in the background failed; callers had the old value. Foreground failures are the callers'. */
  loadFailed: [error: CacheError]
  /** A value was loaded and could not be stored: Redis failed, or the key holds data that is no cached value, which is left as it is. Callers have it all the same. */
  writeFailed: [error: CacheValueError]
  /** A value could not be decoded. It is loaded again and replaced. */
  readFailed: [error: CacheValueError]
  /** Redis can't be used, or the key holds something else: each process loads for itself. Once until Redis can be used again. */
  bypassed: [error: Error]
}

/**
 * Values that are expensive to get, kept in Redis (or `memory:`), and loaded once in the whole fleet when they aren't there: one process
 * takes a lock and loads, all others wait to be told. Each caller gets a value of its own. Never emits `'error'`.
 *
 * Values have 10 MiB at the most. A load ends with one script call that stores the value, gives the lock back and tells who waits, and does
 * nothing if the lock was lost: a slow old loader never replaces a newer value.
 */
export class Cache extends EventEmitter<CacheEvents> {
  private constructor()

  /**
   * The value of `key`: from Redis if it is fresh there, else from `loader`.
   *
   * Callers of one process share a load, and those of the same turn of the event loop a read. If another process loads, its value is waited for, and comes by push (by looking ten times a
   * second where push doesn't work). If that process dies, the next one loads when its lock is over: `lockTtl` and up to a second.
   *
   * Cost: a hit is one command, shared by all reads of the same turn of the event loop. A miss is four: read, lock, look again, store and unlock.
   * Whoever waits sends four as well, and one a second while it lasts.
   *
   * If Redis can't be used, each process loads for itself (event `bypassed`).
   *
   * @throws {CacheLoadError} ERR_CACHE_LOAD: the loader failed; `cause` is its error, or a copy with name, message and code if it ran in another process
   * @throws {CacheTimeoutError} ERR_CACHE_TIMEOUT: the loader took longer than `loadTimeout`, or the load that was waited for longer than `waitTimeout`
   * @throws {CacheValueError} ERR_CACHE_VALUE: what the loader returned can't be encoded, or is larger than 10 MiB
   * @throws {CacheDeadlockError} ERR_CACHE_DEADLOCK: called from within the loader of the same key
   * @throws {LockClosedError} ERR_LOCK_CLOSED: the manager is or was closed
   */
  getOrSet<T>(key: string, loader: Loader<T>, options?: CacheTerms<T>): Promise<T>

  /**
   * Loads now, whatever there is, and stores that: waits for its turn if somebody loads (`waitTimeout`). Rejects as {@link getOrSet} does, and
   * also if the value could not be stored.
   * @throws {LockUnavailableError} ERR_LOCK_UNAVAILABLE: Redis can't be used; nothing was loaded, or what was loaded may not be stored
   */
  refresh<T>(key: string, loader: Loader<T>, options?: CacheTerms<T>): Promise<T>

  /**
   * The value if there is one that is fresh, or has not been for no longer than `staleFor`; else `undefined`. Loads nothing. One command.
   * @throws {LockUnavailableError} ERR_LOCK_UNAVAILABLE: Redis can't be used
   */
  get<T = unknown>(key: string, options?: { staleFor?: number | undefined }): Promise<T | undefined>

  /**
   * Stores a value. A load that is under way doesn't replace it: its lock is taken away, and whoever asked after it began is served anew. One command.
   * @throws {CacheValueError} ERR_CACHE_VALUE: it can't be encoded, or is too large
   * @throws {LockUnavailableError} ERR_LOCK_UNAVAILABLE: Redis can't be used; whether the value was stored is unknown
   */
  set(
    key: string,
    value: unknown,
    options?: Pick<CacheTerms, 'ttl' | 'ttlJitter' | 'staleFor' | 'staleIfError' | 'negativeTtl'>,
  ): Promise<void>

  /** Removes the value; a load that is under way doesn't bring it back. Resolves whether there was one. One command; rejects as {@link set} does. */
  delete(key: string): Promise<boolean>

  /** Makes the value one that isn't fresh: it is kept for `staleFor` and `staleIfError` if it was stored with these, else removed. Otherwise like {@link delete}. */
  expire(key: string): Promise<boolean>

  /** A snapshot of the counters; cheap. Of this cache in this process. */
  stats(): CacheStats
}

export interface CacheStats {
  /** Callers who got a fresh value from Redis, an old one, and those for whom there was none that would do. */
  hits: number
  staleHits: number
  misses: number
  /** Loaders run in this process, and those that failed. */
  loads: number
  loadErrors: number
  /** Loads that were tried before the value expired, by `earlyRefresh`. */
  earlyRefreshes: number
  /** How often this process waited for another one's load, and callers whose `waitTimeout` ended. */
  waits: number
  waitTimeouts: number
  /** Callers who got their `fallback`. */
  fallbacks: number
  /** Locks of loads that could not be had or renewed. */
  lockFailures: number
  /** Loaded values that were not stored, because the lock was lost, or the value was set, deleted or expired meanwhile. */
  overruled: number
  /** Loads without a lock, because Redis couldn't be used. */
  bypasses: number
  writeFailures: number
  readFailures: number
  /** How long loaders took, ms. */
  loadTimes: Distribution
  /** How many callers of this process were served together by one load or wait. */
  herds: Distribution
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
  /** The key concerned, if any; the first of several. */
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
   * `unreachable`: renewal failed until the deadline; `stalled`: the event loop was silent for longer than `maxStall`; `maxHold`: it was held
   * for that long; `closed`: the manager was closed; `released`: it was given back or detached before (`assertHeld`, `extend`).
   */
  readonly reason: 'expired' | 'taken' | 'unreachable' | 'stalled' | 'maxHold' | 'closed' | 'released'
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

/** `ERR_LOCK_DEADLOCK`: waiting would be waiting for oneself: the call comes from within a `withLock` callback that holds the key. */
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

/** What caches throw beside {@link LockError}s. */
export class CacheError extends Error {
  readonly code: 'ERR_CACHE_LOAD' | 'ERR_CACHE_TIMEOUT' | 'ERR_CACHE_VALUE' | 'ERR_CACHE_DEADLOCK'
  /** As given by the caller. */
  readonly key: string
}

/** `ERR_CACHE_LOAD`: the loader failed. The same error for all callers of a process. */
export class CacheLoadError extends CacheError {
  readonly code: 'ERR_CACHE_LOAD'
  /** What the loader threw. If it ran in another process: an Error with the same name, message (up to 1 000 characters) and code. */
  readonly cause: unknown
}

/** `ERR_CACHE_TIMEOUT`. */
export class CacheTimeoutError extends CacheError {
  readonly code: 'ERR_CACHE_TIMEOUT'
  /** `loading`: the loader took longer than `loadTimeout`; `waiting`: the load that was waited for took longer than `waitTimeout`. */
  readonly phase: 'waiting' | 'loading'
}

/** `ERR_CACHE_VALUE`: a value can't be encoded, decoded or stored, or is too large. */
export class CacheValueError extends CacheError {
  readonly code: 'ERR_CACHE_VALUE'
}

/** `ERR_CACHE_DEADLOCK`: a loader asked for its own key. */
export class CacheDeadlockError extends CacheError {
  readonly code: 'ERR_CACHE_DEADLOCK'
}
