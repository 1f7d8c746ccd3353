'use strict'

// Processes wait in a queue, and are told when their turn has come.

const { once } = require('node:events')
const path = require('node:path')
const { setTimeout: sleep } = require('node:timers/promises')
const { Worker } = require('node:worker_threads')
const { startWorker } = require('./support/processes')
const { startProxy } = require('./support/proxy')
const { eachStore, onServer } = require('./support/stores')
const { until } = require('./support/until')

let count = 0

/** A manager that is another process to the store: one with another commandTimeout has a connection of its own. */
const process = (store, options) =>
  store.createLocks({ commandTimeout: 3_000 + (count++ % 1_000), ...options })

const queueOf = (store, key) => store.server.command('ZRANGE', `lock:~q{0}${key}`, 0, -1)

eachStore((store) => {
  let key
  beforeEach(() => {
    key = store.newKey()
  })

  /** Resolves when so many processes stand in the queue. */
  async function queued(number) {
    if (store.server) return until('they queue', async () => (await queueOf(store, key)).length === number)
    await new Promise(setImmediate)
  }

  test('P7 order: processes are served in the order in which they came', async () => {
    const holder = await process(store).acquire(key)
    const served = []
    const waiting = []
    for (let i = 0; i < 6; i++) {
      const locks = process(store)
      await locks.ready()
      waiting.push(
        locks.acquire(key).then(async (lock) => {
          served.push([i, lock.fencingToken])
          await lock.release()
        }),
      )
      await queued(i + 1)
    }
    await holder.release()
    await Promise.all(waiting)
    expect(served.map(([i]) => i)).toEqual([0, 1, 2, 3, 4, 5])
    const fences = served.map(([, fence]) => fence)
    expect(fences.every((fence, i) => fence > (fences[i - 1] ?? holder.fencingToken))).toBe(true)
  })

  test('a contended turn costs two commands, and its owner is told', async () => {
    const [mine, theirs] = [process(store), process(store)]
    await Promise.all([mine.ready(), theirs.ready()])
    const holder = await theirs.acquire(key)
    const waiting = mine.acquire(key)
    await queued(1)
    await holder.release()
    await (await waiting).release()
    expect(mine.stats()).toMatchObject({ acquired: 1, fromQueue: 1, atOnce: 0, commands: 2 })
  })

  /** Who is served, `a` for a caller of a process that has the lock, `b` for one of another process. */
  async function turns(options, callers) {
    const [a, b] = [process(store, options), process(store, options)]
    await Promise.all([a.ready(), b.ready()])
    const served = []
    const caller = async (locks, name) => {
      const lock = await locks.acquire(key)
      served.push(name)
      await lock.release()
    }
    const holder = await a.acquire(key)
    const all = [caller(b, 'b')]
    await queued(1)
    for (let i = 0; i < callers; i++) all.push(caller(a, 'a'), caller(b, 'b'))
    await holder.release()
    await Promise.all(all)
    return served.join('')
  }

  test('P7 order: a turn is over after 16 holders while another process waits', async () => {
    // The holder that was there before is the first of the turn.
    const served = await turns({ turn: { duration: Infinity } }, 60)
    const runs = served.match(/a+|b+/g).map((run) => run.length)
    expect(Math.max(...runs.slice(0, -1))).toBeLessThanOrEqual(16)
    expect(runs.length).toBeGreaterThan(6)
  })

  test('turn: { holders } sets the bound', async () => {
    const served = await turns({ turn: { holders: 3, duration: Infinity } }, 20)
    const runs = served.match(/a+|b+/g).map((run) => run.length)
    expect(Math.max(...runs.slice(0, -1))).toBeLessThanOrEqual(3)
  })

  test('turn: { duration } sets it in time', async () => {
    const served = await turns({ turn: { holders: Infinity, duration: 0 } }, 10)
    expect(served).toMatch(/^b?(ab)+a?b?$/)
  })

  test('P7 order: fair: processes take turns after each holder', async () => {
    expect(await turns({ fair: true }, 10)).toMatch(/^b?(ab)+a?b?$/)
  })

  test('while nobody else waits a turn goes on without a command', async () => {
    const locks = process(store)
    await locks.ready()
    const callers = Array.from({ length: 2_000 }, async () => (await locks.acquire(key)).release())
    await Promise.all(callers)
    expect(locks.stats().commands).toBeLessThan(200)
  })

  describe('P3 no ghost, P9 bounded: who waits and goes leaves nothing', () => {
    const endings = {
      timeout: (locks) =>
        expect(locks.acquire(key, { timeout: 30 })).rejects.toMatchObject({ phase: 'queued' }),
      abort: async (locks) => {
        const controller = new AbortController()
        const waiting = locks.acquire(key, { signal: controller.signal })
        await queued(1)
        controller.abort('enough')
        await expect(waiting).rejects.toBe('enough')
      },
      'close()': async (locks) => {
        const waiting = locks.acquire(key)
        await queued(1)
        await Promise.all([locks.close(), expect(waiting).rejects.toMatchObject({ code: 'ERR_LOCK_CLOSED' })])
      },
    }
    test.each(Object.keys(endings))('%s', async (ending) => {
      const [holder, next] = [process(store), process(store)]
      const lock = await holder.acquire(key)
      const locks = process(store)
      await locks.ready()
      await endings[ending](locks)
      if (store.server) await queued(0)
      // And its place isn't waited for.
      const waiting = next.acquire(key)
      await lock.release()
      await (await waiting).release()
      if (store.server) expect(await store.server.command('KEYS', `*${key}*`)).toEqual([])
    })
  })

  test('a set of keys gets its turn among crowds of single keys', async () => {
    const [a, b] = [`${key}:a`, `${key}:b`]
    let going = true
    const crowd = async (name) => {
      const locks = process(store)
      while (going) await locks.withLock(name, () => sleep(1))
    }
    const crowds = [crowd(a), crowd(a), crowd(b), crowd(b)]
    const locks = process(store)
    for (let i = 0; i < 5; i++) await locks.withLock([b, a], () => {}, { timeout: 20_000 }).catch(() => {})
    const got = await locks.acquire([a, b], { timeout: 20_000 })
    expect(got.held).toBe(true)
    await got.release()
    going = false
    await Promise.all(crowds)
  })
})

