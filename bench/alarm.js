'use strict'

const { join } = require('node:path')
const { Worker } = require('node:worker_threads')

/** Calls back at a time on the shared clock, to a tenth of a millisecond: timers of the event loop know whole ones only. */
class Alarm {
  #set = new Int32Array(new SharedArrayBuffer(4))
  #due = new Float64Array(new SharedArrayBuffer(8))

  constructor(ring) {
    const thread = new Worker(join(__dirname, 'alarm-thread.js'), {
      workerData: { set: this.#set, due: this.#due },
    })
    thread.on('message', ring)
  }

  /** Only when it isn't set, or has rung. */
  set(due) {
    this.#due[0] = due
    Atomics.store(this.#set, 0, 1)
    Atomics.notify(this.#set, 0)
  }
}

module.exports = { Alarm }
