'use strict'

// The example of a popular cache entry: when it expires, one query is enough for all requests of all processes.

const { spawn } = require('node:child_process')
const { once } = require('node:events')
const { LIMIT: limit, createProject, environment } = require('./support/example-project')
const { start } = require('./support/server')

const WAYS = ['no lock', 'single flight', 'holdfast']
const PROCESSES = 5
const ANSWERS = 5_000

let server
let project

beforeAll(async () => {
  server = await start()
  project = createProject('hot-key')
}, limit)

afterEach(() => server.command('FLUSHALL'))

afterAll(() => project.remove())

/** What it printed of each way: `{ queries, answers, p50, p99, wrong }`. */
function tableOf({ stdout }) {
  const rows = [...stdout.matchAll(/^ {2}(\w+(?: \w+)?) +(\d+) +(\d+) +(\d+) +(\d+) +(\d+)$/gm)]
  expect(rows.map(([, way]) => way)).toEqual(WAYS)
  return rows.map(([, , ...cells]) => {
    const [queries, answers, p50, p99, wrong] = cells.map(Number)
    return { queries, answers, p50, p99, wrong }
  })
}

test(
  'shows it on a server of its own: every request is answered rightly, and Holdfast needs one query',
  async () => {
    const done = await project.runWithoutUrl('start.js')
    expect(done).toMatchObject({ code: 0, stderr: '' })
    expect(done.stdout).toContain('With Holdfast one query was enough.')
    const [none, single, holdfast] = tableOf(done)
    for (const way of [none, single, holdfast]) {
      expect(way).toMatchObject({ answers: ANSWERS, wrong: 0 })
      // Nobody had the old value, which would have come at once.
      expect(way.p50).toBeGreaterThanOrEqual(195)
    }
    expect(holdfast.queries).toBe(1)
    // A process that is late on a busy machine finds the entry there.
    expect(single.queries).toBeGreaterThan(1)
    expect(single.queries).toBeLessThanOrEqual(PROCESSES)
    expect(none.queries).toBeGreaterThan(1_000)
  },
  limit,
)

test(
  'has exactly as many queries as it says when no process can be late, and leaves no key for ever',
  async () => {
    const done = await project.run('start.js', { HOLDFAST_URL: server.url, LATENCY: '2000' })
    expect(done).toMatchObject({ code: 0, stderr: '' })
    const rows = tableOf(done)
    expect(rows.map(({ queries }) => queries)).toEqual([ANSWERS, PROCESSES, 1])
    for (const row of rows) expect(row).toMatchObject({ answers: ANSWERS, wrong: 0 })

    const keys = await server.command('KEYS', '*')
    expect(keys).toEqual(expect.arrayContaining(WAYS.map(keyOf)))
    for (const key of keys) {
      expect(key).toMatch(/^hot-key:/)
      // -1 would be for ever; -2 is one that has just gone.
      expect([key, await server.command('PTTL', key)]).not.toEqual([key, -1])
    }
    // A minute, spread by a tenth.
    expect(await server.command('PTTL', keyOf('holdfast'))).toBeLessThanOrEqual(66_000)
  },
  limit,
)

function keyOf(way) {
  return `hot-key:${way.replace(' ', '-')}:product-7`
}

test(
  'ends at once when it is interrupted in the middle of a way',
  async () => {
    const child = spawn(process.execPath, ['start.js'], {
      cwd: project.folder,
      // So long that it can't be over before.
      env: environment({ HOLDFAST_URL: server.url, LATENCY: '60000' }),
      stdio: ['ignore', 'pipe', 'pipe'],
    })
    const output = { stdout: '', stderr: '' }
    const begun = new Promise((resolve) => {
      for (const name of ['stdout', 'stderr']) {
        child[name].setEncoding('utf8').on('data', (text) => {
          output[name] += text
          if (output.stdout.includes('queries')) resolve()
        })
      }
    })
    const ended = once(child, 'close')
    await Promise.race([begun, ended])
    child.kill('SIGINT')
    expect(await ended).toEqual([130, null])
    expect(output.stderr).toBe('')
  },
  limit,
)
