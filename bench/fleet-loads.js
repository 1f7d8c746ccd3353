'use strict'

const WAITS = ['waitP50', 'waitP99', 'waitMax', 'toIdeal']
const SHARES = ['starved', 'jainProcesses', 'jainCallers']

/** A load of a fleet, complete with words. `callers` in each of four processes; holds and pauses in ms. */
function loadOf(quick, { name, callers, hold, think = 0, windowMs, rounds = 3, warmMs = 1_500, ...load }) {
  const processes = 4
  const spread = callers === 1 ? 'one caller each' : `${callers} callers each`
  const pauses = think === 0 ? 'back at once' : `back after 0–${think} ms`
  const caption = `${processes} processes, ${spread}, one key, ${hold} ms hold, ${pauses}`
  return {
    name,
    title: `${name}: ${caption}`,
    caption: load.delay === undefined ? caption : `${caption}, server ${2 * load.delay} ms away`,
    processes,
    callers,
    hold,
    think,
    figures: ['held', ...WAITS, ...SHARES, 'clientCpu', 'serverCpu'],
    ...load,
    ...(quick
      ? { rounds: 1, windowMs: Math.min(windowMs, Math.max(2_000, 10 * hold)), warmMs: Math.min(warmMs, 600) }
      : { rounds, windowMs, warmMs }),
  }
}

module.exports = { loadOf }
