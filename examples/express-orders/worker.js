'use strict'

// One process of the service.

const { configure, locks } = require('holdfast')
const { createApp } = require('./app')
const { PREFIX, openShop } = require('./shop')

/** How long orders under way may take to finish when the service is to end, ms. */
const DRAIN = 10_000

configure({ url: process.env.HOLDFAST_URL, keyPrefix: `${PREFIX}lock:`, ttl: 5_000 })
locks.on('lost', (error) => console.error(`${process.pid}: ${error.message}`))
locks.on('unavailable', (error) => console.error(`${process.pid}: ${error.message}`))
locks.on('reconnected', () => console.error(`${process.pid}: Redis can be used again`))

const shop = openShop(process.env.HOLDFAST_URL)
const app = createApp(shop, { locked: process.env.LOCK !== 'off' })
// In a cluster the port is shared by all processes; 0 is a free one, the same for all.
const server = app.listen(Number(process.env.PORT ?? 0), '127.0.0.1')

let closing = false
// A client that keeps its connection and goes on asking would keep the process from ending.
server.prependListener('request', (_request, response) => {
  if (closing) response.setHeader('Connection', 'close')
})

async function close() {
  if (closing) return
  closing = true
  const stats = locks.stats()
  // No new connections; those that are idle are closed now, the others after their next answer.
  const closed = new Promise((resolve) => server.close(resolve))
  // Whoever waits for a lock gets a 503 at once, whoever has one may finish.
  await locks.close({ drain: DRAIN })
  server.closeIdleConnections()
  await closed
  await shop.close()
  process.send({ type: 'stats', stats }, () => process.disconnect())
}

for (const signal of ['SIGTERM', 'SIGINT']) process.on(signal, close)
