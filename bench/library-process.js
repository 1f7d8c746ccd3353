'use strict'

const { fork } = require('node:child_process')
const { EventEmitter } = require('node:events')
const { join } = require('node:path')

/** No order takes longer than this, ms, unless it says so: something hangs. */
const LIMIT = 60_000

/** All that run. One of them may be in a busy loop, deaf to everything but a signal, when this process ends. */
const running = new Set()
process.once('exit', () => {
  for (const child of running) child.kill('SIGKILL')
})

/** The run's end of a process in which one library works. Emits what the process reports. */
class LibraryProcess extends EventEmitter {
  /** Forks a process and connects the library there. */
  static open(library, options) {
    return LibraryProcess.#open(library, 'open', { library, ...options })
  }

  /** The same for a cache. */
  static openCache(cache, options) {
    return LibraryProcess.#open(cache, 'openCache', { cache, ...options })
  }

  static async #open(library, order, options) {
    const started = new LibraryProcess(library)
    try {
      await started.order(order, options)
      return started
    } catch (error) {
      started.kill()
      throw error
    }
  }

  /** A process with nothing to do, for comparison. */
  static idle() {
    return new LibraryProcess('nothing')
  }

  #child
  #library
  #lastId = 0
  #pending = new Map()

  constructor(library) {
    super()
    this.#library = library
    // What a library prints goes to stderr: stdout is the report's.
    this.#child = fork(join(__dirname, 'worker.js'), [], { stdio: ['ignore', 2, 2, 'ipc'] })
    running.add(this.#child)
    this.#child.on('message', (message) => this.#settle(message))
    this.#child.once('exit', (code, signal) => {
      running.delete(this.#child)
      this.#rejectAll(new Error(`the process of ${library} ended (${signal ?? code})`))
    })
    this.#child.once('error', (error) => this.#rejectAll(error))
  }

  /** Gives an order and resolves with its result. */
  order(order, args = {}, { limit = LIMIT } = {}) {
    const id = ++this.#lastId
    return new Promise((resolve, reject) => {
      const late = setTimeout(() => {
        this.#pending.delete(id)
        reject(new Error(`${this.#library}: no answer to '${order}' within ${limit / 1_000} s`))
      }, limit)
      const settle = (by) => (value) => {
        clearTimeout(late)
        by(value)
      }
      this.#pending.set(id, { resolve: settle(resolve), reject: settle(reject) })
      // It may have ended meanwhile: then nobody is left to reject this but the call itself.
      this.#child.send({ id, order, args }, (error) => {
        if (error) this.#settle({ id, error: 'its process has ended' })
      })
    })
  }

  /** Lets the library close its connections, then ends the process. */
  async close() {
    await this.order('close')
    this.#child.disconnect()
  }

  kill() {
    this.#child.kill('SIGKILL')
  }

  #settle({ id, event, value, result, error }) {
    if (event) {
      this.emit(event, value)
      return
    }
    const waiting = this.#pending.get(id)
    this.#pending.delete(id)
    if (error === undefined) waiting?.resolve(result)
    else waiting?.reject(new Error(`${this.#library}: ${error}`))
  }

  #rejectAll(error) {
    for (const { reject } of this.#pending.values()) reject(error)
    this.#pending.clear()
  }
}

module.exports = { LibraryProcess }
