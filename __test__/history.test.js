'use strict'

// The checker that other tests rely on: it must pass what is right, and catch locks that are really broken.

const { check } = require('./support/history')
const { startWorker } = require('./support/processes')
const { start } = require('./support/server')

const holding = (from, until, fence, more) => ({ key: 'k', owner: `o${from}`, from, until, fence, ...more })
const sound = { overlaps: [], fences: [] }

describe('what was written down by hand', () => {
  test('one after the other passes, in whatever order it was written down', () => {
    expect(check([holding(20, 30, 3), holding(0, 10, 1), holding(10, 20, 2)])).toEqual(sound)
    expect(check([])).toEqual(sound)
  })

  test('two at the same time are an overlap, by a nanosecond too', () => {
    const [one, two] = [holding(0n, 10n, 1), holding(9n, 20n, 2)]
    expect(check([two, one])).toEqual({ overlaps: [[one, two]], fences: [] })
  })

  test('a long holding covers several short ones', () => {
    const [long, one, two] = [holding(0, 100, 1), holding(10, 20, 2), holding(30, 40, 3)]
    expect(check([long, one, two]).overlaps).toEqual([
      [long, one],
      [long, two],
    ])
  })

  test('keys have nothing to do with each other', () => {
    expect(check([holding(0, 10, 5), holding(5, 15, 1, { key: 'other' })])).toEqual(sound)
  })

  test('a fence that repeats or falls is reported', () => {
    const [one, two, three] = [holding(0, 10, 7), holding(10, 20, 7), holding(20, 30, 6)]
    expect(check([one, two, three]).fences).toEqual([
      [one, two],
      [two, three],
    ])
  })

  test.each([
    { until: undefined },
    { from: Number.NaN },
    { fence: undefined },
    { owner: undefined },
    { until: -1 },
  ])('an incomplete holding is refused, not passed: %p', (wrong) => {
    expect(() => check([holding(0, 10, 1, wrong)])).toThrow(TypeError)
  })
})

describe('real locks of several processes on a real server', () => {
  let server

  beforeAll(async () => {
    server = await start()
  })

  async function historyOf(flaw) {
    const settings = { port: server.port, key: `history:${flaw}`, flaw, turns: 12 }
    const workers = Array.from({ length: 3 }, () => startWorker('hand-written-lock', settings))
    await Promise.all(workers.map((worker) => worker.next('ready')))
    for (const worker of workers) worker.send('go')
    const done = await Promise.all(workers.map((worker) => worker.next('done')))
    return check(done.flatMap((message) => message.holdings))
  }

  test('a correct one passes, although holders overstay', async () => {
    expect(await historyOf('none')).toEqual(sound)
  })

  test('one that ignores NX is caught', async () => {
    expect((await historyOf('ignores NX')).overlaps).not.toEqual([])
  })

  test('one that deletes without comparing tokens is caught', async () => {
    expect((await historyOf('deletes without comparing')).overlaps).not.toEqual([])
  })

  test('fences that each process counts by itself are caught', async () => {
    const { overlaps, fences } = await historyOf('counts by itself')
    expect(overlaps).toEqual([])
    expect(fences).not.toEqual([])
  })
})
