'use strict'

const rounds = require('../crowd-rounds.js')
const report = require('../rounds-report.js')

const CALLERS = 100

/** Many callers of one process that want the same key: a busy handler around one resource. */
module.exports = {
  name: 'crowd',
  byDefault: true,
  async run(context) {
    const sections = []
    for (const hold of [0, 1]) {
      const load = {
        name: hold === 0 ? 'crowd' : `crowd-${hold}ms`,
        title: `crowd: ${CALLERS} callers of one process, one key, ${hold === 0 ? 'no hold' : `${hold} ms hold`}`,
        callers: CALLERS,
        hold,
        timers: true,
        figures: [
          'rate',
          'waitP50',
          'waitP99',
          'waitMax',
          'unevenness',
          'starved',
          'timerP99',
          'threadCpu',
          'processCpu',
          'serverCpu',
        ],
        comparedTo: 'the fastest peer',
        ...(context.quick
          ? { rounds: 2, windowMs: 300, warmMs: 100 }
          : { rounds: 4, windowMs: 800, warmMs: 300 }),
      }
      sections.push(report.of(load, await rounds.run(context, load)))
    }
    return sections
  },
}
