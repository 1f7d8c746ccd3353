'use strict'

const { loadOf } = require('../fleet-loads.js')
const report = require('../fleet-report.js')
const rounds = require('../fleet-rounds.js')

/** Many callers of several processes that want the same key: a service with some instances around one resource. */
module.exports = {
  name: 'fleet',
  byDefault: true,
  async run(context) {
    const sections = []
    for (const think of [0, 5]) {
      const load = loadOf(context.quick, {
        name: think === 0 ? 'fleet' : 'fleet-think',
        about:
          think === 0
            ? 'Every caller takes the lock, holds it, gives it back and asks for it again at once.'
            : 'As before, but every caller pauses before it asks again.',
        callers: 16,
        hold: 5,
        think,
        windowMs: 4_000,
        plots: think === 0 ? ['waits', 'commands', 'callers'] : [],
      })
      sections.push(report.of(load, await rounds.run(context, load)))
    }
    return sections
  },
}
