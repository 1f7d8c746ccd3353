'use strict'

const { loadOf } = require('../fleet-loads.js')
const report = require('../fleet-report.js')
const rounds = require('../fleet-rounds.js')

/** One caller in each of several processes: how long a lock takes from one to the next. */
module.exports = {
  name: 'relay',
  byDefault: true,
  async run(context) {
    const load = loadOf(context.quick, {
      name: 'relay',
      about:
        'Hand-off: from the call of release, while somebody waits, to the next acquire that is resolved. PING: sent by the same processes meanwhile, at the pace of the hand-offs, on connections of their own.',
      callers: 1,
      hold: 5,
      think: 5,
      pingEvery: 20,
      figures: [
        'handOffP50',
        'handOffP99',
        'toPing',
        'pingP50',
        'pingP99',
        'held',
        'waitP99',
        'starved',
        'clientCpu',
        'serverCpu',
      ],
      windowMs: 3_000,
      warmMs: 700,
      plots: ['hand-offs', 'commands'],
    })
    return [report.of(load, await rounds.run(context, load))]
  },
}
