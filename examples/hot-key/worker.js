'use strict'

// One process of the service. start.js tells it when requests come, and answers what it asks the database.

const { openWays } = require('./ways')

const { ways, close } = openWays(process.env.HOLDFAST_URL)

/** Queries under way. */
const queries = new Map()
let lastQuery = 0

function query(product) {
  return new Promise((resolve) => {
    queries.set(++lastQuery, resolve)
    tell({ type: 'query', id: lastQuery, product })
  })
}

/** Many requests at the same moment, all for the same page. */
async function run({ way, product, requests, right }) {
  const expected = JSON.stringify(right)
  const request = async () => {
    const from = performance.now()
    const answer = await ways[way].get(product, () => query(product))
    return { took: performance.now() - from, wrong: JSON.stringify(answer) !== expected }
  }
  const answers = await Promise.all(Array.from({ length: requests }, request))
  tell({
    type: 'answered',
    took: answers.map(({ took }) => took),
    wrong: answers.filter(({ wrong }) => wrong).length,
  })
}

/** Connects, and does all of it a few times: a service that has been running for a while isn't slow for being new. */
async function warmUp() {
  for (const way of Object.values(ways)) {
    for (let round = 1; round <= 4; round++) {
      const get = () => way.get(`warm-up:${process.pid}:${round}`, async () => round)
      await Promise.all(Array.from({ length: 1_000 }, get))
    }
  }
}

/** Nobody, if the process was let go in the middle of it. */
function tell(message) {
  if (process.connected) process.send(message, () => {})
}

function fail(error) {
  if (!process.connected) return
  console.error(error.message)
  process.exit(1)
}

process.on('message', (message) => {
  if (message.type === 'run') return run(message).catch(fail)
  queries.get(message.id)(message.row)
  queries.delete(message.id)
})

// It ends when start.js does, or lets it go. Ctrl-C is for start.js.
process.on('SIGINT', () => {})
process.on('disconnect', close)
warmUp().then(() => tell({ type: 'ready' }), fail)
