'use strict'

// The service: processes that share one port, and one that looks after them.
//
//   HOLDFAST_URL=redis://… PORT=3000 node service.js            LOCK=off: without the lock

const cluster = require('node:cluster')
const { once } = require('node:events')
const path = require('node:path')

const PROCESSES = 4

if (!process.env.HOLDFAST_URL) {
  console.error(
    'HOLDFAST_URL says where Redis is, as in HOLDFAST_URL=redis://127.0.0.1:6379. (npm start brings its own.)',
  )
  process.exit(1)
}

/** The processes that have begun to answer. */
const serving = new Set()
/** What the locks of all processes did. */
const total = {}
let closing = false

cluster.setupPrimary({ exec: path.join(__dirname, 'worker.js') })
for (let i = 0; i < PROCESSES; i++) cluster.fork()

cluster.on('listening', (worker, { port }) => {
  serving.add(worker.id)
  if (serving.size !== PROCESSES) return
  if (process.send) process.send({ type: 'listening', port })
  else console.log(`${PROCESSES} processes at http://127.0.0.1:${port}/orders`)
})

cluster.on('message', (_worker, { stats }) => {
  for (const [name, count] of Object.entries(stats)) total[name] = (total[name] ?? 0) + count
})

cluster.on('exit', (worker, code, signal) => {
  if (closing) return
  console.error(`process ${worker.process.pid} of the service ended (${signal ?? `exit code ${code}`})`)
  if (serving.has(worker.id)) return cluster.fork()
  // It didn't even begin: another one wouldn't either.
  process.exitCode = 1
  close()
})

for (const signal of ['SIGTERM', 'SIGINT']) process.on(signal, close)
// Started by another program, the service ends with it.
process.on('disconnect', close)

async function close() {
  if (closing) return
  closing = true
  const ended = Object.values(cluster.workers).map((worker) => {
    worker.process.kill('SIGTERM')
    return once(worker, 'exit')
  })
  await Promise.all(ended)
  if (process.connected) process.send({ type: 'stats', stats: total }, () => process.disconnect())
}
