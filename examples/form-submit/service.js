'use strict'

// One process of the service; there may be as many as you like.
//
//   HOLDFAST_URL=redis://… PORT=3000 node service.js            DELIVERY=5000: a slow one

const http = require('node:http')
const { configure, locks } = require('holdfast')
const { createApp } = require('./app')
const { PREFIX, openSubmissions } = require('./submissions')

/** How long submissions under way may take to finish when the service is to end, ms. */
const DRAIN = 10_000
/**
 * The lease, ms: how long a user has to wait if the process that was at work is killed. A delivery that takes longer is
 * none the worse for it, since the lock is renewed.
 */
const TTL = 2_000

if (!process.env.HOLDFAST_URL) {
  console.error(
    'HOLDFAST_URL says where Redis is, as in HOLDFAST_URL=redis://127.0.0.1:6379. (npm start brings its own.)',
  )
  process.exit(1)
}

configure({ keyPrefix: `${PREFIX}lock:`, ttl: TTL })
for (const event of ['lost', 'unavailable', 'releaseFailed']) {
  locks.on(event, (error) => console.error(`${process.pid}: ${error.message}`))
}

const submissions = openSubmissions(process.env.HOLDFAST_URL)
const app = createApp(submissions, { delivery: Number(process.env.DELIVERY ?? 500) })
let closing = false
const server = http.createServer((request, response) => {
  // A client that keeps its connection and goes on asking would keep the process from ending.
  if (closing) response.setHeader('connection', 'close')
  return app(request, response)
})
server.listen(Number(process.env.PORT ?? 0), '127.0.0.1', () => {
  const { port } = server.address()
  if (process.send) process.send({ type: 'listening', port })
  else console.log(`http://127.0.0.1:${port}/submissions`)
})

async function close() {
  if (closing) return
  closing = true
  const closed = new Promise((resolve) => server.close(resolve))
  // Whoever asks for a lock from here on gets a 503 at once, whoever has one may finish.
  await locks.close({ drain: DRAIN })
  server.closeIdleConnections()
  await closed
  await submissions.close()
  if (process.connected) process.disconnect()
}

for (const signal of ['SIGTERM', 'SIGINT']) process.on(signal, close)
// Started by another program, the service ends with it.
process.on('disconnect', close)
