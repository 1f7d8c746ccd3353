'use strict'

const { connect, createServer } = require('node:net')
const { parentPort, workerData } = require('node:worker_threads')
const { Alarm } = require('./alarm.js')
const { now } = require('./machine-clock.js')

const { target, delay } = workerData

/** What is on its way, `{ due, deliver }`. All have the same way to go, so the first is always due first. */
const travelling = []
const alarm = new Alarm(arrive)

function send(deliver) {
  travelling.push({ due: now() + delay, deliver })
  if (travelling.length === 1) alarm.set(travelling[0].due)
}

function arrive() {
  while (travelling.length > 0 && travelling[0].due <= now()) travelling.shift().deliver()
  if (travelling.length > 0) alarm.set(travelling[0].due)
}

const proxy = createServer({ noDelay: true }, (client) => {
  const server = connect({ port: target, host: '127.0.0.1', noDelay: true })
  for (const [from, to] of [
    [client, server],
    [server, client],
  ]) {
    from.on('data', (chunk) => send(() => to.write(chunk)))
    from.on('error', () => to.destroy())
    from.on('close', () => send(() => to.destroy()))
  }
})

proxy.listen(0, '127.0.0.1', () => parentPort.postMessage(proxy.address().port))
