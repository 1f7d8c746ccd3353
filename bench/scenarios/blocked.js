'use strict'

const { once } = require('node:events')
const { setTimeout: sleep } = require('node:timers/promises')
const { LibraryProcess } = require('../library-process.js')
const { now } = require('../machine-clock.js')
const { markdownTable, number, table } = require('../table.js')

const SAMPLE_EVERY = 10
/** After the holder gave the lock back, the other process must get it within this time, ms. */
const HAND_OVER = 5_000

/**
 * A holder whose event loop is blocked for several times the ttl, while another process tries to take the lock all the
 * time. A library that renews is first given more than a ttl with a free loop, so that its renewal is seen to work.
 */
module.exports = {
  name: 'blocked',
  byDefault: true,
  async run({ libraries, server, quick, progress }) {
    const ttl = quick ? 1_300 : 2_000
    const block = quick ? 2_600 : 10_000
    const results = []
    for (const library of libraries) {
      progress(`blocked: ${library.name}`)
      const idle = quick || library.renews === null ? 0 : ttl * 1.25
      results.push({ library, ...(await measure(library, server, { ttl, block, idle, quick })) })
    }
    return [section({ ttl, block, results })]
  },
}

async function measure(library, server, { ttl, block, idle, quick }) {
  const key = `bench:${library.name}:blocked`
  const options = { url: server.url, ttl, timeout: 10_000 }
  const [holder, other] = await Promise.all([
    LibraryProcess.open(library.name, options),
    LibraryProcess.open(library.name, options),
  ])
  const watch = new Watch(server.control, library.redisKey(key))
  try {
    const holding = once(holder, 'holding')
    const blocking = once(holder, 'blocking')
    const held = holder.order('hold', { key, idle, block })
    await Promise.race([holding, held])
    watch.start()
    const taken = other.order('contend', { key })
    // Whoever waits for it below hears of its failure; nobody may be left to when something else failed first.
    taken.catch(() => {})
    await Promise.race([blocking, held])
    const [blockedFrom] = await blocking

    // In a quick run there is nothing more to see once the lock is lost, but what the holder is told.
    const first = await Promise.race([held, taken.then((value) => ({ ...value, early: true }))])
    const answer = first.early ? (quick ? undefined : await held) : first
    const handOver = await Promise.race([taken, sleep(HAND_OVER, undefined, { ref: false })])
    if (!handOver) {
      throw new Error(`${library.name}: the other process did not get the lock after the release`)
    }

    const lost = answer === undefined || handOver.at < answer.until
    const samples = await watch.stop({ until: lost ? handOver.at : answer.until })
    return {
      kept: !lost,
      lostAfter: lost ? handOver.at - blockedFrom : null,
      lowestPttl: samples.lowest,
      longestGap: samples.longestGap,
      told: lost ? (answer?.told ?? 'not watched') : null,
      toldAfter: answer?.toldAfter ?? null,
      attempts: handOver.attempts,
    }
  } finally {
    await watch.stop()
    // Not closed in good order: some libraries try for ever to release what they lost.
    holder.kill()
    other.kill()
  }
}

/** Looks at a key's PTTL all the time. */
class Watch {
  #control
  #key
  #samples = []
  #running
  #stopped = false

  constructor(control, key) {
    this.#control = control
    this.#key = key
  }

  start() {
    this.#running = this.#look()
  }

  /** What was seen before `until`. */
  async stop({ until = Infinity } = {}) {
    this.#stopped = true
    await this.#running
    const samples = this.#samples.filter(({ at }) => at < until)
    let lowest = Infinity
    let longestGap = 0
    for (const [n, { at, pttl }] of samples.entries()) {
      if (n > 0) longestGap = Math.max(longestGap, at - samples[n - 1].at)
      // A negative answer means that there is no key.
      lowest = Math.min(lowest, Math.max(0, pttl))
    }
    return { lowest, longestGap }
  }

  async #look() {
    while (!this.#stopped) {
      const pttl = await this.#control.pttl(this.#key)
      this.#samples.push({ at: now(), pttl })
      await sleep(SAMPLE_EVERY)
    }
  }
}

function section({ ttl, block, results }) {
  const rows = results.map(({ library, kept, lostAfter, lowestPttl, told, toldAfter }) => [
    library.name,
    library.renews ?? 'never',
    kept ? 'kept' : 'LOST',
    kept ? '–' : `${number(lostAfter)} ms`,
    `${number(lowestPttl)} ms`,
    toldAfter === null ? (told ?? '–') : `after ${number(toldAfter)} ms`,
  ])
  const head = ['library', 'renews', 'result', 'lost, into the block', 'lowest PTTL', 'holder told']
  const own = results.find(({ library }) => library.name === 'holdfast')
  const text = [
    `  "holder told": after the block, by the library, without asking Redis`,
    '',
    table(head, rows),
    ...(own ? ['', table(['target', 'measured', ''], [target(own)])] : []),
  ].join('\n')
  const raw = { ttl, block, libraries: {} }
  for (const { library, ...result } of results) {
    raw.libraries[library.name] = { renews: library.renews, ...result }
  }
  return {
    name: 'blocked',
    title: `blocked: ttl ${ttl} ms, the holder's event loop blocked for ${block} ms, another process tries all the time`,
    text,
    markdown: [
      'Holder told: what the library tells its holder after the block, without asking Redis.',
      markdownTable(head, rows),
    ].join('\n\n'),
    problems: [],
    raw,
  }
}

function target({ kept }) {
  return ['the lock is kept', kept ? 'kept' : 'lost', kept ? 'reached' : 'missed']
}
