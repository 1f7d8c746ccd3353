'use strict'

// Worker scripts in processes of their own. Every one of them is killed at the end of the test file,
// and none outlives the process that started it.

const { fork } = require('node:child_process')
const { once } = require('node:events')
const path = require('node:path')

const WORKERS = path.join(__dirname, '..', 'workers')
const running = new Set()
if (typeof afterAll === 'function') afterAll(() => Promise.all([...running].map((worker) => worker.kill())))

/**
 * Starts `__test__/workers/<name>.js`, which reads `settings` by `require('../support/parent').settings` and answers by
 * messages `{ type, ... }`.
 */
function startWorker(name, settings = {}, { env = {} } = {}) {
  const child = fork(path.join(WORKERS, `${name}.js`), [JSON.stringify(settings)], {
    // 'advanced' carries bigints and errors.
    serialization: 'advanced',
    stdio: ['ignore', 'pipe', 'pipe', 'ipc'],
    env: { ...process.env, NODE_OPTIONS: '', ...env },
  })
  const worker = new Worker(child, name)
  running.add(worker)
  return worker
}

class Worker {
  constructor(child, name) {
    this.child = child
    this.name = name
    this.pid = child.pid
    this.output = ''
    this.messages = []
    this.waiting = []
    for (const stream of [child.stdout, child.stderr]) {
      stream.setEncoding('utf8').on('data', (text) => {
        this.output += text
      })
    }
    child.on('message', (message) => {
      this.messages.push(message)
      this.settle()
    })
    /** Resolves with { code, signal, output } when the process has ended and its output was read. */
    this.ended = once(child, 'close').then(([code, signal]) => {
      running.delete(this)
      this.gone = { code, signal, output: this.output }
      this.settle()
      return this.gone
    })
  }

  /** The next message of this type that nobody has taken yet. Rejects when the process ends without sending it. */
  next(type) {
    return new Promise((resolve, reject) => {
      this.waiting.push({ type, resolve, reject })
      this.settle()
    })
  }

  send(message) {
    this.child.send(message)
  }

  /** Resolves when the process has ended. */
  async kill(signal = 'SIGKILL') {
    if (!this.gone) this.child.kill(signal)
    return this.ended
  }

  settle() {
    this.waiting = this.waiting.filter(({ type, resolve, reject }) => {
      const at = this.messages.findIndex((message) => message.type === type)
      if (at >= 0) resolve(this.messages.splice(at, 1)[0])
      else if (this.gone)
        reject(new Error(`${this.name} ended (${JSON.stringify(this.gone)}) before its message '${type}'`))
      else return true
      return false
    })
  }
}

module.exports = { startWorker }
