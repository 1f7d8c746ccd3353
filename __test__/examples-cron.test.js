'use strict'

// The cron example: each tick is run by one process, also when a task takes long, is killed or is told to end.

const { spawn } = require('node:child_process')
const { once } = require('node:events')
const path = require('node:path')
const { LIMIT: limit, createProject, environment } = require('./support/example-project')
const { start } = require('./support/server')
const { until } = require('./support/until')

/** Of the task `backup`, ms: see tasks.js. */
const BACKUP = { ttl: 1_000, every: 1_500, takes: 2_500 }

let server
let project
let runners = []
/** What the runners told, in the order of arrival. */
let events = []

beforeAll(async () => {
  server = await start()
  project = createProject('cron')
}, limit)

afterEach(async () => {
  for (const runner of runners) runner.kill('SIGKILL')
  runners = []
  events = []
  await server.command('FLUSHALL')
})

afterAll(() => project.remove())

async function startRunners(count = 4) {
  runners = Array.from({ length: count }, () =>
    spawn(process.execPath, ['runner.js'], {
      cwd: project.folder,
      env: environment({ HOLDFAST_URL: server.url }),
      stdio: ['ignore', 'ignore', 'inherit', 'ipc'],
    }),
  )
  for (const runner of runners) {
    runner.on('message', (message) => events.push({ ...message, at: performance.now() }))
  }
  await Promise.all(runners.map((runner) => once(runner, 'message')))
  // What is asked for from here on happens in front of all of them.
  events = []
}

/** The first of these events after the one before, once it has come. */
function seen(event, task, after = { at: 0 }) {
  const find = () => events.find((one) => one.event === event && one.task === task && one.at > after.at)
  return until(`${task} ${event}`, find)
}

async function statusOf(task) {
  const pairs = await server.command('HGETALL', `cron:status:${task}`)
  return Object.fromEntries(Array.from({ length: pairs.length / 2 }, (_, i) => pairs.slice(2 * i, 2 * i + 2)))
}

const startsOf = (task) => events.filter((one) => one.event === 'running' && one.task === task)

test(
  'shows it, on a server of its own and on a given one, and leaves nothing behind',
  async () => {
    for (const done of [
      await project.runWithoutUrl('start.js'),
      await project.run('start.js', { HOLDFAST_URL: server.url }),
    ]) {
      expect(done).toMatchObject({ code: 0, stderr: '' })
      expect(done.stdout).toContain('No tick was run twice.')
      expect(done.stdout).toContain('No task ran beside itself.')
      expect(done.stdout).toMatch(/backup +killed +kill -9/)
      expect(done.stdout).toMatch(/backup +found +the run before was abandoned/)
      expect(done.stdout).toMatch(/^ {2}backup +completed, tick \d+, by runner \d+, token \d+, \d+ ms$/m)
      const [, replaced] = done.stdout.match(/replaced after (\d+) ms/)
      expect(Number(replaced)).toBeLessThan(BACKUP.ttl + BACKUP.every + 500)
      const ticks = [...done.stdout.matchAll(/report +running +tick (\d+)/g)].map(([, tick]) => Number(tick))
      expect(ticks.length).toBeGreaterThan(10)
      // None twice; and none left out, but for those of a ttl if the killed runner happened to have this task, too.
      const steps = ticks.slice(1).map((tick, i) => tick - ticks[i])
      expect(steps.filter((step) => step < 1)).toEqual([])
      expect(steps.filter((step) => step > 1).length).toBeLessThanOrEqual(1)
      expect(Math.max(...steps)).toBeLessThanOrEqual(4)
    }
    const left = await server.command('KEYS', 'cron:*')
    // The locks of tasks that were done early are nobody's, and end by themselves.
    expect(left.filter((key) => !key.includes('~') && !key.startsWith('cron:lock:'))).toEqual([])
    await until('no lock is left', async () => (await server.command('KEYS', 'cron:lock:[^~]*')).length === 0)
  },
  limit,
)

