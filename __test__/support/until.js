'use strict'

const { setTimeout: sleep } = require('node:timers/promises')

/**
 * Asks `question` again and again until the answer is truthy, and returns that answer: for a state that nobody
 * announces, such as a key that runs out in the server. Rejects after `within` ms, naming `what`.
 */
async function until(what, question, { within = 10_000, every = 5 } = {}) {
  const end = performance.now() + within
  for (;;) {
    const answer = await question()
    if (answer) return answer
    if (performance.now() > end) throw new Error(`still not after ${within} ms: ${what}`)
    await sleep(every)
  }
}

module.exports = { until }
