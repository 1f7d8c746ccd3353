// Taking, holding and giving back locks, seen from CommonJS.
import {
  acquire,
  createLocks,
  type Lock,
  type LockManager,
  locks,
  release,
  type Ticket,
  type TryResult,
  tryAcquire,
  tryWithLock,
  withLock,
} from 'holdfast'
import { type Same, sure } from './same.js'

declare const lock: Lock
declare const manager: LockManager
const { signal } = new AbortController()

export async function withLockReturnsTheValueOfItsCallback() {
  const promised = await withLock('key', async () => 1)
  sure<Same<typeof promised, number>>()

  const plain = await withLock('key', () => 'text')
  sure<Same<typeof plain, string>>()

  const nothing = await withLock('key', () => {})
  sure<Same<typeof nothing, void>>()

  const thenable = await withLock('key', (): PromiseLike<boolean> => Promise.resolve(true))
  sure<Same<typeof thenable, boolean>>()

  const either = await withLock('key', (): number | Promise<number> => 1)
  sure<Same<typeof either, number>>()

  const withOptions = await withLock(
    'key',
    { ttl: 5_000, timeout: 2_000, signal, autoExtend: false, ifLost: 'ignore' },
    async (held) => {
      sure<Same<typeof held, Lock>>()
      return held.fencingToken
    },
  )
  sure<Same<typeof withOptions, number>>()

  const ofManager = await manager.withLock('key', { timeout: Infinity }, async () => 1)
  sure<Same<typeof ofManager, number>>()
  await manager.withLock('key', async () => 1)
}

export async function withLockRefusesWhatItCannotUse() {
  // @ts-expect-error no callback
  withLock('key')
  // @ts-expect-error no callback after the options
  withLock('key', { ttl: 1_000 })
  // @ts-expect-error the callback comes last
  withLock('key', async () => 1, { ttl: 1_000 })
  // @ts-expect-error no key
  withLock(async () => 1)
  // @ts-expect-error not a set of keys
  withLock(new Set(['a', 'b']), async () => 1)
  // @ts-expect-error a key is a string
  withLock(1, async () => 1)
  // @ts-expect-error a time is a number
  withLock('key', { ttl: '5s' }, async () => 1)
  // @ts-expect-error unknown option
  withLock('key', { wait: 1_000 }, async () => 1)
  // @ts-expect-error `url` is an option of the manager
  withLock('key', { url: 'memory:' }, async () => 1)
  // @ts-expect-error not a strategy
  withLock('key', { strategy: 'sleep' }, async () => 1)
  // @ts-expect-error a phase that nothing can follow by hold times
  withLock('key', { strategy: { type: 'poll', then: 'adaptive' } }, async () => 1)
  // @ts-expect-error not a choice of `ifLost`
  withLock('key', { ifLost: 'throw' }, async () => 1)
  // @ts-expect-error the callback gets a Lock
  withLock('key', async (_lock: string) => 1)
  // @ts-expect-error the value is the callback's
  const wrong: string = await withLock('key', async () => 1)
  return wrong
}

export async function tryWithLockTellsWhetherItRan() {
  const outcome = await tryWithLock('key', async () => 1)
  sure<Same<typeof outcome, TryResult<number>>>()
  if (outcome.acquired) sure<Same<typeof outcome.result, number>>()
  else sure<Same<typeof outcome.result, undefined>>()

  const { acquired, result } = await tryWithLock(
    'key',
    { ttl: 1_000, signal, ifLost: 'reject' },
    () => 'text',
  )
  if (acquired) sure<Same<typeof result, string>>()
  else sure<Same<typeof result, undefined>>()

  const ofManager = await manager.tryWithLock('key', () => 1)
  sure<Same<typeof ofManager, TryResult<number>>>()
  await manager.tryWithLock('key', { autoExtend: true }, () => 1)

  // @ts-expect-error it may not have run
  const wrong: number = outcome.result
  // @ts-expect-error it never waits
  tryWithLock('key', { timeout: 1 }, () => 1)
  // @ts-expect-error no callback
  manager.tryWithLock('key')
  return wrong
}

export async function severalKeysAreTakenTogether() {
  const keys = ['a', 'b'] as const
  const value = await withLock(keys, { owner: 'job-42', reentrant: true }, async (held) => held.keys)
  sure<Same<typeof value, readonly string[]>>()
  await manager.acquire(['a'], { maxHold: 1_000, maxStall: Infinity, minHold: 100 })
  await manager.tryAcquire(keys)
}

