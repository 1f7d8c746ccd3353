'use strict'

// Worker threads of a process share its locks: they stand in one line, and those that are terminated leave nothing behind.

const { once } = require('node:events')
const path = require('node:path')
const { Worker } = require('node:worker_threads')
const { startWorker } = require('./support/processes')
const { eachStore } = require('./support/stores')
const { until } = require('./support/until')

const LONG = process.env.HOLDFAST_LONG === '1'
const ROUNDS = LONG ? 50 : 1
// A round is 100 threads.
const WAVES = 4
const THREADS = 25

eachStore((store) => {
  let key
  const threads = []

  beforeEach(() => {
    key = store.newKey()
  })

  afterEach(() => Promise.all(threads.splice(0).map((thread) => thread.terminate())))

  const remains = async () => (await store.server?.command('KEYS', `*${key}*`)) ?? []

  test(
    `P3 no ghost: ${WAVES * THREADS * ROUNDS} threads terminated in the middle of it crash nothing, disturb nobody, and keep nothing`,
    async () => {
      const settings = { url: store.url, key, waves: WAVES * ROUNDS, threads: THREADS }
      const worker = startWorker('many-threads', settings)
      const { held, lost, waiting, turns, slowest } = await worker.next('done')
      expect({ held, lost, waiting }).toEqual({ held: true, lost: 0, waiting: 0 })
      expect(turns).toBeGreaterThan(WAVES * ROUNDS)
      // The lease would have been ten minutes.
      expect(slowest).toBeLessThan(3_000)
      const { code, signal, output } = await worker.ended
      expect({ code, signal, output }).toEqual({ code: 0, signal: null, output: '' })
      await until('no key is left', async () => (await remains()).length === 0)
    },
    60_000 * ROUNDS,
  )

  describe('one line', () => {
    let locks
    let granted

    beforeEach(() => {
      locks = store.createLocks({ timeout: 20_000 })
      granted = []
    })

    async function startCaller() {
      const workerData = { url: store.url, key }
      const thread = new Worker(path.join(__dirname, 'workers', 'caller-in-thread.js'), { workerData })
      threads.push(thread)
      await once(thread, 'online')
      thread.on('message', (message) => {
        if ('granted' in message) granted.push(message)
      })
      return thread
    }

    /** Resolves when the thread stands in line. */
    async function ask(thread, name, more) {
      const asked = new Promise((resolve) => {
        const hear = (message) => {
          if (message.asked !== name) return
          thread.off('message', hear)
          resolve()
        }
        thread.on('message', hear)
      })
      thread.postMessage({ name, ...more })
      await asked
    }

    const served = () => granted.toSorted((a, b) => a.fence - b.fence).map((each) => each.granted)

    test('P7 order: callers in several threads are served first come, first served', async () => {
      const callers = await Promise.all([startCaller(), startCaller(), startCaller()])
      const lock = await locks.acquire(key)
      const names = Array.from({ length: 30 }, (_, i) => i)
      for (const name of names) await ask(callers[(name * 7) % 3], name)
      const own = locks.acquire(key)
      for (const name of names) await ask(callers[(name * 5) % 3], name + 30)
      expect(granted).toEqual([])
      await lock.release()
      const { fencingToken } = await own.then((mine) => mine.release().then(() => mine))
      await until('all are served', () => granted.length === 60)
      expect(served()).toEqual(Array.from({ length: 60 }, (_, i) => i))
      // Ours was in the middle.
      expect(granted.filter(({ fence }) => fence < fencingToken)).toHaveLength(30)
    })

    test('P7 order, P8 liveness: those of a thread that was terminated are passed over', async () => {
      const [first, second, third] = await Promise.all([startCaller(), startCaller(), startCaller()])
      const lock = await locks.acquire(key)
      await ask(first, 'a')
      await ask(second, 'b')
      await ask(third, 'c', { keep: true })
      await ask(second, 'd')
      await ask(first, 'e')
      await second.terminate()
      await lock.release()
      await until('c has it', () => granted.length === 2)
      // The holder too.
      await third.terminate()
      await until('e has it', () => granted.length === 3)
      expect(served()).toEqual(['a', 'c', 'e'])
      expect(await (await locks.acquire(key)).release()).toBe(true)
    })
  })
})
