'use strict'

const report = require('../rounds-report.js')
const rounds = require('../rounds.js')

/** Many callers of one process, each with its own key: the throughput of a busy server. */
module.exports = {
  name: 'many',
  byDefault: true,
  async run(context) {
    const sections = []
    for (const callers of [100, 1_000]) {
      const load = {
        name: `many-${callers}`,
        title: `many: ${callers} callers of one process, each with its own key`,
        callers,
        ...(context.quick
          ? { rounds: 2, windowMs: 150, warmMs: 150, countEach: 2 }
          : { rounds: 5, windowMs: 300, warmMs: 500, countEach: 5 }),
      }
      sections.push(report.of(load, await rounds.run(context, load)))
    }
    return sections
  },
}
