'use strict'

// A chart for the terminal: one row per worker, time from left to right.

const WIDTH = 84
const COLOURS = [36, 33, 35, 32]

/**
 * @param {{ worker: number, asked: number, from: number, until: number }[]} holdings
 * @param {number} workers
 */
function draw(holdings, workers) {
  const start = Math.min(...holdings.map((holding) => holding.asked))
  const end = Math.max(...holdings.map((holding) => holding.until))
  const step = (end - start) / WIDTH
  const rows = Array.from({ length: workers }, (_, worker) => {
    const own = holdings.filter((holding) => holding.worker === worker)
    return `  worker ${worker + 1}  ${paint(row(own, start, step), worker)}`
  })
  const seconds = `${((end - start) / 1e3).toFixed(1)} s`
  return [...rows, `            0 s${seconds.padStart(WIDTH - 3)}`].join('\n')
}

function row(holdings, start, step) {
  let text = ''
  for (let column = 0; column < WIDTH; column++) {
    const from = start + column * step
    const middle = from + step / 2
    const left = fills(holdings, 'from', 'until', from, middle)
    const right = fills(holdings, 'from', 'until', middle, from + step)
    if (left || right) text += left && right ? '█' : left ? '▌' : '▐'
    else text += fills(holdings, 'asked', 'from', from, from + step) ? '·' : ' '
  }
  return text
}

/** Whether at least half of [from, until] is filled by one of these intervals. */
function fills(holdings, begin, end, from, until) {
  return holdings.some((holding) => {
    const common = Math.min(holding[end], until) - Math.max(holding[begin], from)
    return common >= (until - from) / 2
  })
}

function paint(text, worker) {
  if (!process.stdout.hasColors?.()) return text
  return `\x1b[${COLOURS[worker % COLOURS.length]}m${text}\x1b[0m`
}

module.exports = { draw, WIDTH }
