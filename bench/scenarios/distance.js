'use strict'

const { loadOf } = require('../fleet-loads.js')
const report = require('../fleet-report.js')
const rounds = require('../fleet-rounds.js')

/** The fleet, with a server at some distance: each way takes half of a hold. */
module.exports = {
  name: 'distance',
  byDefault: true,
  async run(context) {
    const load = loadOf(context.quick, {
      name: 'distance',
      about:
        'The fleet behind a proxy that delivers everything 2.5 ms later, each way: a round trip of 5 ms. With PINGs of the same processes through the same proxy.',
      callers: 16,
      hold: 5,
      delay: 2.5,
      pingEvery: 20,
      figures: [
        'held',
        'toNetwork',
        'handOffP50',
        'pingP50',
        'waitP50',
        'waitP99',
        'waitMax',
        'toIdeal',
        'starved',
        'jainProcesses',
        'jainCallers',
      ],
      windowMs: 4_000,
      plots: ['commands'],
    })
    return [report.of(load, await rounds.run(context, load))]
  },
}
