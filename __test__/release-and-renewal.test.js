'use strict'

// P5 no zombie: leases so short that they are renewed all the time, given back around the very moment of a renewal.

const { setTimeout: sleep } = require('node:timers/promises')
const { isInScript, monitor } = require('./support/monitor')
const { onServer } = require('./support/stores')

// Long enough for a third of it to pass on a busy machine without an answer, which a release would not wait for.
const TTL = 900
// The lease is renewed after a third of it.
const RENEWAL = TTL / 3
const TOTAL = process.env.HOLDFAST_LONG === '1' ? 100_000 : 10_000
const AT_ONCE = 1_000
const SPREAD = 25

const randomly = (from, to) => from + Math.random() * (to - from)

/** Reads what a server executes, and collects the requests that speak of a key after it was deleted. */
function watchForZombies(prefix) {
  const deleted = new Set()
  const zombies = []
  let renewals = 0
  const names = new RegExp(`"(${prefix}[^"]*)"`, 'g')
  function read(line) {
    const keys = Array.from(line.matchAll(names), ([, key]) => key)
    if (keys.length === 0) return
    if (isInScript(line)) {
      if (/"(del|unlink)"/i.test(line)) for (const key of keys) deleted.add(key)
      if (/"pexpire"/i.test(line)) renewals++
    } else if (keys.some((key) => deleted.has(key))) zombies.push(line)
  }
  return { read, deleted, zombies, renewals: () => renewals }
}

onServer((store) => {
  test(
    `${TOTAL} releases that race a renewal: no loss, and no lease comes back`,
    async () => {
      const prefix = 'lock:zombie:'
      const locks = store.createLocks({ ttl: TTL })
      const lost = jest.fn()
      locks.on('lost', lost)
      await locks.ready()
      const seen = await monitor(store.server)
      const watch = watchForZombies(prefix)
      let next = 0
      let released = 0

      async function holder() {
        while (next < TOTAL) {
          const lock = await locks.acquire(`zombie:${next++}`)
          await sleep(randomly(RENEWAL - SPREAD, RENEWAL + SPREAD))
          if (await lock.release()) released++
        }
      }

      await Promise.all(Array.from({ length: AT_ONCE }, holder))
      await sleep(2 * TTL)
      await seen.flush()
      seen.close()
      for (const line of seen.lines) watch.read(line)

      expect(lost).not.toHaveBeenCalled()
      expect(released).toBe(TOTAL)
      expect(await store.server.command('KEYS', `${prefix}*`)).toEqual([])
      expect(watch.deleted.size).toBe(TOTAL)
      expect(watch.zombies).toEqual([])
      // Nothing was raced if nothing was renewed.
      expect(watch.renewals()).toBeGreaterThan(TOTAL / 5)
      expect(locks.stats()).toMatchObject({ held: 0, acquired: TOTAL, released: TOTAL, lost: 0 })
    },
    TOTAL * 3,
  )

  test('the reader of the test above sees a renewal that comes after its release', async () => {
    const seen = await monitor(store.server)
    const watch = watchForZombies('zombie:')
    await store.server.command('EVAL', "redis.call('DEL', KEYS[1])", 1, 'zombie:1')
    await store.server.command('EVAL', "redis.call('PEXPIRE', KEYS[1], 100)", 1, 'zombie:1')
    await seen.flush()
    seen.close()
    for (const line of seen.lines) watch.read(line)
    expect(watch.zombies).toEqual([expect.stringContaining('PEXPIRE')])
  })
})
