'use strict'

/** Scales from values to pixels: functions with `ticks`, the values to be labelled, and `minor`, those with a line only. */

function linear([low, high], [start, end], wanted = 5) {
  const scale = (value) => start + ((value - low) / (high - low)) * (end - start)
  const step = niceStep((high - low) / wanted)
  scale.ticks = []
  for (let n = Math.ceil(low / step - 1e-9); n * step <= high * (1 + 1e-9); n++) {
    scale.ticks.push(Number((n * step).toPrecision(12)))
  }
  scale.minor = []
  return scale
}

/** Over whole decades around the values. */
function logarithmic([low, high], [start, end]) {
  const first = Math.floor(Math.log10(low) + 1e-9)
  const last = Math.max(first + 1, Math.ceil(Math.log10(high) - 1e-9))
  const scale = (value) => start + ((Math.log10(value) - first) / (last - first)) * (end - start)
  scale.least = 10 ** first
  scale.ticks = []
  scale.minor = []
  for (let decade = first; decade <= last; decade++) {
    scale.ticks.push(10 ** decade)
    for (let digit = 2; digit < 10 && decade < last; digit++) scale.minor.push(digit * 10 ** decade)
  }
  return scale
}

function niceStep(least) {
  const magnitude = 10 ** Math.floor(Math.log10(least))
  return [1, 2, 5, 10].find((factor) => factor * magnitude >= least * (1 - 1e-9)) * magnitude
}

module.exports = { linear, logarithmic }
