'use strict'

const { fork } = require('node:child_process')
const { EventEmitter, once } = require('node:events')
const path = require('node:path')

/** The runners, as processes; what any of them tells is an event here. */
class Fleet extends EventEmitter {
  /** @param {number} count @param {NodeJS.ProcessEnv} env */
  constructor(count, env) {
    super()
    this.runners = new Map()
    for (let i = 0; i < count; i++) this.#start(env)
  }

  /** Resolves with the next of these events that is so. Rejects when a runner ends that nobody has ended. */
  next(event, isWanted = () => true) {
    return new Promise((resolve, reject) => {
      const settle = (settled) => (value) => {
        if (settled === resolve && !isWanted(value)) return
        this.off(event, onEvent).off('error', onError)
        settled(value)
      }
      const onEvent = settle(resolve)
      const onError = settle(reject)
      this.on(event, onEvent).on('error', onError)
    })
  }

  /** As a crash does: without a word, SIGKILL. */
  async kill(pid) {
    const runner = this.runners.get(pid)
    this.runners.delete(pid)
    runner.kill('SIGKILL')
    await once(runner, 'exit')
  }

  /** Asks all to end, as an orchestrator does, and resolves when they have. */
  async end() {
    const runners = [...this.runners.values()]
    this.runners.clear()
    await Promise.all(
      runners.map((runner) => {
        runner.kill('SIGTERM')
        return once(runner, 'exit')
      }),
    )
  }

  #start(env) {
    const runner = fork(path.join(__dirname, 'runner.js'), { env })
    this.runners.set(runner.pid, runner)
    runner.on('message', (message) => this.emit(message.event, message))
    runner.on('exit', (code, signal) => {
      if (!this.runners.delete(runner.pid)) return
      this.emit('error', new Error(`runner ${runner.pid} ended (${signal ?? `exit code ${code}`})`))
    })
  }
}

module.exports = { Fleet }
