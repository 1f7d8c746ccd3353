'use strict'

// npm run demo: workers add to one counter, first without a lock and then with one, and it is drawn who was at it when.
//
//   npm run demo                                             threads of one process, on memory:demo
//   HOLDFAST_URL=redis://127.0.0.1:6379 npm run demo         processes, on a real server

const { randomUUID } = require('node:crypto')
const { createLocks, isLockError } = require('../..')
const { createCounter } = require('./counter')
const { startWorkers } = require('./workers')
const { draw } = require('./timeline')
const { overlaps, percentile, rises } = require('./figures')

const WORKERS = 4
const JOBS = 10
/** How long a job works and how long a worker rests before it, ms: somewhere between these two. */
const WORK = [20, 60]
const REST = [0, 60]
/** The lease, ms: how long the others wait if a worker is killed while it has the lock. */
const TTL = 2_000

const HINT_THREADS = `Callers of one process, its threads included, are served first come, first served.
Set HOLDFAST_URL=redis://127.0.0.1:6379 to see processes take turns on a real server.`
const HINT_PROCESSES = `Between processes there is a queue in Redis: they are served in the order in which they came,
and each is told when its turn has come.`

async function main() {
  const url = process.env.HOLDFAST_URL || 'memory:demo'
  const embedded = url.startsWith('memory:')
  console.log(
    embedded
      ? `Holdfast demo: ${WORKERS} threads on ${url}, which excludes nobody outside this process.`
      : `Holdfast demo: ${WORKERS} processes on a real server, ${withoutPassword(url)}`,
  )
  await tryServer(embedded ? { url } : {})
  console.log(`
${embedded ? HINT_THREADS : HINT_PROCESSES}

Each worker does ${JOBS} jobs: read a counter, work for ${WORK.join(' to ')} ms, write back one more than was read.`)

  const counter = createCounter()
  // A key of this run alone: on a shared server two demos don't meet.
  const key = `demo:${randomUUID().slice(0, 8)}`
  const settings = { key, counter: counter.path, jobs: JOBS, work: WORK, rest: REST, ttl: TTL }
  const workers = startWorkers(
    WORKERS,
    embedded ? { threads: true, url, settings } : { threads: false, settings },
  )
  onInterrupt(() => {
    workers.kill()
    counter.remove()
  })
  try {
    await workers.ready()
    show('Without the lock (█ at work)', counter, await workers.run({ locked: false }))
    counter.write(0)
    const run = await workers.run({ locked: true })
    show('With the lock (█ at work, · waiting for the lock)', counter, run)
    if (run.holdings.length === 0 || !summarize(counter, run)) process.exitCode = 1
  } finally {
    await workers.stop()
    counter.remove()
  }
}

/** Is there a server at all? Better asked once, here, than by every worker. */
async function tryServer(options) {
  const locks = createLocks(options)
  try {
    await locks.ready({ timeout: 2_000 })
  } finally {
    await locks.close()
  }
}

function show(title, counter, { holdings, failures }) {
  console.log(`\n${title}:\n`)
  if (holdings.length > 0) console.log(draw(holdings, WORKERS))
  const value = counter.read()
  const lost = holdings.length - value
  const verdict = lost > 0 ? `${lost} updates are lost` : 'none is lost'
  console.log(`\n  ${holdings.length} jobs are done, and the counter says ${value}: ${verdict}.`)
  for (const failure of failures) console.log(`  ${failure}`)
}

/** Prints the figures. Returns whether the lock has kept its promises. */
function summarize(counter, { holdings, failures, commands }) {
  const waits = holdings.map((holding) => holding.from - holding.asked)
  const [p50, p99, max] = [50, 99, 100].map((share) => `${percentile(waits, share).toFixed(1)} ms`)
  const tokens = holdings.toSorted((a, b) => a.from - b.from).map((holding) => holding.fencingToken)
  const rising = rises(tokens)
  const overlapping = overlaps(holdings)
  console.log(`
  acquisitions    ${holdings.length}
  waits           p50 ${p50}, p99 ${p99}, max ${max}
  commands sent   ${commands}, ${(commands / holdings.length).toFixed(1)} per acquisition: to take the lock, and to give it back
  overlaps        ${overlapping}
  fencing tokens  ${tokens[0]} … ${tokens.at(-1)}, ${rising ? 'each greater than the one before' : 'NOT RISING'}`)
  return failures.length === 0 && overlapping === 0 && rising && counter.read() === holdings.length
}

function onInterrupt(cleanUp) {
  for (const signal of ['SIGINT', 'SIGTERM']) {
    process.once(signal, () => {
      cleanUp()
      console.log(`\nended by ${signal}`)
      process.exit(signal === 'SIGINT' ? 130 : 143)
    })
  }
}

function withoutPassword(url) {
  return url.replace(/\/\/.*@/, '//…@')
}

main().catch((error) => {
  process.exitCode = 1
  // What is wrong with the server or its URL is for whoever set it; anything else is a defect, and wants its stack.
  const forReader =
    isLockError(error) || error.code?.startsWith('ERR_INVALID_ARG') || error.code === 'ERR_OUT_OF_RANGE'
  console.error(`\n${forReader ? error.message : error.stack}`)
  if (isLockError(error, 'ERR_LOCK_UNAVAILABLE')) {
    console.error(
      'Start a server there, or set HOLDFAST_URL to another one, or leave it unset to run without one.',
    )
  }
})
