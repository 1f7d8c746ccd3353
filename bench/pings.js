'use strict'

const { Redis } = require('ioredis')
const { setTimeout: sleep } = require('node:timers/promises')
const { now } = require('./machine-clock.js')

/**
 * Sends a PING every `every` ms on a connection of its own. At the pace of what is measured beside it, it wakes as many
 * sleeping threads; pings back to back would find all of them awake.
 */
class Pings {
  static async open({ url, every }) {
    const redis = new Redis(url)
    await redis.ping()
    const pings = new Pings(redis, every)
    pings.#run()
    return pings
  }

  #redis
  #every
  /** `[sent, took]`, ms. */
  #samples = []

  constructor(redis, every) {
    this.#redis = redis
    this.#every = every
  }

  /** What those took that were sent from `from` to `until` on the shared clock, ms. */
  async measure({ from, until }) {
    await sleep(Math.max(0, until - now()))
    return this.#samples.filter(([sent]) => sent >= from && sent < until).map(([, took]) => took)
  }

  /** Until the process ends. */
  async #run() {
    // Processes that start together shouldn't ping together.
    await sleep(Math.random() * this.#every)
    for (;;) {
      const sent = now()
      await this.#redis.ping()
      this.#samples.push([sent, now() - sent])
      await sleep(this.#every)
    }
  }
}

module.exports = { Pings }