export async function strategiesAreNamesOrObjects() {
  await acquire('key', { strategy: 'spin-subscribe' })
  await acquire('key', { strategy: { type: 'poll', interval: 0, maxAttempts: 500, then: 'backoff' } })
  await acquire('key', {
    strategy: { type: 'poll', jitter: [0.75, 1], then: { type: 'poll', jitter: 'full', then: 'fail' } },
  })
  // @ts-expect-error no such field
  await acquire('key', { strategy: { type: 'poll', delay: 100 } })
}

export async function aLockGoesFromOneOwnerToAnother() {
  const ticket = await lock.detach(5_000)
  sure<Same<typeof ticket, Ticket>>()
  const adopted = await manager.adopt(JSON.parse(JSON.stringify(ticket)) as Ticket, { autoExtend: false })
  sure<Same<typeof adopted, Lock>>()
  const detached = manager.detached(() => 1)
  sure<Same<typeof detached, number>>()
  // @ts-expect-error a ticket is no token
  manager.adopt(ticket.token)
}

export async function acquireGivesALock() {
  const plain = await acquire('key')
  sure<Same<typeof plain, Lock>>()
  await acquire('key', { ttl: 1_000, timeout: 0, signal, autoExtend: false })
  const ofManager = await manager.acquire('key', { timeout: Infinity })
  sure<Same<typeof ofManager, Lock>>()

  // @ts-expect-error `ifLost` is for withLock
  acquire('key', { ifLost: 'ignore' })
  // @ts-expect-error a signal is an AbortSignal
  acquire('key', { signal: true })
  // @ts-expect-error no key
  acquire()
}

export async function tryAcquireGivesALockOrNull() {
  const maybe = await tryAcquire('key', { ttl: 1_000, signal, autoExtend: true })
  sure<Same<typeof maybe, Lock | null>>()
  const ofManager = await manager.tryAcquire('key')
  sure<Same<typeof ofManager, Lock | null>>()

  // @ts-expect-error possibly null
  maybe.release()
  // @ts-expect-error it never waits
  tryAcquire('key', { timeout: 1 })
}

export async function aLockShowsWhatItIs() {
  sure<Same<typeof lock.key, string>>()
  sure<Same<typeof lock.keys, readonly string[]>>()
  sure<Same<typeof lock.token, string>>()
  sure<Same<typeof lock.fencingToken, number>>()
  sure<Same<typeof lock.waited, number>>()
  sure<Same<typeof lock.holdCount, number>>()
  sure<Same<typeof lock.signal, AbortSignal>>()
  sure<Same<typeof lock.held, boolean>>()
  sure<Same<typeof lock.remaining, number>>()
  lock.signal.addEventListener('abort', () => {})
  await fetch('http://localhost/', { signal: lock.signal })

  // @ts-expect-error read only
  lock.key = 'other'
  // @ts-expect-error read only
  lock.held = false
  // @ts-expect-error read only
  lock.fencingToken += 1
  // @ts-expect-error read only
  lock.keys.push('other')
  // @ts-expect-error made by acquiring only
  ;new (lock.constructor as typeof Lock)()
}

export async function aLockIsExtendedAndReleased() {
  const checked = lock.assertHeld()
  sure<Same<typeof checked, void>>()
  const extended = await lock.extend()
  sure<Same<typeof extended, void>>()
  await lock.extend(5_000)
  const wasOurs = await lock.release()
  sure<Same<typeof wasOurs, boolean>>()
  const wasOursToo = await release(lock)
  sure<Same<typeof wasOursToo, boolean>>()
  const disposed = await lock[Symbol.asyncDispose]()
  sure<Same<typeof disposed, void>>()

  // @ts-expect-error a time is a number
  lock.extend('5s')
  // @ts-expect-error a lock, not its key
  release('key')
  // @ts-expect-error a lock, which tryAcquire may not have given
  release(await tryAcquire('key'))
}

export async function locksAndManagersAreDisposedByScope() {
  await using ofThisScope = createLocks()
  await using held = await ofThisScope.acquire('key')
  await using maybe = await locks.tryAcquire('key')
  sure<Same<typeof maybe, Lock | null>>()
  // @ts-expect-error only asynchronously
  using wrong = await acquire('key')
  return [held, wrong]
}

export async function anArgumentMayComeFromTheCaller<T>(work: (held: Lock) => Promise<T>): Promise<T> {
  const generic: Promise<T> = withLock('key', work)
  const skipped: TryResult<T> = await tryWithLock('key', work)
  return skipped.acquired ? skipped.result : generic
}
