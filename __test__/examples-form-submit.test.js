'use strict'

// The form example: a submission is refused while the user's first one runs and for a day after it, in all processes.

const { spawn } = require('node:child_process')
const { once } = require('node:events')
const http = require('node:http')
const { LIMIT: limit, createProject, environment } = require('./support/example-project')
const { monitor } = require('./support/monitor')
const { start } = require('./support/server')
const { until } = require('./support/until')

const DAY = 24 * 60 * 60

let server
let project
const services = new Set()

beforeAll(async () => {
  server = await start()
  project = createProject('form-submit')
}, limit)

afterEach(async () => {
  for (const service of services) service.process.kill('SIGKILL')
  services.clear()
  await server.command('FLUSHALL')
})

afterAll(() => project.remove())

async function startService({ delivery = 500, stderr = 'inherit' } = {}) {
  const child = spawn(process.execPath, ['service.js'], {
    cwd: project.folder,
    env: environment({ HOLDFAST_URL: server.url, DELIVERY: String(delivery) }),
    stdio: ['ignore', 'ignore', stderr, 'ipc'],
  })
  const service = { process: child }
  services.add(service)
  const [{ port }] = await once(child, 'message')
  service.port = port
  return service
}

async function submit({ port }, form) {
  const options = { host: '127.0.0.1', port, path: '/submissions', method: 'POST' }
  const request = http.request({ ...options, headers: { 'content-type': 'application/json' } })
  request.end(JSON.stringify(form))
  const [response] = await once(request, 'response')
  let text = ''
  for await (const part of response.setEncoding('utf8')) text += part
  return { status: response.statusCode, body: JSON.parse(text) }
}

/** Starts a submission, and resolves when its lock is taken; its answer is still to come. */
async function begin(service, form) {
  const answer = submit(service, form)
  await until('the submission is at work', () =>
    server.command('EXISTS', `form-submit:lock:submit:${form.user}`),
  )
  return { answer }
}

test(
  'lets each impatient user submit once, on a server of its own and on a given one, and leaves nothing behind',
  async () => {
    for (const done of [
      await project.runWithoutUrl('start.js'),
      await project.run('start.js', { HOLDFAST_URL: server.url }),
    ]) {
      expect(done).toMatchObject({ code: 0, stderr: '' })
      expect(done.stdout).toContain('Each has submitted once.')
      const rows = [...done.stdout.matchAll(/^ {2}\w+ +(\d+) +(\d+) +(\d+)$/gm)]
      expect(rows).toHaveLength(6)
      for (const [, ...counts] of rows) expect(counts.map(Number)).toEqual([1, 4, 2])
    }
    const left = await server.command('KEYS', 'form-submit:*')
    expect(left.filter((key) => !key.includes('~'))).toEqual([])
  },
  limit,
)

test(
  'refuses a second submission at once while the first runs, and as already submitted after it, in any process',
  async () => {
    const [here, there] = [await startService({ delivery: 1_500 }), await startService()]
    const form = { user: 'ada', text: 'yes' }
    const first = await begin(here, form)
    let running = true
    first.answer.finally(() => {
      running = false
    })

    for (const service of [here, there]) {
      expect(await submit(service, form)).toEqual({ status: 409, body: { error: 'being submitted' } })
    }
    // Another user has nothing to do with it.
    expect(await submit(there, { user: 'ben', text: 'me too' })).toMatchObject({ status: 201 })
    expect(running).toBe(true)

    const { status, body } = await first.answer
    expect({ status, body }).toEqual({
      status: 201,
      body: { id: expect.any(String), user: 'ada', fencingToken: expect.any(Number), at: expect.any(String) },
    })
    for (const service of [here, there]) {
      const again = await submit(service, form)
      expect(again).toEqual({ status: 409, body: { error: 'already submitted', id: body.id } })
    }
    const left = await server.command('TTL', 'form-submit:submitted:ada')
    expect(left).toBeGreaterThan(DAY - 60)
    expect(left).toBeLessThanOrEqual(DAY)
  },
  limit,
)

test(
  'takes a submission again when the process that was at work is killed, once its lease is over',
  async () => {
    const [doomed, other] = [await startService({ delivery: 60_000 }), await startService({ delivery: 0 })]
    const form = { user: 'cleo', text: 'yes' }
    const first = await begin(doomed, form)
    doomed.process.kill('SIGKILL')
    await expect(first.answer).rejects.toThrow()
    const from = performance.now()

    expect(await submit(other, form)).toMatchObject({ status: 409, body: { error: 'being submitted' } })
    const answer = await until('the lease is over', async () => {
      const { status, body } = await submit(other, form)
      return status !== 409 && { status, body }
    })
    expect(answer).toMatchObject({ status: 201, body: { user: 'cleo' } })
    // The lease of 2 s, and what it takes to ask.
    expect(performance.now() - from).toBeLessThan(4_000)
    expect(await submit(other, form)).toMatchObject({ status: 409, body: { id: answer.body.id } })
  },
  limit,
)

test(
  'lets the submissions under way finish when it is told to end',
  async () => {
    const [ending, other] = [await startService({ delivery: 1_000 }), await startService()]
    const form = { user: 'dan', text: 'yes' }
    const first = await begin(ending, form)
    ending.process.kill('SIGTERM')
    const ended = once(ending.process, 'exit')
    const { status, body } = await first.answer
    expect(status).toBe(201)
    expect(await ended).toEqual([0, null])
    expect(await server.command('EXISTS', 'form-submit:lock:submit:dan')).toBe(0)
    expect(await submit(other, form)).toMatchObject({ status: 409, body: { id: body.id } })
  },
  limit,
)

test(
  'says what is wrong with a request, and takes no lock for it',
  async () => {
    const service = await startService()
    const seen = await monitor(server)
    for (const form of [
      {},
      { user: 'ada' },
      { user: 'a b', text: 'x' },
      { user: 'ada', text: 'x'.repeat(20_000) },
    ]) {
      expect(await submit(service, form)).toMatchObject({ status: 400, body: { error: expect.any(String) } })
    }
    await seen.flush()
    expect(seen.lines.filter((line) => line.includes('form-submit:'))).toEqual([])
    seen.close()
  },
  limit,
)

test(
  "answers 503 when its Redis can't be used, and works again when it can",
  async () => {
    // It reports there what is the matter, which is as it should be.
    const service = await startService({ delivery: 0, stderr: 'ignore' })
    server.pause()
    try {
      expect(await submit(service, { user: 'eve', text: 'yes' })).toMatchObject({ status: 503 })
    } finally {
      server.resume()
    }
    await until('it works again', async () => {
      const { status } = await submit(service, { user: 'finn', text: 'yes' })
      return status === 201
    })
  },
  limit,
)