test(
  'runs a task that takes longer than its ttl once, renewed to its end, while the others skip its ticks',
  async () => {
    await startRunners()
    const run = await seen('running', 'backup')
    expect(await statusOf('backup')).toMatchObject({ state: 'running', runner: String(run.runner) })
    const completed = await seen('completed', 'backup', run)
    expect(completed).toMatchObject({ runner: run.runner, tick: run.tick, token: run.token })
    expect(completed.at - run.at).toBeGreaterThan(2 * BACKUP.ttl)
    expect(startsOf('backup').filter(({ at }) => at < completed.at)).toEqual([run])
    // Its own runner as well: it has the whole schedule, as all have.
    const next = events.filter((one) => one.task === 'backup' && one.tick === run.tick + 1)
    expect(next.map(({ event }) => event)).toEqual(Array(4).fill('skipped'))
    await until('its status says so', async () => {
      const { state, tick, token } = await statusOf('backup')
      return state === 'completed' && Number(tick) === run.tick && Number(token) === run.token
    })
  },
  limit,
)

test(
  'replaces a runner that is killed: its task is taken at the first tick after its ttl',
  async () => {
    await startRunners()
    const run = await seen('running', 'backup')
    const [victim] = runners.filter((runner) => runner.pid === run.runner)
    victim.kill('SIGKILL')
    await once(victim, 'exit')
    const killed = { at: performance.now() }
    expect(await statusOf('backup')).toMatchObject({ state: 'running', runner: String(run.runner) })

    await seen('abandoned', 'backup', killed)
    const next = await seen('running', 'backup', killed)
    expect(next.runner).not.toBe(run.runner)
    expect(next.tick).toBeGreaterThan(run.tick)
    expect(next.token).toBeGreaterThan(run.token)
    // A little for a busy machine.
    expect(next.at - killed.at).toBeLessThan(BACKUP.ttl + BACKUP.every + 500)
    const completed = await seen('completed', 'backup', next)
    expect(completed).toMatchObject({ runner: next.runner, token: next.token })
    expect(await statusOf('backup')).toMatchObject({ state: 'completed', runner: String(next.runner) })
  },
  limit,
)

test(
  'keeps a tick from being run twice by a runner that wakes up late for it',
  async () => {
    await startRunners()
    const run = await seen('running', 'report')
    // Long done: nobody works, and the key is taken all the same until half of the period is over.
    await seen('completed', 'report', run)
    const remaining = await until('its runner has given the lock back', async () => {
      const ms = await server.command('PTTL', 'cron:lock:report')
      return ms <= 250 && ms
    })
    expect(remaining).toBeGreaterThan(0)
    // And afterwards the status refuses: in Redis the tick has begun.
    const { PREFIX, openStatus } = require(path.join(project.folder, 'status.js'))
    expect(PREFIX).toBe('cron:')
    const status = openStatus(server.url)
    try {
      const late = { task: 'report', tick: run.tick, token: Number.MAX_SAFE_INTEGER, runner: 0 }
      expect(await status.begin(late)).toBe('refused')
      // Nor can a runner that lost its lock begin a later tick, or end a run that isn't its own any more.
      await seen('running', 'report', run)
      expect(await status.begin({ ...late, tick: run.tick + 1_000, token: run.token })).toBe('refused')
      expect(await status.complete({ task: 'report', token: run.token })).toBe(false)
    } finally {
      await status.close()
    }
  },
  limit,
)

test(
  'lets tasks under way finish when it is told to end, and begins no other',
  async () => {
    await startRunners(1)
    const [runner] = runners
    const run = await seen('running', 'backup')
    runner.kill('SIGTERM')
    const told = performance.now()
    expect(await once(runner, 'exit')).toEqual([0, null])
    expect(await statusOf('backup')).toMatchObject({ state: 'completed', token: String(run.token) })
    expect(await statusOf('report')).toMatchObject({ state: 'completed' })
    // It had a tick of `report` at most at the same instant.
    const later = events.filter((one) => one.event === 'running' && one.at > told + 200)
    expect(later).toEqual([])
    expect(await server.command('EXISTS', 'cron:lock:backup')).toBe(0)
  },
  limit,
)
