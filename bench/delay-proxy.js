'use strict'

const { once } = require('node:events')
const { join } = require('node:path')
const { Worker } = require('node:worker_threads')

/**
 * A TCP proxy in front of a server that delivers every byte `delay` ms after it came, in both directions: a network with
 * a round trip of twice that. It keeps the order, holds back no more than that, and has a thread of its own.
 */
async function start(target, delay) {
  const thread = new Worker(join(__dirname, 'delay-proxy-thread.js'), { workerData: { target, delay } })
  const [port] = await once(thread, 'message')
  return { port, url: `redis://127.0.0.1:${port}`, stop: () => thread.terminate() }
}

module.exports = { start }
