'use strict'

// One process of the fleet: at every tick of every task it tries to be the one that runs it.
//
//   HOLDFAST_URL=redis://… node runner.js

const { configure, locks } = require('holdfast')
const { onEveryTick } = require('./schedule')
const { PREFIX, openStatus } = require('./status')
const { tasks } = require('./tasks')

/** How long tasks under way may take to finish when the process is to end, ms. */
const DRAIN = 10_000

if (!process.env.HOLDFAST_URL) {
  console.error(
    'HOLDFAST_URL says where Redis is, as in HOLDFAST_URL=redis://127.0.0.1:6379. (npm start brings its own.)',
  )
  process.exit(1)
}

configure({ keyPrefix: `${PREFIX}lock:` })
const status = openStatus(process.env.HOLDFAST_URL)

/** Tells the parent, or whoever reads along. */
function tell(event, more) {
  if (process.connected) process.send({ event, runner: process.pid, ...more })
  else console.log(`${process.pid}: ${event} ${JSON.stringify(more)}`)
}

/** @param {import('./tasks').Task} task @param {number} tick */
async function atTick({ name, every, ttl, run }, tick) {
  try {
    // A task that is done sooner than the slowest process has woken up stays taken for half of its period: clocks may
    // differ by that much without a second run. Whoever comes while it runs skips the tick.
    const { acquired } = await locks.tryWithLock(
      name,
      { ttl, minHold: Math.floor(every / 2) },
      async (lock) => {
        const turn = { task: name, tick, token: lock.fencingToken, runner: process.pid }
        const before = await status.begin(turn)
        if (before === 'refused') return tell('refused', turn)
        // Its runner has ended in the middle of it: nobody else would have left it like that, since we have the lock.
        if (before === 'running') tell('abandoned', { task: name })
        tell('running', turn)
        await run(lock.signal)
        if (await status.complete(turn)) tell('completed', turn)
      },
    )
    if (!acquired) tell('skipped', { task: name, tick })
  } catch (error) {
    // Redis can't be used, the lock was lost, or the task has failed: the next tick is another chance.
    tell('failed', { task: name, tick, message: (error.cause ?? error).message })
  }
}

const stops = tasks.map((task) => onEveryTick(task.every, (tick) => atTick(task, tick)))

let closing = false
async function close() {
  if (closing) return
  closing = true
  for (const stop of stops) stop()
  // Tasks under way may finish, and their locks are given back.
  await locks.close({ drain: DRAIN })
  await status.close()
  if (process.connected) process.disconnect()
}

for (const signal of ['SIGTERM', 'SIGINT']) process.on(signal, close)
// Started by another program, the runner ends with it.
process.on('disconnect', close)
locks.ready().then(
  () => tell('ready'),
  (error) => {
    console.error(error.message)
    process.exitCode = 1
    close()
  },
)
