'use strict'

/**
 * Calls `onTick(tick)` at every multiple of `every` ms by the machine's clock: all processes and machines whose clocks
 * agree have the same ticks at about the same time. Returns what stops it.
 * @param {number} every
 * @param {(tick: number) => void} onTick
 */
function onEveryTick(every, onTick) {
  let timer
  let last = Math.floor(Date.now() / every)
  const wait = () => {
    timer = setTimeout(wake, (last + 1) * every - Date.now())
  }
  const wake = () => {
    const tick = Math.floor(Date.now() / every)
    // Timers may fire a little early, and a clock may be set back.
    if (tick > last) {
      last = tick
      onTick(tick)
    }
    wait()
  }
  wait()
  return () => clearTimeout(timer)
}

module.exports = { onEveryTick }
