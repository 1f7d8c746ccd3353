'use strict'

// P3 no ghost: a call that was ended leaves nothing behind, whatever the server does meanwhile. Lists of what the server
// does, what is called, and how the call ends; and a test for each combination.

const { getEventListeners, once } = require('node:events')
const path = require('node:path')
const { Worker } = require('node:worker_threads')
const { createLocks } = require('..')
const { blockLoop } = require('./support/block-loop')
const { calls } = require('./support/calls')
const { monitor } = require('./support/monitor')
const { startProxy } = require('./support/proxy')
const { onServer } = require('./support/stores')
const { until } = require('./support/until')

const LONG = process.env.HOLDFAST_LONG === '1'
// A key that is gone long before this was given back, it has not run out.
const LONG_TTL = 600_000
const COMMAND_TIMEOUT = 300
// A give that may have been lost is repeated every second.
const BEAT = 1_000
// What a busy machine may add.
const SLACK = 700

/**
 * What the server does at the await of a call. `begin` makes it so, `moment` is when the call is ended, `end` makes
 * it pass. `mayAnswer`: the call may be answered before it is ended.
 */
const servers = [
  {
    name: 'answers at once, the call ended in the same turn',
    mayAnswer: true,
    atOnce: true,
    timeout: 0,
  },
  {
    name: 'answers at once, the call ended while its command is on its way',
    mayAnswer: true,
    moment: (cell) => cell.sent,
    timeout: 1,
  },
  {
    name: 'answers at once, the call ended as the answer comes',
    mayAnswer: true,
    moment: (cell) => cell.answered,
    timeout: 2,
  },
  {
    // What is in the way between server and package here runs in this thread, and would stand still with it.
    name: 'has answered while the thread was busy, the call ended before the answer is read',
    direct: true,
    mayAnswer: true,
    async moment() {
      // The command is sent at the end of this turn.
      await new Promise(process.nextTick)
      blockLoop(30)
    },
    timeout: 3,
  },
  {
    name: 'answers an error: out of memory',
    begin: ({ server }) => server.command('CONFIG', 'SET', 'maxmemory', 1),
    moment: (cell) => cell.answered,
    end: ({ server }) => server.command('CONFIG', 'SET', 'maxmemory', 0),
  },
  {
    name: 'ends the connection, the command not executed',
    mayAnswer: true,
    begin: ({ proxy }) => proxy.blackHole('toServer'),
    async moment({ proxy, sent }) {
      await sent
      await proxy.resume()
    },
  },
  {
    name: 'ends the connection, the command executed',
    mayAnswer: true,
    begin: ({ proxy }) => proxy.blackHole('toClient'),
    async moment({ proxy, executed }) {
      await executed
      await proxy.resume()
    },
  },
  {
    name: 'gets the command late',
    begin: ({ proxy }) => proxy.setDelay(200, 'toServer'),
    moment: (cell) => cell.sent,
    end: (cell) => cell.executed,
  },
  {
    name: 'answers late',
    begin: ({ proxy }) => proxy.setDelay(200, 'toClient'),
    moment: (cell) => cell.executed,
  },
  {
    name: 'never gets the command',
    begin: ({ proxy }) => proxy.blackHole(),
    moment: (cell) => cell.sent,
    end: ({ proxy }) => proxy.resume(),
  },
  {
    name: 'never answers',
    begin: ({ proxy }) => proxy.blackHole('toClient'),
    moment: (cell) => cell.executed,
    // After as long as a command may take the connection is given up as well, and what is to follow needs another one.
    end: ({ proxy, ending }) => ending === 'nothing' && proxy.resume(),
  },
  {
    name: 'is out of reach once it has executed the command, for a while',
    begin: ({ proxy }) => proxy.blackHole('toClient'),
    async moment({ proxy, executed }) {
      await executed
      proxy.blackHole()
    },
    end: ({ proxy }) => proxy.resume(),
  },
  {
    name: 'ends the connection, the command executed, and is gone for longer than a command may take',
    begin: ({ proxy }) => proxy.blackHole('toClient'),
    async moment({ proxy, executed }) {
      await executed
      await proxy.refuse()
    },
    end: ({ proxy }) => new Promise((resolve) => setTimeout(resolve, 100)).then(() => proxy.resume()),
  },
  {
    name: 'is out of reach once it has executed the command, for good',
    // Nobody can give it back: it runs out.
    ttl: 500,
    begin: ({ proxy }) => proxy.blackHole('toClient'),
    async moment({ proxy, executed }) {
      await executed
      proxy.blackHole()
    },
  },
]

