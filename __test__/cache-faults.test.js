'use strict'

// Caches of several processes, and what goes wrong between them: one load, no wrong value, nothing stuck.

const { setTimeout: sleep } = require('node:timers/promises')
const { startWorker } = require('./support/processes')
const { onServer } = require('./support/stores')
const { until } = require('./support/until')

const BEAT = 1_000

onServer((store) => {
  let key
  let workers

  beforeEach(() => {
    key = store.newKey()
    workers = []
  })
  afterEach(async () => {
    for (const worker of workers) {
      const events = worker.messages.filter(({ name }) => name === 'unhandledRejection')
      expect(events).toEqual([])
    }
    await Promise.all(workers.map((worker) => worker.kill()))
  })

  const ask = (...args) => store.server.command(...args)

  async function start(count, cache = {}, options = {}) {
    const started = Array.from({ length: count }, () =>
      startWorker('cache-user', { url: store.url, cache, options }),
    )
    workers.push(...started)
    await Promise.all(started.map((worker) => worker.next('ready')))
    return started
  }

  /** Everything that belongs to the cache and isn't a value is gone, or will be. */
  async function nothingStuck() {
    await until('the lock is given back', async () => (await ask('EXISTS', `lock:load:cache:${key}`)) === 0)
    for (const name of await ask('KEYS', '*')) {
      if (name !== 'lock:~f{0}') expect(await ask('PTTL', name)).toBeGreaterThan(-1)
    }
  }

  test('5 processes of 50 callers each, cold: one load', async () => {
    const all = await start(5)
    for (const worker of all) worker.send({ order: 'ask', key, callers: 50, value: 'value', ms: 200 })
    const answers = await Promise.all(all.map((worker) => worker.next('answered')))
    expect(answers.flatMap((each) => each.answers)).toEqual(Array(250).fill('value'))
    const loads = all.flatMap(({ messages }) => messages.filter(({ type }) => type === 'loading'))
    expect(loads.length).toBe(1)
    await nothingStuck()
  })

  test('who waits asks once a second, and is told at once', async () => {
    const [loader, waiter] = await start(2)
    loader.send({ order: 'ask', key, value: 'value' })
    await loader.next('loading')
    waiter.send({ order: 'stats' })
    const before = (await waiter.next('stats')).commands
    waiter.send({ order: 'ask', key, callers: 50, value: 'wrong' })
    await waiter.next('asked')
    await sleep(2_500)
    loader.send({ order: 'load' })
    const sent = process.hrtime.bigint()
    expect((await waiter.next('answered')).answers).toEqual(Array(50).fill('value'))
    expect(Number(process.hrtime.bigint() - sent) / 1e6).toBeLessThan(500)
    waiter.send({ order: 'stats' })
    const { commands, stats } = await waiter.next('stats')
    // Read, lock, look, two looks more, the look that finds it.
    expect(commands - before).toBeLessThanOrEqual(7)
    expect(stats).toMatchObject({ loads: 0, waits: 1, herds: { max: 50 } })
  })

  test('kill -9 of the loader: the next load begins when its lock is over, and everybody gets a value', async () => {
    const [loader, ...others] = await start(3, { lockTtl: 1_000 })
    loader.send({ order: 'ask', key, value: 'lost' })
    await loader.next('loading')
    for (const worker of others) worker.send({ order: 'ask', key, callers: 10, value: 'value' })
    await Promise.all(others.map((worker) => worker.next('asked')))
    await until('they wait', async () => (await ask('SCARD', `lock:~w{0}cache:${key}`)) >= 2)
    const killed = performance.now()
    await loader.kill()
    const next = await Promise.race(others.map((worker) => worker.next('loading').then(() => worker)))
    expect(performance.now() - killed).toBeLessThan(1_000 + 2 * BEAT)
    next.send({ order: 'load' })
    const answers = await Promise.all(others.map((worker) => worker.next('answered')))
    expect(answers.flatMap((each) => each.answers)).toEqual(Array(20).fill('value'))
    await nothingStuck()
  })

  test('a loader that stood still for longer than its lock does not replace what was loaded meanwhile', async () => {
    const [slow, quick] = await start(2, { lockTtl: 500 })
    slow.send({ order: 'ask', key, value: 'old' })
    await slow.next('loading')
    slow.child.kill('SIGSTOP')
    quick.send({ order: 'ask', key, value: 'new', ms: 0 })
    expect((await quick.next('answered')).answers).toEqual(['new'])
    slow.child.kill('SIGCONT')
    slow.send({ order: 'load' })
    expect((await slow.next('answered')).answers).toEqual(['old'])
    quick.send({ order: 'get', key })
    expect((await quick.next('got')).value).toBe('new')
    slow.send({ order: 'stats' })
    expect((await slow.next('stats')).stats.overruled).toBe(1)
    await nothingStuck()
  })

  test('a lost lock aborts the loader', async () => {
    const [loader] = await start(1, { lockTtl: 500 })
    loader.send({ order: 'ask', key, value: 'old' })
    await loader.next('loading')
    await ask('SET', `lock:load:cache:${key}`, 'somebody', 'PX', 300)
    expect((await loader.next('aborted')).reason).toBe('ERR_LOCK_LOST')
    loader.send({ order: 'load' })
    expect((await loader.next('answered')).answers).toEqual(['old'])
    expect(await ask('EXISTS', `cache:${key}`)).toBe(0)
  })

  test('Redis gone between lock and write: callers have the value, which is not stored', async () => {
    const [loader] = await start(1, {}, { commandTimeout: 300 })
    loader.send({ order: 'ask', key, callers: 3, value: 'value' })
    await loader.next('loading')
    await store.server.kill()
    loader.send({ order: 'load' })
    expect((await loader.next('answered')).answers).toEqual(['value', 'value', 'value'])
    expect(await loader.next('event')).toMatchObject({ name: 'writeFailed' })

    // Without Redis each process loads for itself, once.
    loader.send({ order: 'ask', key, callers: 10, value: 'alone', ms: 20 })
    expect((await loader.next('answered')).answers).toEqual(Array(10).fill('alone'))
    expect(await loader.next('event')).toMatchObject({ name: 'bypassed', code: 'ERR_LOCK_UNAVAILABLE' })
    loader.send({ order: 'ask', key, value: 'alone', ms: 0 })
    expect((await loader.next('answered')).answers).toEqual(['alone'])
    loader.send({ order: 'stats' })
    expect((await loader.next('stats')).stats).toMatchObject({ loads: 3, bypasses: 2, writeFailures: 1 })

    // An order that can't be carried out is no success.
    loader.send({ order: 'refresh', key })
    expect(await loader.next('refreshed')).toMatchObject({ code: 'ERR_LOCK_UNAVAILABLE' })

    await store.server.restart()
    await until('Redis is used again', async () => {
      loader.send({ order: 'ask', key, value: 'stored', ms: 0 })
      await loader.next('answered')
      return (await ask('EXISTS', `cache:${key}`)) === 1
    })
    await nothingStuck()
    expect(loader.messages.filter(({ name }) => name === 'bypassed')).toEqual([])
  })

  test('connections that are killed, and scripts that are forgotten, cost nobody a value', async () => {
    const all = await start(3, { lockTtl: 1_000 })
    let over = false
    const trouble = async () => {
      for (let i = 0; !over; i++) {
        if (i % 3 === 0) await ask('SCRIPT', 'FLUSH')
        else await ask('CLIENT', 'KILL', 'TYPE', i % 3 === 1 ? 'normal' : 'pubsub', 'SKIPME', 'yes')
        await sleep(20)
      }
    }
    const troubled = trouble()
    for (let round = 0; round < 15; round++) {
      const name = `${key}:${round}`
      for (const worker of all) worker.send({ order: 'ask', key: name, callers: 10, value: round, ms: 50 })
      const answers = await Promise.all(all.map((worker) => worker.next('answered')))
      expect(answers.flatMap((each) => each.answers)).toEqual(Array(30).fill(round))
    }
    over = true
    await troubled
  })

  test('connections that are killed all the time while values are read: every call settles', async () => {
    const [reader] = await start(1)
    let over = false
    const killing = (async () => {
      while (!over) {
        await ask('CLIENT', 'KILL', 'TYPE', 'normal', 'SKIPME', 'yes')
        await sleep(1)
      }
    })()
    for (let round = 0; round < 200; round++) {
      reader.send({ order: 'ask', key: `${key}:${round % 20}`, callers: 100, value: round % 20, ms: 0 })
      const { answers } = await reader.next('answered')
      expect(answers).toEqual(Array(100).fill(round % 20))
    }
    over = true
    await killing
  })

  test('FLUSHALL while it is loaded: the load counts for nothing, and the next one is stored', async () => {
    const [loader, other] = await start(2, { lockTtl: 500 })
    loader.send({ order: 'ask', key, value: 'old' })
    await loader.next('loading')
    other.send({ order: 'ask', key, value: 'new', ms: 0 })
    await until('it waits', async () => (await ask('SCARD', `lock:~w{0}cache:${key}`)) > 0)
    await ask('FLUSHALL')
    expect((await other.next('answered')).answers).toEqual(['new'])
    loader.send({ order: 'load' })
    expect((await loader.next('answered')).answers).toEqual(['old'])
    other.send({ order: 'get', key })
    expect((await other.next('got')).value).toBe('new')
  })

  test('the clock of the server steps: forward, nothing old is stored; back, nobody waits for ever', async () => {
    const lock = `lock:load:cache:${key}`
    const [loader, other] = await start(2, { lockTtl: 1_000, waitTimeout: 300 })
    loader.send({ order: 'ask', key, value: 'old' })
    await loader.next('loading')
    // Forward: to whoever looks, every ttl is over.
    for (const name of [lock, `lock:~w{0}cache:${key}`]) await ask('PEXPIREAT', name, 1)
    other.send({ order: 'ask', key, value: 'new', ms: 0 })
    expect((await other.next('answered')).answers).toEqual(['new'])
    loader.send({ order: 'load' })
    await loader.next('answered')
    other.send({ order: 'get', key })
    expect((await other.next('got')).value).toBe('new')

    // Back: what a dead process has left lasts an hour longer.
    await ask('DEL', `cache:${key}`)
    loader.send({ order: 'ask', key, value: 'never' })
    await loader.next('loading')
    await loader.kill()
    await ask('PEXPIRE', lock, 3_600_000)
    other.send({ order: 'ask', key, callers: 3, value: 'alone', ms: 0 })
    expect((await other.next('answered')).answers).toEqual(['alone', 'alone', 'alone'])
    // An order ends it.
    const locks = store.createLocks()
    await locks.cache({ ttl: 60_000 }).delete(key)
    expect(await ask('EXISTS', lock)).toBe(0)
  })

  test.each([
    ['a list', (name) => ask('RPUSH', name, 'theirs')],
    ['a text of somebody else', (name) => ask('SET', name, 'theirs')],
  ])('a key that holds %s is left as it is, and callers have their value', async (_, put) => {
    const name = `cache:${key}`
    await put(name)
    const before = await ask('DUMP', name)
    const cache = store.createLocks().cache({ ttl: 60_000 })
    const events = jest.fn()
    cache.on('writeFailed', events).on('bypassed', events)
    const load = jest.fn(() => 'value')
    expect(await Promise.all([1, 2].map(() => cache.getOrSet(key, load)))).toEqual(['value', 'value'])
    expect(load).toHaveBeenCalledTimes(1)
    await until('it is told', () => events.mock.calls.length > 0)
    expect(events.mock.calls[0][0].message).toContain('cached value')
    expect(await ask('DUMP', name)).toBe(before)
    expect(await cache.get(key)).toBe(undefined)
    await cache.set(key, 'ours')
    expect(await cache.get(key)).toBe('ours')
    expect(await ask('EXISTS', `lock:load:${name}`)).toBe(0)
  })

  test('locks without a prefix do not stand in the way of values', async () => {
    const cache = store.createLocks({ keyPrefix: '' }).cache({ ttl: 60_000, prefix: '' })
    expect(await cache.getOrSet(key, () => 1)).toBe(1)
    expect(await cache.get(key)).toBe(1)
  })

  test('neither a load in the background nor refreshEvery keeps a process alive', async () => {
    const settings = { url: store.url, cache: { refreshEvery: 100 }, stays: true }
    const worker = startWorker('cache-user', settings)
    workers.push(worker)
    await worker.next('ready')
    worker.send({ order: 'ask', key, value: 1, ms: 0 })
    await worker.next('answered')
    await worker.next('loading')
    await worker.next('loading')
    worker.send({ order: 'leave' })
    expect(await worker.ended).toMatchObject({ code: 0, signal: null })
  })
})
