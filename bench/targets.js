'use strict'

/**
 * The figures that Holdfast is built to reach, side by side with others in one run. `least` and `most` bound the ratio
 * of Holdfast's figure to that of `to`, or the figure itself if there is no `to`.
 *
 * - `to: 'every library'`: each one but the hand-written lock; `to: 'every peer'`: that too
 * - `to: 'the best peer'`: the one with the smallest figure
 * - `inEach`: no window may miss it; otherwise the median counts
 */
const targets = {
  solo: [
    { figure: 'rate', to: 'hand-written', least: 0.9 },
    { figure: 'rate', to: 'hand-written', least: 1.05, stretch: true },
    { figure: 'rate', to: 'redis-semaphore', least: 1 },
  ],
  'many-100': [
    { figure: 'rate', to: 'hand-written', least: 1.5 },
    { figure: 'rate', to: 'every library', least: 2 },
    { figure: 'threadCpu', to: 'hand-written', most: 0.25 },
    { figure: 'serverCpu', to: 'hand-written', most: 1 },
  ],
  'many-1000': [{ figure: 'rate', to: 'hand-written', least: 2.5 }],
  crowd: [
    { figure: 'rate', to: 'every peer', least: 10 },
    { figure: 'commands', most: 0.1 },
    { figure: 'timerP99', most: 5, inEach: true },
  ],
  'crowd-1ms': [
    { figure: 'commands', most: 0.1 },
    { figure: 'timerP99', most: 5, inEach: true },
    { figure: 'unevenness', most: 1.5, inEach: true },
  ],
  fleet: [
    { figure: 'held', least: 96 },
    { figure: 'commands', most: 0.6 },
    { figure: 'jainProcesses', least: 0.98 },
    { figure: 'jainCallers', least: 0.98 },
    { figure: 'toIdeal', most: 1.3 },
  ],
  relay: [
    { figure: 'commands', most: 3 },
    { figure: 'toPing', most: 1.3 },
    { figure: 'handOffP50', to: 'the best peer', most: 0.6 },
  ],
  distance: [
    { figure: 'toNetwork', least: 1 },
    { figure: 'toIdeal', most: 1.3 },
  ],
  'cache-hits-1': [{ figure: 'hitRate', least: 0.8 }],
  'cache-hits-100': [{ figure: 'hitRate', least: 1 }],
  // Requests of a miss beyond those of the hand-written cache.
  'cache-miss': { more: 3 },
  'cache-herd': { loads: 1 },
  // CPU in % of one core; the delay above that of an idle process, ms; KB a waiter.
  idle: { cpu: 1, delay: 1, memory: 4 },
  // Per renewal interval; CPU in % of one core.
  held: { commands: 50, cpu: 2 },
}

module.exports = { targets }
