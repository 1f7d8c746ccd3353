'use strict'

// What befalls processes that wait in the queue, and the one that holds: they are killed, stopped, cut off.

const { setTimeout: sleep } = require('node:timers/promises')
const { check } = require('./support/history')
const { startWorker } = require('./support/processes')
const { onServer } = require('./support/stores')
const { until } = require('./support/until')

const LONG = globalThis.process.env.HOLDFAST_LONG === '1'

onServer((store) => {
  let key
  beforeEach(() => {
    key = store.newKey()
  })

  const queued = (number, name = key) =>
    until('they queue', async () => (await store.server.command('ZCARD', `lock:~q{0}${name}`)) === number, {
      within: 30_000,
    })

  /** How many processes can be told. */
  const listening = async () => (await store.server.command('PUBSUB', 'CHANNELS', 'lock:~s*')).length
  const fewer = (most) => until('their channels are gone', async () => (await listening()) <= most)

  async function processes(count, settings) {
    const all = Array.from({ length: count }, () => startWorker('queuer', { url: store.url, ...settings }))
    await Promise.all(all.map((worker) => worker.next('ready')))
    return all
  }

  async function waits(worker, name, more) {
    worker.send({ order: 'acquire', name, key, ...more })
    await worker.next('asked')
  }

  test('P8 liveness: the head of the queue is killed; the next is granted with the release', async () => {
    const [head, next] = await processes(2)
    const holder = await store.createLocks().acquire(key)
    await waits(head, 'head')
    await queued(1)
    await waits(next, 'next')
    await queued(2)
    const before = await listening()
    await head.kill()
    // The server has noticed.
    await fewer(before - 1)
    const from = performance.now()
    await holder.release()
    await next.next('granted')
    // No claim (3 s) and no look (1 s) is waited for.
    expect(performance.now() - from).toBeLessThan(900)
  })

  test('P8 liveness: a hundred that wait are killed at once; the next that lives is granted with the release', async () => {
    const dying = await processes(5, { managers: 20 })
    const [next] = await processes(1)
    const holder = await store.createLocks().acquire(key)
    for (const worker of dying) {
      for (let manager = 0; manager < 20; manager++) {
        worker.send({ order: 'acquire', name: `${manager}`, key, manager })
      }
    }
    await queued(100)
    await waits(next, 'next')
    await queued(101)
    const before = await listening()
    await Promise.all(dying.map((worker) => worker.kill()))
    await fewer(before - 100)
    const from = performance.now()
    await holder.release()
    await next.next('granted')
    expect(performance.now() - from).toBeLessThan(900)
    await queued(0)
  }, 60_000)

  test('P8 liveness: the holder is killed; the next is granted when its lease is over', async () => {
    const [holder, next] = await processes(2)
    await waits(holder, 'holder', { ttl: 500 })
    await holder.next('granted')
    await waits(next, 'next', { ttl: 500 })
    await queued(1)
    const from = performance.now()
    await holder.kill()
    await next.next('granted')
    // ttl, grace and two beats are 710 ms; a busy machine gets more.
    expect(performance.now() - from).toBeLessThan(5_000)
  })

  test('P1 exclusion: a waiter that is stopped while it is granted doesn’t run as owner when it goes on', async () => {
    const [stopped, next] = await processes(2)
    const locks = store.createLocks()
    const holdings = []
    for (let round = 0; round < (LONG ? 200 : 6); round++) {
      const holder = await locks.acquire(key, { ttl: 500 })
      await waits(stopped, 'stopped', { ttl: 500 })
      await queued(1)
      await waits(next, 'next', { ttl: 500 })
      await queued(2)
      globalThis.process.kill(stopped.pid, 'SIGSTOP')
      const from = performance.now()
      await holder.release()
      // It is told, and doesn't hear: its claim passes.
      const granted = await next.next('granted')
      expect(performance.now() - from).toBeLessThan(5_000)
      globalThis.process.kill(stopped.pid, 'SIGCONT')
      await sleep(round % 2 === 0 ? 0 : 200)
      next.send({ order: 'release', name: 'next' })
      const released = await next.next('released')
      expect(released.answer).toBe(true)
      holdings.push({
        key,
        owner: `next ${round}`,
        from: granted.at,
        until: released.at,
        fence: granted.fence,
      })
      const late = await stopped.next('granted')
      expect(late.held).toBe(true)
      stopped.send({ order: 'release', name: 'stopped' })
      const over = await stopped.next('released')
      holdings.push({ key, owner: `stopped ${round}`, from: late.at, until: over.at, fence: late.fence })
    }
    expect(check(holdings)).toEqual({ overlaps: [], fences: [] })
  }, 1_200_000)

  test('P1, P6, P7: 64 callers of 4 processes, all the time: no overlap, rising fences, even shares', async () => {
    const ms = LONG ? 60_000 : 3_000
    const all = await processes(4)
    for (const worker of all) worker.send({ order: 'compete', key, callers: 16, ms, hold: 0 })
    const done = await Promise.all(all.map((worker) => worker.next('competed')))
    const holdings = done.flatMap((message) => message.holdings)
    expect(holdings.length).toBeGreaterThan(LONG ? 200_000 : 2_000)
    expect(check(holdings)).toEqual({ overlaps: [], fences: [] })
    // Turns in order of arrival: nobody waits for longer than a turn of each of the others, many times over.
    holdings.sort((a, b) => (a.from < b.from ? -1 : 1))
    const process = (owner) => owner.split('.')[2]
    const runs = []
    for (const { owner, from } of holdings) {
      if (runs.at(-1)?.process !== process(owner)) runs.push({ process: process(owner), from, count: 0 })
      runs.at(-1).count++
    }
    // While others wait; at the beginning and the end they don't.
    const middle = runs.slice(8, -8)
    expect(middle.length).toBeGreaterThan(20)
    const order = middle.map((run) => run.process)
    const skipped = order.filter((each, i) => i >= 4 && each !== order[i - 4]).length
    expect(skipped / order.length).toBeLessThan(0.1)
  }, 180_000)

  /** Lets processes compete while `trouble` befalls the server's clients; returns what they held. */
  async function compete(ms, trouble, ttl = 1_000) {
    const all = await processes(4, { options: { ttl } })
    for (const worker of all) worker.send({ order: 'compete', key, callers: 4, ms, hold: 2 })
    const end = performance.now() + ms
    let troubles = 0
    while (performance.now() < end) {
      troubles += await trouble()
      await sleep(50)
    }
    const done = await Promise.all(all.map((worker) => worker.next('competed')))
    const holdings = done.flatMap((message) => message.holdings)
    return { holdings: holdings.sort((a, b) => (a.from < b.from ? -1 : 1)), troubles }
  }

  async function kill(type) {
    const list = await store.server.command('CLIENT', 'LIST', 'TYPE', type)
    // Of those that send commands, none of this test's own.
    const ids = list
      .split('\n')
      .filter(
        (line) => line.includes('lib-name=holdfast') || line.includes('cmd=evalsha') || type === 'pubsub',
      )
      .map((line) => /id=(\d+)/.exec(line)?.[1])
      .filter(Boolean)
    for (const id of ids) await store.server.command('CLIENT', 'KILL', 'ID', id)
    return ids.length
  }

  /** The longest time in which nobody held the lock, ms. */
  const longestGap = (holdings) =>
    Math.max(...holdings.slice(1).map((next, i) => Number(next.from - holdings[i].until) / 1e6))

  const length = LONG ? 30_000 : 5_000

  test('the signal connections are killed every 50 ms: no grant is missed for long, none is doubled', async () => {
    const { holdings, troubles } = await compete(length, () => kill('pubsub'))
    expect(troubles).toBeGreaterThan(50)
    expect(holdings.length).toBeGreaterThan(200)
    expect(check(holdings)).toEqual({ overlaps: [], fences: [] })
    // A beat is 200 ms, a claim 600 ms; a busy machine gets more.
    expect(longestGap(holdings)).toBeLessThan(2_500)
  }, 120_000)

  test('the command connections are killed as well: the same', async () => {
    const both = async () => (await kill('normal')) + (await kill('pubsub'))
    const { holdings, troubles } = await compete(length, async () => {
      await sleep(200)
      return both()
    })
    expect(troubles).toBeGreaterThan(20)
    expect(holdings.length).toBeGreaterThan(50)
    expect(check(holdings)).toEqual({ overlaps: [], fences: [] })
  }, 120_000)

  test('the scripts are forgotten again and again: nobody notices', async () => {
    const { holdings } = await compete(2_000, async () => {
      await store.server.command('SCRIPT', 'FLUSH')
      return 1
    })
    expect(holdings.length).toBeGreaterThan(100)
    expect(check(holdings)).toEqual({ overlaps: [], fences: [] })
  })

  test('everything is flushed while processes wait and one holds: it hears of it, and the others are served', async () => {
    const all = await processes(3)
    const holder = await store.createLocks().acquire(key, { ttl: 600 })
    for (const [i, worker] of all.entries()) {
      await waits(worker, 'it', { ttl: 600 })
      await queued(i + 1)
    }
    await store.server.command('FLUSHALL')
    const fences = [holder.fencingToken]
    const next = await Promise.race(
      all.map(async (worker) => {
        const { fence } = await worker.next('granted')
        fences.push(fence)
        worker.send({ order: 'release', name: 'it' })
        await worker.next('released')
        return worker
      }),
    )
    expect(next).toBeDefined()
    await until('all are served', () => fences.length === 4)
    expect(fences.every((fence, i) => i === 0 || fence > fences[i - 1])).toBe(true)
    await until('it is lost', () => !holder.held)
  })

  test('without memory a release still hands the lock on', async () => {
    const [next] = await processes(1)
    const holder = await store.createLocks().acquire(key)
    await waits(next, 'next')
    await queued(1)
    await store.server.command('CONFIG', 'SET', 'maxmemory', 1)
    try {
      expect(await holder.release()).toBe(true)
      expect(await next.next('granted')).toMatchObject({ held: true })
      next.send({ order: 'release', name: 'next' })
      expect(await next.next('released')).toMatchObject({ answer: true })
    } finally {
      await store.server.command('CONFIG', 'SET', 'maxmemory', 0)
    }
  })
})
