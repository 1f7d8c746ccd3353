'use strict'

// What is seen of locks from outside: figures, diagnostics channels, NODE_DEBUG.

const channel = require('node:diagnostics_channel')
const { execFile } = require('node:child_process')
const path = require('node:path')
const { promisify } = require('node:util')
const { LockLostError, LockTimeoutError } = require('..')
const { eachStore } = require('./support/stores')

/** Collects what is published while `during` runs. */
async function published(names, during) {
  const messages = Object.fromEntries(names.map((name) => [name, []]))
  const listeners = names.map((name) => {
    const listener = (message) => messages[name].push(message)
    channel.subscribe(`holdfast:${name}`, listener)
    return () => channel.unsubscribe(`holdfast:${name}`, listener)
  })
  try {
    await during()
  } finally {
    for (const stop of listeners) stop()
  }
  return messages
}

eachStore((store) => {
  let locks, key
  beforeEach(() => {
    locks = store.createLocks()
    key = store.newKey()
  })

  describe('stats()', () => {
    test('of a manager that did nothing, and of one that is closed', async () => {
      expect(locks.stats()).toMatchObject({
        acquired: 0,
        waits: { count: 0, p99: undefined },
        suggestedTtl: undefined,
      })
      await (await locks.acquire(key)).release()
      const before = locks.stats()
      await locks.close()
      expect(locks.stats()).toMatchObject({
        ...before,
        commands: expect.any(Number),
        nativeCpu: expect.any(Number),
      })
    })

    test('ways, waits, holds and a ttl that would do', async () => {
      for (let turn = 0; turn < 20; turn++) {
        const lock = await locks.acquire(key)
        const next = turn % 5 === 0 && locks.acquire(key)
        await new Promise((resolve) => setTimeout(resolve, 2))
        await lock.release()
        if (next) await (await next).release()
      }
      const stats = locks.stats()
      expect(stats).toMatchObject({ acquired: 24, polled: 0, released: 24, contentionFailureRate: 0 })
      expect(stats.atOnce + stats.handedOn).toBe(24)
      expect(stats.waits.count).toBe(24)
      expect(stats.holds.count).toBe(24)
      expect(stats.holds.p50).toBeGreaterThan(1)
      expect(stats.holds.p50).toBeLessThanOrEqual(stats.holds.p90)
      expect(stats.holds.p90).toBeLessThanOrEqual(stats.holds.p99)
      expect(stats.holds.p99).toBeLessThanOrEqual(stats.holds.max)
      expect(stats.suggestedTtl).toBe(Math.max(100, Math.ceil(3 * stats.holds.p99)))
      expect(stats.nativeCpu).toBeGreaterThan(0)
    })

    test('who waits, and where', async () => {
      const other = store.elsewhere(key)
      const theirs = await other.locks.acquire(other.key)
      const waiting = Array.from({ length: 5 }, () => locks.acquire(key, { strategy: 'backoff' }))
      await expect(locks.tryAcquire(key)).resolves.toBe(null)
      expect(locks.stats()).toMatchObject({
        waiting: 5,
        spinning: 1,
        queued: 4,
        busy: 1,
        contentionFailureRate: 1,
      })
      await theirs.release()
      const first = await waiting[0]
      expect(locks.stats()).toMatchObject({ waiting: 4, spinning: 0, queued: 4, held: 1 })
      await first.release()
      for (const each of waiting.slice(1)) await (await each).release()
      expect(locks.stats()).toMatchObject({ waiting: 0, spinning: 0, queued: 0, held: 0, acquired: 5 })
      expect(locks.stats().contentionFailureRate).toBeCloseTo(1 / 6)
    })

    test('losses by reason', async () => {
      const lost = async (options) => {
        const lock = await locks.acquire(store.newKey(), options)
        await new Promise((resolve) => lock.signal.addEventListener('abort', resolve))
      }
      await Promise.all([lost({ maxHold: 20 }), lost({ maxHold: 20 }), lost({ ttl: 100, autoExtend: false })])
      expect(locks.stats()).toMatchObject({ lost: 3, losses: { maxHold: 2, expired: 1, taken: 0 }, held: 0 })
    })
  })

  describe('diagnostics_channel', () => {
    test('acquire: granted, busy, timed out, failed', async () => {
      const { acquire } = await published(['acquire'], async () => {
        const lock = await locks.acquire(key)
        await locks.tryAcquire(key)
        await locks.acquire(key, { timeout: 10 }).catch(() => {})
        await locks.acquire(key, { signal: AbortSignal.timeout(10) }).catch(() => {})
        await lock.release()
      })
      expect(acquire.map(({ outcome }) => outcome)).toEqual(['granted', 'busy', 'timeout', 'failed'])
      expect(acquire.every(({ keys }) => keys.length === 1 && keys[0] === key)).toBe(true)
      expect(acquire[0]).toMatchObject({ waited: expect.any(Number), fencingToken: expect.any(Number) })
      expect(acquire[2].error).toBeInstanceOf(LockTimeoutError)
      expect(acquire[3].error.name).toBe('TimeoutError')
    })

    test('hold, renew and lost', async () => {
      const { hold, renew, lost } = await published(['hold', 'renew', 'lost'], async () => {
        const lock = await locks.acquire(key, { ttl: 150 })
        const { renewals } = locks.stats()
        while (locks.stats().renewals < renewals + 3) await new Promise((resolve) => setTimeout(resolve, 5))
        await lock.release()
        const short = await locks.acquire(key, { maxHold: 20 })
        await new Promise((resolve) => short.signal.addEventListener('abort', resolve))
      })
      expect(hold.map(({ outcome }) => outcome)).toEqual(['released', 'maxHold'])
      expect(hold[0].held).toBeGreaterThan(100)
      expect(renew.length).toBeGreaterThanOrEqual(1)
      expect(renew[0]).toMatchObject({ keys: [key], fencingToken: hold[0].fencingToken })
      expect(lost).toHaveLength(1)
      expect(lost[0].error).toBeInstanceOf(LockLostError)
      expect(lost[0]).toMatchObject({ keys: [key], fencingToken: hold[1].fencingToken })
    })

    test('a renewal that nobody listens to is not told', async () => {
      await published(['renew'], async () => void (await locks.acquire(key)))
      const told = await published(['acquire'], async () => {
        await locks.acquire(store.newKey(), { ttl: 150 })
        const { renewals } = locks.stats()
        while (locks.stats().renewals < renewals + 3) await new Promise((resolve) => setTimeout(resolve, 5))
      })
      expect(told.acquire).toHaveLength(1)
    })
  })
})

test('NODE_DEBUG=holdfast prints what went wrong, and no passwords', async () => {
  const root = JSON.stringify(path.join(__dirname, '..'))
  const program = `
    const { createLocks } = require(${root})
    const locks = createLocks({ url: 'memory:' })
    const down = createLocks({ url: 'redis://:secret@127.0.0.1:1', timeout: 50 })
    ;(async () => {
      await locks.acquire('guarded', { maxHold: 20 })
      await locks.acquire('guarded', { timeout: 5 }).catch(() => {})
      await down.acquire('other').catch(() => {})
      await Promise.all([locks.close(), down.close()])
    })()`
  const run = (env) =>
    promisify(execFile)(process.execPath, ['-e', program], { env: { ...process.env, ...env } })
  const { stderr } = await run({ NODE_DEBUG: 'holdfast' })
  for (const text of ['HOLDFAST', 'guarded', '127.0.0.1:1', 'ECONNREFUSED', 'close'])
    expect(stderr).toContain(text)
  expect(stderr).not.toContain('secret')
  expect((await run({ NODE_DEBUG: '' })).stderr).toBe('')
})
