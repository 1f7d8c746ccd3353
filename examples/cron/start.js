'use strict'

// npm start: a Redis of its own and four runners. It is shown who runs what, until a long task has run to its end, and
// another run of it was cut short by kill -9 and taken over.
//
//   HOLDFAST_URL=redis://… npm start        on that server instead (keys begin with cron:, and are removed)

const { createLocks, isLockError } = require('holdfast')
const { findRedis } = require('../redis')
const { Fleet } = require('./fleet')
const { openStatus } = require('./status')
const { tasks } = require('./tasks')

const RUNNERS = 4
const NAMES = tasks.map((task) => task.name)

async function main() {
  let redis
  let status
  let fleet
  const cleanUp = async () => {
    await fleet?.end()
    await status?.forget(NAMES).catch(() => {})
    await status?.close()
    await redis?.stop()
  }
  // First: a server that is still being started ends with this process.
  onInterrupt(cleanUp)
  try {
    redis = await findRedis(createLocks)
    status = openStatus(redis.url)
    await status.forget(NAMES)
    fleet = new Fleet(RUNNERS, { ...process.env, HOLDFAST_URL: redis.url })
    const runs = show(fleet)
    const takeover = await act(fleet)
    await fleet.end()
    await printStatus(status)
    if (!summarize(runs, takeover)) process.exitCode = 1
  } finally {
    await cleanUp()
  }
}

/** What is to be seen: a long run, a killed one, and the one that follows it. Resolves with how soon that was, ms. */
async function act(fleet) {
  const isBackup = ({ task }) => task === 'backup'
  await fleet.next('completed', isBackup)
  const { runner } = await fleet.next('running', isBackup)
  await fleet.next('completed', ({ task }) => task === 'report')
  const killed = performance.now()
  await fleet.kill(runner)
  say(runner, 'killed', { task: 'backup' }, 'kill -9')
  await fleet.next('running', isBackup)
  const takeover = performance.now() - killed
  await fleet.next('completed', isBackup)
  return takeover
}

/** Prints what the runners tell as it comes. Returns the runs, which grow. */
function show(fleet) {
  const runs = []
  fleet.on('running', (turn) => {
    runs.push({ ...turn, began: performance.now() })
    say(turn.runner, 'running', turn, `tick ${turn.tick}, token ${turn.token}`)
  })
  fleet.on('completed', (turn) => {
    const run = runs.findLast((one) => one.token === turn.token && one.task === turn.task)
    run.ended = performance.now()
    say(turn.runner, 'completed', turn, `tick ${turn.tick}, after ${Math.round(run.ended - run.began)} ms`)
  })
  fleet.on('abandoned', (turn) => say(turn.runner, 'found', turn, 'the run before was abandoned'))
  fleet.on('refused', (turn) => say(turn.runner, 'refused', turn, `tick ${turn.tick} has been run`))
  fleet.on('failed', (turn) => say(turn.runner, 'failed', turn, `tick ${turn.tick}: ${turn.message}`))
  return runs
}

function say(runner, what, { task }, more) {
  const seconds = (performance.now() / 1e3).toFixed(2).padStart(6)
  console.log(`${seconds} s  runner ${String(runner).padEnd(8)} ${task.padEnd(7)} ${what.padEnd(10)} ${more}`)
}

/** What Redis says of the tasks when all have ended. */
async function printStatus(status) {
  console.log('\nStatus in Redis:\n')
  for (const name of NAMES) {
    const { state, tick, token, runner, began, ended } = await status.of(name)
    console.log(
      `  ${name.padEnd(7)} ${state}, tick ${tick}, by runner ${runner}, token ${token}, ${ended - began} ms`,
    )
  }
}

/** Whether no tick was run twice and no task beside itself. */
function summarize(runs, takeover) {
  const twice = new Set(runs.map(({ task, tick }) => `${task} ${tick}`)).size < runs.length
  const byTask = (name) => runs.filter(({ task }) => task === name)
  const beside = NAMES.some((name) =>
    byTask(name).some((run, i, all) => i > 0 && run.began < (all[i - 1].ended ?? 0)),
  )
  console.log(`\n${NAMES.map((name) => `${byTask(name).length} runs of ${name}`).join(', ')}.`)
  const { ttl, every } = tasks.find(({ name }) => name === 'backup')
  console.log(
    `The killed runner of backup was replaced after ${takeover.toFixed(0)} ms: ttl ${ttl} ms at most, then the next tick (every ${every} ms).`,
  )
  console.log(twice ? 'SOME TICK WAS RUN TWICE.' : 'No tick was run twice.')
  console.log(beside ? 'SOME TASK RAN BESIDE ITSELF.' : 'No task ran beside itself.')
  return !twice && !beside
}

function onInterrupt(cleanUp) {
  for (const signal of ['SIGINT', 'SIGTERM']) {
    process.once(signal, async () => {
      console.log(`\n${signal}: ending the runners …`)
      await cleanUp()
      process.exit(signal === 'SIGINT' ? 130 : 143)
    })
  }
}

main().catch((error) => {
  process.exitCode = 1
  console.error(`\n${error.message}`)
  if (isLockError(error, 'ERR_LOCK_UNAVAILABLE')) {
    console.error(
      'Start a server there, or set HOLDFAST_URL to another one, or leave it unset: then one is started.',
    )
  }
})
