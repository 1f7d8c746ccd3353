'use strict'

// The figures that Holdfast is built to reach, side by side with others in one run. `least` and `most` bound the ratio
// of Holdfast's figure to that of `to`; `to: 'every library'` means each one but the hand-written lock.
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
}

module.exports = { targets }
