'use strict'

const { setTimeout: sleep } = require('node:timers/promises')
const countingProxy = require('../counting-proxy.js')
const { bound, judged } = require('../judged.js')
const { LibraryProcess } = require('../library-process.js')
const noise = require('../noise.js')
const { markdownTable, number, table } = require('../table.js')
const { targets } = require('../targets.js')

const KEYS = 100
const EACH = 100
const TTL = 10_000
/** Longer than anything here: of the waiters, and of those who hold and needn't renew. */
const FOREVER = 600_000
/** A process that answers an order so much later than it should has not survived, ms. */
const PATIENCE = 15_000
/** How long all waiters are given to have their turns at the end, ms. */
const TURNS = 10_000

/** Ten thousand callers of one process that wait for keys which another process holds: what does waiting cost? */
module.exports = {
  name: 'idle',
  byDefault: false,
  async run(context) {
    const seconds = context.seconds ?? (context.quick ? 5 : 60)
    const results = []
    for (const library of context.libraries) {
      context.progress(`idle: ${library.name}`)
      // Where waiting is work, some seconds show it.
      const most = library.name === 'holdfast' ? Infinity : context.quick ? 2 : 5
      const ms = Math.min(seconds, most) * 1_000
      results.push({ library, ...(await measure(library, context, ms)) })
    }
    return [section(results, seconds)]
  },
}

async function measure(library, { server, quick }, ms) {
  const keys = Array.from({ length: KEYS }, (_, n) => `bench:${library.name}:idle:${n}`)
  const proxy = await countingProxy.start(server.port)
  const processes = []
  const open = async (options) => {
    const process = await LibraryProcess.open(library.name, options)
    processes.push(process)
    return process
  }
  const idle = LibraryProcess.idle()
  processes.push(idle)
  try {
    const holder = await open({ url: server.url, ttl: FOREVER, timeout: PATIENCE })
    await Promise.all(keys.map((key) => holder.order('acquire', { key })))
    const waiter = await open({ url: proxy.url, ttl: TTL, timeout: FOREVER })
    try {
      return await look(library, { keys, holder, waiter, idle, proxy, server, quick, ms })
    } catch (error) {
      // A process that drowns in its waiters is a result.
      return { failure: error.message.split('\n', 1)[0].replace(`${library.name}: `, '') }
    }
  } finally {
    for (const process of processes) process.kill()
    await proxy.stop()
  }
}

async function look(library, { keys, holder, waiter, idle, proxy, server, quick, ms }) {
  const patient = (extra) => ({ limit: extra + PATIENCE })
  // What is compiled and allocated by the first calls isn't a waiter's.
  await waiter.order('callers', { keys: keys.map((key) => `${key}:warm`), hold: 0 })
  await waiter.order('pairs', { each: 5 })
  const before = await waiter.order('memory')

  await waiter.order('wait', { keys, each: EACH }, patient(0))
  // Until those who begin with short pauses have come to their long ones.
  await sleep(3_000)
  const after = await waiter.order('memory', {}, patient(0))

  // Both at the same time, so that they meet the same weather.
  proxy.reset()
  const others = await noise.watch(server)
  const serverBefore = await server.cpu()
  const [usage, idleUsage] = await Promise.all([
    waiter.order('usage', { ms }, patient(ms)),
    idle.order('usage', { ms }, patient(ms)),
  ])
  const commands = proxy.total() / (usage.ms / 1_000)
  const serverCpu = (await server.cpu()) - serverBefore
  const foreignCores = await others((usage.cpu + idleUsage.cpu) * 10 * usage.ms)
  const delayMs = Math.min(ms, 20_000)
  const [delay, idleDelay] = await Promise.all([
    waiter.order('loopDelay', { ms: delayMs }, patient(delayMs)),
    idle.order('loopDelay', { ms: delayMs }, patient(delayMs)),
  ])

  const { served, failed, failure } = await waiter.order('waiting', {}, patient(0))
  if (served + failed > 0) {
    throw new Error(failed > 0 ? `${failed} gave up: ${failure}` : `${served} got a lock that was held`)
  }
  return {
    cpu: usage.cpu,
    idleCpu: idleUsage.cpu,
    serverCpu: serverCpu / 10 / usage.ms,
    delay,
    idleDelay,
    memory: (after.rss - before.rss) / 1_024 / (KEYS * EACH),
    heap: (after.heapUsed - before.heapUsed) / 1_024 / (KEYS * EACH),
    commands,
    foreignCores,
    turns:
      quick && library.name !== 'holdfast' ? null : await haveTheirTurns(library, { keys, holder, waiter }),
  }
}

/** How long it takes until all have had the lock, ms: the proof that they were waiting. */
async function haveTheirTurns(library, { keys, holder, waiter }) {
  const from = performance.now()
  const served = waiter.order('served', {}, { limit: TURNS })
  // Whoever waits for it below hears of its failure.
  served.catch(() => {})
  await Promise.all(keys.map((key) => holder.order('release', { key })))
  try {
    const { failed } = await served
    return failed > 0 ? null : performance.now() - from
  } catch (error) {
    if (library.name === 'holdfast') throw error
    return null
  }
}

function section(results, seconds) {
  const head = [
    'library',
    'CPU\n%',
    'an idle\nprocess',
    'loop delay\np99, ms',
    'an idle\nprocess',
    'longest\nms',
    'RSS\nKB/waiter',
    'JS heap\nKB/waiter',
    'commands\nper second',
    'server CPU\n%',
    'all served\nwithin ms',
  ]
  const alive = results.filter(({ failure }) => !failure)
  const rows = alive.map((result) => [
    result.library.name,
    number(result.cpu),
    number(result.idleCpu),
    number(result.delay.p99),
    number(result.idleDelay.p99),
    number(result.delay.max),
    number(result.memory),
    number(result.heap),
    number(result.commands),
    number(result.serverCpu),
    number(result.turns),
  ])
  const dead = results.filter(({ failure }) => failure)
  const notes = dead.map(({ library, failure }) => `${library.name} did not survive it: ${failure}`)
  const quiet = alive.length > 0 ? [noise.verdict(alive.map(({ foreignCores }) => foreignCores))] : []
  const text = [
    `  CPU in % of one core`,
    '',
    table(head, rows),
    ...notes.map((line) => `  ${line}`),
    ...judged(lines(results.find(({ library }) => library.name === 'holdfast'))),
    '',
    ...quiet,
  ].join('\n')
  const markdown = [
    'CPU in % of one core:',
    markdownTable(head, rows),
    ...notes,
    ...quiet.map((line) => line.trim()),
  ].join('\n\n')
  return {
    name: 'idle',
    title: `idle: ${number(KEYS * EACH)} waiters of one process, ${KEYS} keys, held by another process; ${seconds} s`,
    text,
    markdown,
    problems: dead
      .filter(({ library }) => library.name === 'holdfast')
      .map(({ library, failure }) => `${library.name}: ${failure}`),
    raw: Object.fromEntries(results.map(({ library, ...result }) => [library.name, result])),
  }
}

function lines(own) {
  if (!own) return []
  const { cpu, delay, memory } = targets.idle
  const line = (what, most, unit, value) => {
    const text = value === undefined ? undefined : `${number(value)} ${unit}`
    return { what: `${what} ${bound({ most })} ${unit}`, most, value, text }
  }
  return [
    line('CPU', cpu, '%', own.cpu),
    line(
      'loop delay p99 above that of an idle process',
      delay,
      'ms',
      own.delay && own.delay.p99 - own.idleDelay.p99,
    ),
    line('RSS per waiter', memory, 'KB', own.memory),
  ]
}
