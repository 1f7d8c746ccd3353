'use strict'

const report = require('../rounds-report.js')
const rounds = require('../rounds.js')

/** One caller, one key, back to back: the latency of a single lock. */
module.exports = {
  name: 'solo',
  byDefault: true,
  async run(context) {
    const load = {
      name: 'solo',
      title: 'solo: one caller, own key, back to back',
      callers: 1,
      ...(context.quick
        ? { rounds: 3, windowMs: 150, warmMs: 150, countEach: 50 }
        : { rounds: 8, windowMs: 400, warmMs: 500, countEach: 500 }),
    }
    return [report.of(load, await rounds.run(context, load))]
  },
}
