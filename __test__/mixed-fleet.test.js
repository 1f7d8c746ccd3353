'use strict'

// Other libraries that guard the same key know nothing of our queue. They exclude us, and we exclude them.

const { check } = require('./support/history')
const { startWorker } = require('./support/processes')
const redisPy = require('./support/redis-py')
const { onServer } = require('./support/stores')
const { until } = require('./support/until')

const TURNS = 40
const HOLD = 2

onServer((store) => {
  let foreign = []
  afterEach(() => {
    for (const each of foreign) each.kill()
    foreign = []
  })

  /** Two of our processes compete with `others` for `key`; nobody overlaps, everybody is done, nothing is lost. */
  async function compete(keyPrefix, key, others) {
    const { port } = store.server
    await store.server.command('DEL', 'value')
    const settings = { url: store.url, keyPrefix, port, key, turns: TURNS, hold: HOLD }
    const ours = [startWorker('among-others', settings), startWorker('among-others', settings)]
    foreign = await others({ port, key: `${keyPrefix}${key}` })
    await Promise.all(ours.map((worker) => worker.next('ready')))
    for (const worker of ours) worker.send('go')
    const theirs = foreign.map((each) => each.run())
    const mine = (await Promise.all(ours.map((worker) => worker.next('done')))).flatMap(
      ({ holdings }) => holdings,
    )
    expect(check(mine)).toEqual({ overlaps: [], fences: [] })
    // The others have no numbers: theirs are made up, in order.
    const all = [...mine, ...(await Promise.all(theirs)).flat()].map((holding) => ({ ...holding, key }))
    all.sort((a, b) => (a.from < b.from ? -1 : 1))
    expect(check(all.map((holding, fence) => ({ ...holding, fence }))).overlaps).toEqual([])
    expect(all).toHaveLength((2 + foreign.length) * TURNS)
    expect(Number(await store.server.command('GET', 'value'))).toBe(all.length)
    // They did meet: nobody had all of its turns before another began.
    const owners = all.map(({ owner }) => owner.split(' ').slice(0, 2).join(' '))
    const changes = owners.filter((owner, i) => i > 0 && owner !== owners[i - 1]).length
    expect(changes).toBeGreaterThan(TURNS / 4)
  }

  const inNode =
    (library, count, prefix = '') =>
    async ({ port, key }) => {
      const settings = { library, port, key: key.slice(prefix.length), turns: TURNS, hold: HOLD }
      const workers = Array.from({ length: count }, () => startWorker('foreign-owner', settings))
      await Promise.all(workers.map((worker) => worker.next('ready')))
      return workers.map((worker) => ({
        kill: () => worker.kill(),
        run: async () => {
          worker.send('go')
          return (await worker.next('done')).holdings
        },
      }))
    }

  test('redlock, with keyPrefix ""', () => compete('', store.newKey(), inNode('redlock', 2)), 60_000)

  test(
    'redis-semaphore, with keyPrefix "mutex:"',
    () => compete('mutex:', store.newKey(), inNode('redis-semaphore', 2, 'mutex:')),
    60_000,
  )

  test('redis-py, with keyPrefix ""', async () => {
    const folder = await redisPy.find()
    if (!folder) return console.warn('python3 with pip is missing: redis-py is not tried')
    await compete('', store.newKey(), async ({ port, key }) => {
      const child = await redisPy.start(folder, 'foreign-owner.py', [port, key, TURNS, HOLD])
      const holding = ([owner, from, until]) => ({ owner, from: BigInt(from), until: BigInt(until) })
      const run = async () => {
        child.go()
        return JSON.parse(await child.line()).map(holding)
      }
      return [{ kill: child.kill, run }]
    })
  }, 180_000)

  test('who waits in our queue gets the lock after a plain owner’s release, and after its expiry', async () => {
    const key = store.newKey()
    for (const ending of ['release', 'expiry']) {
      await store.server.command(
        'SET',
        `lock:${key}`,
        'somebody',
        'NX',
        'PX',
        ending === 'expiry' ? 300 : 60_000,
      )
      const waiting = store.createLocks().acquire(key)
      await until('it queues', async () => (await store.server.command('ZCARD', `lock:~q{0}${key}`)) === 1)
      if (ending === 'release') await store.server.command('DEL', `lock:${key}`)
      expect(await (await waiting).release()).toBe(true)
    }
  })
})