onServer((store) => {
  let key
  beforeEach(() => {
    key = store.newKey()
  })
  const queued = (number) => until('they queue', async () => (await queueOf(store, key)).length === number)

  test('a try gets a free lock whose queue is dead, and so does a call that waits', async () => {
    for (const call of ['tryAcquire', 'acquire']) {
      const queue = `lock:~q{0}${key}`
      for (let i = 1; i <= 5; i++) {
        await store.server.command('ZADD', queue, i, `hf1.h.${'0'.repeat(31)}${i}.1.3100`)
      }
      const lock = await process(store)[call](key)
      expect(lock.held).toBe(true)
      await lock.release()
      expect(await store.server.command('KEYS', `*${key}*`)).toEqual([])
    }
  })

  test('an entry of another version of the protocol in the queue is passed over', async () => {
    const holder = await process(store).acquire(key)
    await store.server.command('ZADD', `lock:~q{0}${key}`, 1, 'hf9.h.somebody')
    const waiting = process(store).acquire(key)
    await queued(2)
    await holder.release()
    await (await waiting).release()
  })

  test('a lock of another version is a foreign one: respected, and waited for', async () => {
    await store.server.command('SET', `lock:${key}`, 'hf9.h.somebody', 'PX', 60_000)
    const locks = process(store)
    expect(await locks.tryAcquire(key)).toBe(null)
    const waiting = locks.acquire(key)
    await queued(1)
    await store.server.command('DEL', `lock:${key}`)
    await (await waiting).release()
  })

  describe('P3 no ghost: a grant under way to somebody who goes is passed on within a round trip', () => {
    const endings = {
      abort: async ({ locks, aborted }) => {
        aborted.abort('enough')
        return { locks, error: 'enough' }
      },
      timeout: async ({ locks }) => ({ locks, error: expect.objectContaining({ phase: 'queued' }) }),
      'close()': async ({ locks }) => {
        await locks.close()
        return { locks, error: expect.objectContaining({ code: 'ERR_LOCK_CLOSED' }) }
      },
    }

    test.each(Object.keys(endings))('%s', async (ending) => {
      const proxy = await startProxy(store.server.port)
      const holder = await process(store).acquire(key)
      const locks = process(store, { url: proxy.url })
      const next = process(store)
      await Promise.all([locks.ready(), next.ready()])
      const aborted = new AbortController()
      const timeout = ending === 'timeout' ? 400 : 60_000
      const first = locks.acquire(key, { signal: aborted.signal, timeout }).catch((error) => error)
      await queued(1)
      const second = next.acquire(key)
      await queued(2)
      // What the server says to it is on its way for longer than the wait lasts.
      proxy.setDelay(800, 'toClient')
      await holder.release()
      const { error } = await endings[ending]({ locks, aborted })
      const from = performance.now()
      expect(await first).toEqual(error)
      const lock = await second
      // Not only after the claim of 3 s.
      expect(performance.now() - from).toBeLessThan(2_500)
      await lock.release()
      await until(
        'nothing is left',
        async () => (await store.server.command('KEYS', `*${key}*`)).length === 0,
      )
    })

    test('the end of its thread', async () => {
      const proxy = await startProxy(store.server.port)
      const holder = await process(store).acquire(key)
      const next = process(store)
      await next.ready()
      const options = { ttl: 10_000, timeout: 60_000 }
      const workerData = {
        manager: { url: proxy.url, commandTimeout: 2_500 },
        call: 'acquire',
        wanted: { keys: key, options },
      }
      const thread = new Worker(path.join(__dirname, 'workers', 'one-call.js'), { workerData })
      await once(thread, 'message')
      thread.postMessage('go')
      await queued(1)
      const second = next.acquire(key)
      await queued(2)
      proxy.setDelay(800, 'toClient')
      await holder.release()
      await thread.terminate()
      const from = performance.now()
      const lock = await second
      expect(performance.now() - from).toBeLessThan(2_500)
      await lock.release()
      await until(
        'nothing is left',
        async () => (await store.server.command('KEYS', `*${key}*`)).length === 0,
      )
    })
  })

  test('P3 no ghost: a grant for a turn that its process doesn’t know goes on at once', async () => {
    const [holder, alive, next] = [process(store), process(store), process(store)]
    const before = await store.server.command('PUBSUB', 'CHANNELS', 'lock:~s*')
    await alive.ready()
    const channel = await until('it listens', async () => {
      const channels = await store.server.command('PUBSUB', 'CHANNELS', 'lock:~s*')
      return channels.find((each) => !before.includes(each))
    })
    const lock = await holder.acquire(key)
    // As a command leaves it that was delivered long after its sender gave it up.
    const core = channel.slice('lock:~s{0}'.length)
    await store.server.command('ZADD', `lock:~q{0}${key}`, 1, `hf1.h.${core}.987654.30000`)
    const waiting = next.acquire(key)
    await queued(2)
    const from = performance.now()
    await lock.release()
    await (await waiting).release()
    // Not only after its 30 s.
    expect(performance.now() - from).toBeLessThan(5_000)
  })

  test('P1 exclusion: a grant whose time is over before it is heard of counts as none', async () => {
    const waiter = startWorker('queuer', { url: store.url })
    await waiter.next('ready')
    const locks = process(store)
    const holder = await locks.acquire(key)
    waiter.send({ order: 'acquire', name: 'it', key, ttl: 500 })
    await waiter.next('asked')
    await queued(1)
    waiter.send({ order: 'block', ms: 3_000 })
    await waiter.next('blocking')
    await holder.release()
    // Granted natively, and lost while the loop is blocked and the server says nothing.
    store.server.pause()
    await sleep(1_500)
    store.server.resume()
    const granted = await waiter.next('granted')
    expect(granted.held).toBe(true)
    waiter.send({ order: 'release', name: 'it' })
    expect(await waiter.next('released')).toMatchObject({ answer: true })
  })

  test('P2 deadline: what was granted by push and never confirmed isn’t held for longer than the claim', async () => {
    const [mine, theirs] = [process(store), process(store)]
    await Promise.all([mine.ready(), theirs.ready()])
    // The server stops between the grant and its confirmation 50 ms later; on a busy machine that takes a few tries.
    for (let tries = 0; tries < 10; tries++) {
      const holder = await theirs.acquire(key)
      const waiting = mine.acquire(key, { ttl: 2_000 })
      await queued(1)
      const from = performance.now()
      await holder.release()
      const lock = await waiting
      store.server.pause()
      try {
        if (lock.remaining > 1_220) continue
        const lost = once(lock.signal, 'abort')
        // A claim is three looks of 400 ms, and 20 ms of grace: the server keeps it no longer.
        await sleep(from + 1_220 - performance.now())
        expect(lock.held).toBe(false)
        await lost
        expect(lock.signal.reason).toMatchObject({ code: 'ERR_LOCK_LOST', reason: 'unreachable' })
        return
      } finally {
        store.server.resume()
        await lock.release().catch(() => {})
      }
    }
    throw new Error('the server was never stopped in time')
  }, 60_000)

  test('P8 liveness: a process whose event loop is blocked when its turn comes is passed over, and keeps its place', async () => {
    const [blocked, next] = [0, 0].map(() => startWorker('queuer', { url: store.url }))
    await Promise.all([blocked.next('ready'), next.next('ready')])
    const holder = await process(store).acquire(key)
    blocked.send({ order: 'acquire', name: 'blocked', key })
    await blocked.next('asked')
    await queued(1)
    next.send({ order: 'acquire', name: 'next', key })
    await queued(2)
    blocked.send({ order: 'block', ms: 3_000 })
    await blocked.next('blocking')
    await holder.release()
    const granted = await next.next('granted')
    next.send({ order: 'release', name: 'next' })
    await next.next('released')
    const late = await blocked.next('granted')
    expect(late).toMatchObject({ held: true })
    expect(late.at).toBeGreaterThan(granted.at)
    expect(late.fence).toBeGreaterThan(granted.fence)
  })

  test('if nobody else waits, a blocked process keeps what it was granted', async () => {
    const blocked = startWorker('queuer', { url: store.url })
    await blocked.next('ready')
    const holder = await process(store).acquire(key)
    blocked.send({ order: 'acquire', name: 'blocked', key })
    await queued(1)
    blocked.send({ order: 'block', ms: 1_500 })
    await blocked.next('blocking')
    await holder.release()
    await until('it is granted', async () => (await queueOf(store, key)).length === 0)
    const value = await store.server.command('GET', `lock:${key}`)
    expect(await blocked.next('granted')).toMatchObject({ held: true })
    expect(await store.server.command('GET', `lock:${key}`)).toBe(value)
  })

  test('P10 quiet: a connection that is lost and made anew is no fallback; one that can’t be is', async () => {
    const user = { username: 'changing', password: 'secret' }
    const grant = (channels) =>
      store.server.command('ACL', 'SETUSER', 'changing', 'reset', 'on', '>secret', '~*', '+@all', channels)
    await grant('allchannels')
    const locks = process(store, user)
    const events = []
    for (const name of ['fallback', 'unavailable']) locks.on(name, () => events.push(name))
    await (await locks.acquire(key)).release()
    const listening = () => store.server.command('PUBSUB', 'CHANNELS', 'lock:~s*')
    const lose = async () => {
      for (const line of (await store.server.command('CLIENT', 'LIST', 'TYPE', 'pubsub')).split('\n')) {
        const id = /\bid=(\d+).* user=changing\b/.exec(line)?.[1]
        if (id) await store.server.command('CLIENT', 'KILL', 'ID', id)
      }
    }
    const held = await locks.acquire(key)
    const before = (await listening()).length
    await lose()
    await until('it listens again', async () => (await listening()).length === before)
    expect(events).toEqual([])
    await grant('resetchannels')
    await lose()
    await until('it is told', () => events.length > 0)
    expect(events).toEqual(['fallback'])
    // A manager that comes later hears of it as well.
    const newcomer = store.createLocks({ ...user, ...{ commandTimeout: 3_000 + ((count - 1) % 1_000) } })
    newcomer.on('fallback', () => events.push('newcomer'))
    await newcomer.tryAcquire(store.newKey())
    await until('it is told, too', () => events.includes('newcomer'))
    await held.release()
  })

  describe('without the right to subscribe', () => {
    const rights = ['on', '>secret', '~lock:*', 'resetchannels', '+@all']
    const quiet = (options) => process(store, { username: 'quiet', password: 'secret', ...options })
    beforeEach(() => store.server.command('ACL', 'SETUSER', 'quiet', 'reset', ...rights))

    test('P10 quiet: fallback is emitted once, with its cause; and with the right it is not', async () => {
      const [locks, able] = [quiet(), process(store)]
      const events = []
      for (const each of [locks, able]) each.on('fallback', (error) => events.push([each, error]))
      for (let i = 0; i < 3; i++) {
        await (await locks.acquire(key)).release()
        await (await able.acquire(key)).release()
      }
      await until('it is told', () => events.length > 0)
      expect(events.map(([each]) => each === locks)).toEqual([true])
      expect(events[0][1]).toMatchObject({ code: 'ERR_LOCK_UNAVAILABLE' })
      expect(events[0][1].cause.message).toMatch(/permission/i)
    })

    test('the queue is the same, and in order; turns are found by looking', async () => {
      const served = []
      const holder = await quiet().acquire(key, { ttl: 500 })
      const waiting = []
      for (let i = 0; i < 4; i++) {
        const locks = i === 2 ? process(store) : quiet()
        await locks.ready()
        waiting.push(
          locks.acquire(key, { ttl: 500 }).then(async (lock) => {
            served.push(i)
            await lock.release()
          }),
        )
        await queued(i + 1)
      }
      await holder.release()
      await Promise.all(waiting)
      expect(served).toEqual([0, 1, 2, 3])
    })
  })

  test('many short time-outs leave no key, no channel and no memory', async () => {
    const long = globalThis.process.env.HOLDFAST_LONG === '1'
    const rounds = long ? 1_000 : 50
    const holder = await process(store).acquire(key)
    const locks = process(store)
    const round = () =>
      Promise.allSettled(Array.from({ length: 100 }, (_, i) => locks.acquire(key, { timeout: 1 + (i % 5) })))
    await round()
    const channels = await store.server.command('PUBSUB', 'CHANNELS', '*')
    const { rss } = globalThis.process.memoryUsage()
    for (let i = 0; i < rounds; i++) await round()
    // Those of managers of other tests may have gone meanwhile.
    const after = await store.server.command('PUBSUB', 'CHANNELS', '*')
    expect(after.filter((channel) => !channels.includes(channel))).toEqual([])
    await queued(0)
    // Some were over before the first answer.
    const { waiting, timeouts, failed } = locks.stats()
    expect({ waiting, ended: timeouts + failed }).toEqual({ waiting: 0, ended: (rounds + 1) * 100 })
    expect(globalThis.process.memoryUsage().rss - rss).toBeLessThan(50e6)
    await holder.release()
    expect(await store.server.command('KEYS', `*${key}*`)).toEqual([])
  }, 300_000)
})
