'use strict'

// npm start: a Redis of its own, a database and five processes; then a popular entry expires, three times: with no lock
// around the query, with one flight per process, and with one for all of them.
//
//   HOLDFAST_URL=redis://… npm start        on that server instead (keys begin with hot-key:, and all of them expire)

const { setTimeout: sleep } = require('node:timers/promises')
const { createLocks, isLockError } = require('holdfast')
const { findRedis } = require('../redis')
const { openDatabase } = require('./database')
const { startFleet } = require('./fleet')
const { openWays } = require('./ways')

const PROCESSES = 5
const REQUESTS = 1_000
const PRODUCT = 'product-7'
/** How long the entry is still good for when a way begins, ms. */
const LAST_MOMENTS = 100

async function main() {
  const latency = Number(process.env.LATENCY ?? 200)
  const parts = []
  // What was started last ends first.
  const cleanUp = async () => {
    while (parts.length) await parts.pop()()
  }
  onInterrupt(cleanUp)
  try {
    const redis = await findRedis(createLocks)
    parts.push(() => redis.stop())
    const database = openDatabase(latency)
    parts.push(() => database.close())
    const opened = openWays(redis.url)
    parts.push(() => opened.close())
    const fleet = startFleet(PROCESSES, { ...process.env, HOLDFAST_URL: redis.url }, database)
    parts.push(() => fleet.end())
    await fleet.ready()
    console.log(
      `${PROCESSES} processes, ${REQUESTS} requests each at the same moment, all for one entry that`,
    )
    console.log(`has just expired; a query takes ${latency} ms and the work of the database\n`)
    line(['', 'queries', 'answers', 'p50 ms', 'p99 ms', 'wrong'])
    let right = true
    for (const [name, way] of Object.entries(opened.ways)) {
      const outcome = await expire(name, way, { database, fleet, opened })
      line([name, ...Object.values(outcome)])
      right &&= outcome.answers === PROCESSES * REQUESTS && outcome.wrong === 0
      if (name === 'holdfast') right &&= outcome.queries === 1
    }
    console.log(`\n${right ? 'With Holdfast one query was enough' : 'THAT IS NOT AS IT SHOULD BE'}.`)
    if (!right) process.exitCode = 1
  } finally {
    await cleanUp()
  }
}

/** The entry of one way expires, and everybody asks for it. */
async function expire(name, way, { database, fleet, opened }) {
  await way.put(PRODUCT, database.sales(PRODUCT), LAST_MOMENTS)
  // From here on the entry is out of date: whoever is answered by it is answered wrongly.
  database.sell(PRODUCT)
  while (await opened.isThere(way, PRODUCT)) await sleep(5)
  database.takeCount()
  const order = { way: name, product: PRODUCT, requests: REQUESTS, right: database.sales(PRODUCT) }
  const results = await fleet.run(order)
  const took = results.flatMap((result) => result.took).sort((a, b) => a - b)
  const percentile = (share) => Math.round(took[Math.ceil(share * took.length) - 1])
  return {
    queries: database.takeCount(),
    answers: took.length,
    p50: percentile(0.5),
    p99: percentile(0.99),
    wrong: results.reduce((sum, result) => sum + result.wrong, 0),
  }
}

function line([name, ...cells]) {
  console.log(`  ${name.padEnd(16)}${cells.map((cell) => String(cell).padStart(9)).join('')}`)
}

let interrupted = false
function onInterrupt(cleanUp) {
  for (const signal of ['SIGINT', 'SIGTERM']) {
    process.once(signal, async () => {
      interrupted = true
      console.log(`\n${signal}: ending the service …`)
      // A server that is still being started ends with this process.
      await cleanUp()
      process.exit(signal === 'SIGINT' ? 130 : 143)
    })
  }
}

main().catch((error) => {
  // Whatever it was doing can't be done any more, and that is no failure.
  if (interrupted) return
  process.exitCode = 1
  console.error(`\n${error.message}`)
  if (isLockError(error, 'ERR_LOCK_UNAVAILABLE')) {
    console.error(
      'Start a server there, or set HOLDFAST_URL to another one, or leave it unset: then one is started.',
    )
  }
})
