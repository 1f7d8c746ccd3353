'use strict'

const { readFileSync } = require('node:fs')
const { cpus } = require('node:os')

// On Linux the main thread's id is the process id.
const TASK = `/proc/self/task/${process.pid}`
const TICK = 10_000

/** CPU used so far by the thread that runs JavaScript, µs; undefined where the system doesn't tell. */
function ofThisThread() {
  if (process.threadCpuUsage) {
    const { user, system } = process.threadCpuUsage()
    return user + system
  }
  try {
    // Nanoseconds, brought up to date at each scheduler tick; 0 on kernels that don't keep it.
    const spent = Number(readFileSync(`${TASK}/schedstat`, 'latin1').split(' ')[0]) / 1_000
    if (spent > 0) return spent
  } catch {
    // Not kept: next.
  }
  try {
    // Clock ticks of 10 ms. The name, second field, may contain blanks: count from behind it.
    const stat = readFileSync(`${TASK}/stat`, 'latin1')
    const fields = stat.slice(stat.lastIndexOf(')') + 2).split(' ')
    return (Number(fields[11]) + Number(fields[12])) * TICK
  } catch {
    return undefined
  }
}

/** CPU used so far by all threads of this process, µs. */
function ofThisProcess() {
  const { user, system } = process.cpuUsage()
  return user + system
}

/** CPU used so far by everything on this machine, µs, and by other machines on the same processors. */
function ofThisMachine() {
  try {
    // cpu user nice system idle iowait irq softirq steal …
    const [user, nice, system, , , irq, softirq, steal] = readFileSync('/proc/stat', 'latin1')
      .split('\n', 1)[0]
      .split(/ +/)
      .slice(1)
      .map(Number)
    return (user + nice + system + irq + softirq + steal) * TICK
  } catch {
    // Not on Linux: without softirq and steal.
  }
  let busy = 0
  for (const { times } of cpus()) busy += times.user + times.nice + times.sys + times.irq
  return busy * 1_000
}

module.exports = { ofThisThread, ofThisProcess, ofThisMachine }