/** How a call ends. Each returns what is awaited besides the call itself. */
const endings = {
  abort: (cell) => cell.controller.abort(cell.reason),
  timeout: () => {},
  nothing: () => {},
  'close()': (cell) => cell.locks.close(),
  'end of its thread': (cell) => cell.thread.terminate(),
}

/** The short form leaves out what differs from others only by the command. */
const SHORT = {
  'one key': {
    acquire: ['abort', 'timeout', 'close()', 'end of its thread'],
    release: ['nothing', 'close()', 'end of its thread'],
    extend: ['nothing'],
    shorten: ['nothing', 'end of its thread'],
    detach: ['nothing', 'close()', 'end of its thread'],
    adopt: ['nothing', 'close()', 'end of its thread'],
  },
  'several keys': { acquire: ['abort'], adopt: ['nothing'] },
  'an owner': { acquire: ['abort'], adopt: ['nothing'] },
  minHold: { release: ['nothing', 'close()'] },
}

function endingsOf(kind, call, { mayAnswer }) {
  const first = call === 'acquire' ? ['abort', 'timeout'] : ['nothing']
  const all = LONG ? [...first, 'close()', 'end of its thread'] : (SHORT[kind][call] ?? [])
  // A ticket that was made is good, whether or not the thread that asked for it lived to use it.
  return call === 'detach' && mayAnswer ? all.filter((ending) => ending !== 'end of its thread') : all
}

/** What is locked: the keys, and further options. Three kinds of commands. */
const kinds = {
  'one key': [(key) => key, {}],
  'several keys': [(key) => [`${key}:a`, `${key}:b`, `${key}:c`], {}],
  'an owner': [(key) => key, { owner: 'somebody' }],
  // Then a release leaves the key taken, for a moment.
  minHold: [(key) => key, { minHold: 100 }],
}

/** What a call may be rejected with; an abort rejects with its reason. */
const CODES = {
  acquire: {
    timeout: ['ERR_LOCK_UNAVAILABLE', 'ERR_LOCK_TIMEOUT'],
    'close()': ['ERR_LOCK_CLOSED'],
  },
  release: { nothing: ['ERR_LOCK_UNAVAILABLE'], 'close()': ['ERR_LOCK_UNAVAILABLE'] },
  adopt: { nothing: ['ERR_LOCK_UNAVAILABLE'], 'close()': ['ERR_LOCK_CLOSED', 'ERR_LOCK_UNAVAILABLE'] },
}

/** What keeps this process alive: Node lists a timer for it, and the package has one while a promise is pending. */
const activeTimers = () => process.getActiveResourcesInfo().filter((name) => name === 'Timeout').length

const settled = (promise) =>
  promise.then(
    (value) => ({ value }),
    (error) => ({ error }),
  )

