'use strict'

const { summary } = require('./fleet-figures.js')
const { bars, distribution, scatter } = require('./plots/index.js')
const { number } = require('./table.js')

/** The pictures of a measurement in a fleet, by the names that a load may ask for. Each gets who was measured. */
const pictures = {
  waits: (load, measured) => ({
    title: 'Wait for the lock',
    lines: [
      load.caption,
      'Share of acquisitions that waited no longer than that. Where a line ends below 100 %, the others were still waiting.',
    ],
    draw: (words) =>
      distribution({
        ...words,
        axis: 'wait, ms (logarithmic)',
        series: measured.map(([name, { windows }]) => ({
          name,
          values: windows.flatMap(({ acquisitions }) => acquisitions.map((acquisition) => acquisition[4])),
          more: windows.reduce((sum, { starved }) => sum + starved, 0),
        })),
      }),
  }),

  'hand-offs': (load, measured) => ({
    title: 'Hand-off: from the call of release to the next acquire that resolves',
    lines: [
      load.caption,
      `Share of hand-offs that took no longer than that. PING: sent by the same processes, every ${load.pingEvery} ms.`,
    ],
    draw: (words) =>
      distribution({
        ...words,
        axis: 'latency, ms (logarithmic)',
        series: [
          ...measured.map(([name, { windows }]) => ({
            name,
            values: windows.flatMap(({ handOffs }) => handOffs),
          })),
          {
            name: 'PING',
            values: measured.flatMap(([, { windows }]) => windows.flatMap(({ pings }) => pings)),
          },
        ],
      }),
  }),

  commands: (load, measured) => ({
    title: 'Commands per acquisition, and use of the lock',
    lines: [load.caption, 'Shorter is better on the left, longer on the right.'],
    draw: (words) =>
      bars({
        ...words,
        panels: [
          {
            title: 'commands per acquisition and release',
            rows: measured.map(([name, { commands }]) => row(name, commands?.perPair ?? null)),
          },
          {
            title: 'held, % of the time',
            most: 100,
            rows: measured.map(([name, { windows }]) => row(name, summary(windows, 'held', load).median)),
          },
        ],
      }),
  }),

  callers: (load, measured) => ({
    title: 'Waits of each caller over time',
    lines: [load.caption, 'A dot for each acquisition, at the time of its grant.'],
    draw: (words) =>
      scatter({
        ...words,
        panels: measured.map(([name, { windows }]) => panel(name, windows.at(-1))),
      }),
  }),
}

function row(name, value) {
  return { name, value, text: number(value) }
}

function panel(name, { ms, acquisitions, waiting }) {
  const points = (list) => list.map(([, , granted, , waited]) => [granted / 1_000, waited])
  return {
    name,
    seconds: ms / 1_000,
    all: points(acquisitions),
    one: points(acquisitions.filter(([process, caller]) => process === 0 && caller === 0)),
    // Who asked a moment ago isn't worth a mark.
    waiting: waiting.map(([, , waited]) => waited).filter((waited) => waited > ms),
  }
}

/** The pictures that `load` asks for: `{ file, title, svg }`. */
function plotsOf(load, measured) {
  const known = [...measured].filter(([, { windows }]) => windows.length > 0)
  if (known.length === 0) return []
  return (load.plots ?? []).map((name) => {
    const { title, lines, draw } = pictures[name](load, known)
    return {
      file: `${load.name}-${name}.svg`,
      title: `${load.name}: ${title}`,
      svg: draw({ title, lines }),
    }
  })
}

module.exports = { plotsOf }
