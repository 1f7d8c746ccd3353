'use strict'

const { loadOf } = require('../fleet-loads.js')
const report = require('../fleet-report.js')
const rounds = require('../fleet-rounds.js')

/** A smaller fleet that holds the lock for longer: what is lost between holders matters less, who waits matters more. */
module.exports = {
  name: 'holds',
  byDefault: false,
  async run(context) {
    const sections = []
    for (const [hold, windowMs, count] of [
      [50, 5_000, 2],
      [300, 10_000, 1],
    ]) {
      const load = loadOf(context.quick, {
        name: `fleet-${hold}ms`,
        about: 'A smaller fleet with longer holds.',
        callers: 4,
        hold,
        windowMs,
        rounds: count,
      })
      sections.push(report.of(load, await rounds.run(context, load)))
    }
    return sections
  },
}