onServer((store) => {
  let seen
  let cell

  async function prepare({ direct, ttl = LONG_TTL }, kind) {
    seen = await monitor(store.server)
    const proxy = await startProxy(store.server.port)
    const manager = { url: direct ? store.url : proxy.url, commandTimeout: COMMAND_TIMEOUT }
    const key = store.newKey()
    const [keysOf, options] = kinds[kind]
    const wanted = { keys: keysOf(key), options: { ttl, ...options } }
    cell = { server: store.server, proxy, manager, key, wanted, reason: new Error('no more') }
    cell.timers = activeTimers()
    cell.locks = createLocks(manager)
    // Of the same core, and not what ends.
    cell.sharer = createLocks(manager)
    cell.elsewhere = store.elsewhere(key).locks
    await cell.sharer.ready()
  }

  afterEach(async () => {
    await cell.thread?.terminate()
    await store.server.command('CONFIG', 'SET', 'maxmemory', 0)
    await cell.proxy.resume()
    await commandsBefore()
    await Promise.all([cell.locks.close(), cell.sharer.close()])
    await cell.proxy.stop()
    seen.close()
  })

  /** Resolves when what was sent before over the shared connection has been executed: a server keeps the order. */
  const commandsBefore = () => cell.sharer.withLock(`${cell.key}:sweep`, { timeout: 20_000 }, () => {})

  const takeElsewhere = () => cell.elsewhere.acquire(cell.wanted.keys, { ...cell.wanted.options, timeout: 0 })

  /** Makes the call in this thread. */
  async function callHere(call, { timeout = 100 }, ending) {
    cell.controller = new AbortController()
    const { signal } = cell.controller
    const options = { ...cell.wanted.options, signal, ...(ending === 'timeout' ? { timeout } : {}) }
    cell.given = cell.ticket ?? (await calls[call].before?.(cell.locks, cell.wanted))
    return () => settled(calls[call].begin(cell.locks, cell.given, { ...cell.wanted, options }))
  }

  /** Makes it in a thread of its own: then nothing is known of what it comes to. */
  async function callInThread(call, { atOnce: exit }) {
    const { manager, wanted, ticket } = cell
    const workerData = { manager, call, wanted, ticket, exit }
    cell.thread = new Worker(path.join(__dirname, 'workers', 'one-call.js'), { workerData })
    await once(cell.thread, 'message')
    return () => {
      cell.thread.postMessage('go')
      return once(cell.thread, 'exit')
    }
  }

  /** Makes the call, ends it at its moment, and returns what came of it. */
  async function play(server, call, ending) {
    cell.ending = ending
    const inThread = ending === 'end of its thread'
    if (calls[call].needsTicket) cell.ticket = await (await takeElsewhere()).detach(cell.wanted.options.ttl)
    const start = inThread ? await callInThread(call, server) : await callHere(call, server, ending)
    await server.begin?.(cell)
    cell.sent = cell.proxy.arrival('toServer')
    cell.answered = cell.proxy.arrival('toClient')
    cell.executed = seen.next(`"lock:${cell.key}`)
    const outcome = start()
    if (!server.atOnce) await server.moment(cell)
    else if (inThread) await outcome
    const [{ value, error }] = await Promise.all([outcome, endings[ending](cell)])
    return { value, error }
  }

  function expectOutcome(server, call, ending, { value, error }) {
    if (ending === 'end of its thread') return
    if (call === 'acquire' && !server.mayAnswer) expect(value).toBe(undefined)
    if (error === undefined) return
    if (ending === 'abort') return expect(error).toBe(cell.reason)
    expect(CODES[call]?.[ending] ?? ['ERR_LOCK_UNAVAILABLE', 'ERR_LOCK_LOST']).toContain(error.code)
  }

  /** Gives back what the call came to: whoever has the lock, or a ticket of it, is no ghost. */
  async function giveBack(call, { value }) {
    const lock = typeof value?.release === 'function' ? value : cell.given
    await settled(lock?.release?.() ?? Promise.resolve())
    const ticket = call === 'detach' ? value : cell.ticket
    // A ticket that wasn't used up by the call is still good; it is used up now.
    if (ticket) await cell.elsewhere.adopt(ticket).then((adopted) => adopted.release(), isUsedUp)
  }

  const isUsedUp = (error) => expect(error).toMatchObject({ code: 'ERR_LOCK_LOST', reason: 'taken' })

  const nothingIsLeft = () =>
    until(
      'no key is left',
      async () => (await store.server.command('KEYS', `*${cell.key}*`)).length === 0,
      // By a give that is repeated at the next beat, or by the end of a short lease.
      { within: BEAT + SLACK + (cell.wanted.options.ttl % LONG_TTL) },
    )

  describe.each(Object.keys(kinds))('%s', (kind) => {
    describe.each(Object.keys(calls).filter((call) => LONG || SHORT[kind][call]))('%s', (call) => {
      describe.each(servers)('the server $name', (server) => {
        beforeEach(() => prepare(server, kind))

        test.each(endingsOf(kind, call, server))('ended by %s', async (ending) => {
          const { locks, sharer } = cell
          const outcome = await play(server, call, ending)
          expectOutcome(server, call, ending, outcome)
          await server.end?.(cell)
          await giveBack(call, outcome)
          await nothingIsLeft()
          // What is still on its way brings nothing back.
          if (!cell.proxy.swallowing.toClient) await commandsBefore()
          expect(await (await takeElsewhere()).release()).toBe(true)
          await nothingIsLeft()
          expect(locks.stats()).toMatchObject({ held: 0, waiting: 0 })
          expect(sharer.stats()).toMatchObject({ held: 0, waiting: 0 })
          if (cell.controller) expect(getEventListeners(cell.controller.signal, 'abort')).toEqual([])
          await until('no promise is pending', () => activeTimers() <= cell.timers)
        })
      })
    })
  })
})
