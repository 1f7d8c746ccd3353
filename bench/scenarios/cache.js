'use strict'

const report = require('../cache-report.js')
const rounds = require('../cache-rounds.js')
const caches = require('../caches/index.js')

/**
 * Values that a fleet shares, side by side with other caches and with the one that people write by hand: what a hit costs, what
 * a miss sends, and how often a value is loaded that many want at once.
 */
module.exports = {
  name: 'cache',
  byDefault: true,
  async run({ server, quick, progress }) {
    const context = { caches: caches.names.map(caches.load), server, progress }
    const versions = context.caches.map(({ name, version }) => `${name} (${version})`).join(', ')
    const sections = []
    for (const callers of [1, 100]) {
      const load = {
        name: `cache-hits-${callers}`,
        title: `cache: hits of ${callers === 1 ? '1 caller' : `${callers} callers of one process, each with its own key`}; 1 KB of JSON; ${versions}`,
        callers,
        ...(quick
          ? { rounds: 2, windowMs: 200, warmMs: 300, countEach: 2 }
          : { rounds: 8, windowMs: 400, warmMs: 1_000, countEach: 5 }),
      }
      sections.push(report.ofHits(load, await rounds.hits(context, load)))
    }
    const miss = { name: 'cache-miss', title: 'cache: what a miss sends', keys: 100 }
    sections.push(report.ofMisses(miss, await rounds.misses(context, miss)))

    const [processes, callers, loadMs] = [5, 50, 200]
    const herd = {
      name: 'cache-herd',
      title: `cache: ${processes} processes with ${callers} callers each want one value that isn't there; a load takes ${loadMs} ms`,
      ...{ processes, callers, loadMs, rounds: quick ? 1 : 3 },
    }
    sections.push(report.ofHerds(herd, await rounds.herds(context, herd)))
    return sections
  },
}
