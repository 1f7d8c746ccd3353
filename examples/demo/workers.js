'use strict'

const { fork } = require('node:child_process')
const path = require('node:path')
const { Worker: Thread } = require('node:worker_threads')

const FILE = path.join(__dirname, 'worker.js')

// Workers that are threads or processes; either way they speak by messages.

class Worker {
  #waiting = new Map()

  /** @param {import('node:child_process').ChildProcess | Thread} child */
  constructor(child) {
    this.child = child
    this.holdings = []
    child.on('message', (message) => this.#hear(message))
    child.on('error', (error) => this.#hear({ type: 'failed', message: error.message }))
    this.ended = new Promise((resolve) => {
      child.on('exit', (code, signal) => {
        this.gone = `it was ended (${signal ?? `exit code ${code}`})`
        this.#hear({ type: 'failed', message: this.gone })
        resolve()
      })
    })
  }

  /** The next message of this type. Rejects if something goes wrong before it comes. */
  next(type) {
    return new Promise((resolve, reject) => {
      if (this.gone) reject(new Error(this.gone))
      else this.#waiting.set(type, { resolve, reject })
    })
  }

  tell(message) {
    if (this.gone) return
    if (this.child instanceof Thread) this.child.postMessage(message)
    else this.child.send(message)
  }

  kill() {
    if (this.child instanceof Thread) this.child.terminate()
    else this.child.kill()
  }

  #hear(message) {
    if (message.type === 'held') return this.holdings.push(message.holding)
    if (message.type !== 'failed') {
      this.#waiting.get(message.type)?.resolve(message)
      return this.#waiting.delete(message.type)
    }
    for (const { reject } of this.#waiting.values()) reject(new Error(message.message))
    this.#waiting.clear()
  }
}

/**
 * @param {number} count
 * @param {{ threads: boolean, url: string, settings: object }} how
 */
function startWorkers(count, { threads, url, settings }) {
  const start = () =>
    threads ? new Thread(FILE, { workerData: { ...settings, url } }) : fork(FILE, [JSON.stringify(settings)]) // its address is in HOLDFAST_URL: an argument could be read by others
  const workers = Array.from({ length: count }, () => new Worker(start()))
  return {
    /** Resolves when every worker is connected. */
    ready: () => Promise.all(workers.map((worker) => worker.next('ready'))),
    /** Lets all work at the same time. Resolves with what they did when each is done or has failed. */
    run: (order) => run(workers, threads, order),
    /** Asks all to end and resolves when they have. */
    async stop() {
      for (const worker of workers) worker.tell({ type: 'stop' })
      await Promise.all(workers.map((worker) => worker.ended))
    },
    /** Ends all at once. */
    kill() {
      for (const worker of workers) worker.kill()
    },
  }
}

async function run(workers, threads, order) {
  const outcomes = workers.map((worker) => {
    worker.holdings = []
    const done = worker.next('done')
    worker.tell({ type: 'run', ...order })
    // A worker that ended in the middle of it has done something as well.
    return done.catch((error) => ({ failure: error.message }))
  })
  const done = await Promise.all(outcomes)
  const failures = done.flatMap(({ failure }, i) => (failure ? `worker ${i + 1}: ${failure}` : []))
  const holdings = workers.flatMap((worker, i) =>
    worker.holdings.map((holding) => ({ ...holding, worker: i })),
  )
  return { holdings, failures, commands: commandsOf(done, threads) }
}

/** Threads share a connection and its counter; processes have one each. */
function commandsOf(done, threads) {
  const counts = done.flatMap(({ commands }) => commands ?? [])
  if (counts.length === 0) return 0
  if (threads) {
    const before = Math.min(...counts.map((count) => count.before))
    return Math.max(...counts.map((count) => count.after)) - before
  }
  return counts.reduce((sum, { before, after }) => sum + after - before, 0)
}

module.exports = { startWorkers }
