'use strict'

// A lock whose handle nobody has any more stays held, since a leader that keeps no handle must not lose the lead; but most of
// them were forgotten, and that is said. Each case is a process of its own, which has its garbage collected.

const { startWorker } = require('./support/processes')

const CODE = 'HOLDFAST_LOCK_COLLECTED'

// They wait most of the time, so all of them live at once.
const runs = new Map()

beforeAll(() => {
  const scenarios = [
    ...['forgotten', 'several forgotten', 'adopted and forgotten', 'its signal is listened to', 'kept'],
    ...['within withLock', 'released', 'lost'],
  ]
  for (const scenario of scenarios) runs.set(scenario, run(scenario))
  runs.set('with captureStacks', run('forgotten', { captureStacks: true }))
  // What one of them fails by is for its test to tell.
  for (const each of runs.values()) each.catch(() => {})
})

async function run(scenario, options = {}) {
  const worker = startWorker('collected-handle', { url: 'memory:', key: 'lead', scenario, options })
  const report = await worker.next('report')
  const { code, output } = await worker.ended
  return { ...report, code, output }
}

test('one warning, and the lock stays held and renewed', async () => {
  const { warnings, isTaken, held, output } = await runs.get('forgotten')
  expect(warnings).toEqual([
    {
      code: CODE,
      message: expect.stringContaining("'lead'"),
      detail: expect.stringContaining('captureStacks'),
    },
  ])
  expect({ isTaken, held }).toEqual({ isTaken: true, held: 1 })
  expect(output.split(CODE)).toHaveLength(2)
})

test('with captureStacks it shows where the lock was acquired', async () => {
  const { warnings } = await runs.get('with captureStacks')
  expect(warnings).toHaveLength(1)
  expect(warnings[0].detail).toMatch(/collected-handle\.js:\d+/)
})

test('one warning for each lock, naming all of its keys', async () => {
  const { warnings, held } = await runs.get('several forgotten')
  expect(warnings).toHaveLength(2)
  const messages = warnings.map(({ message }) => message).join()
  for (const each of [1, 2, 3]) expect(messages).toContain(`'lead:${each}'`)
  expect(held).toBe(2)
})

test('an adopted lock is no different', async () => {
  const { warnings, isTaken } = await runs.get('adopted and forgotten')
  expect(warnings).toEqual([expect.objectContaining({ code: CODE })])
  expect(isTaken).toBe(true)
})

test('a signal that is listened to goes on working', async () => {
  const { kept, isTaken } = await runs.get('its signal is listened to')
  expect({ kept, isTaken }).toEqual({ kept: 1, isTaken: false })
})

test.each([
  ['kept', { isTaken: true, held: 1 }],
  ['within withLock', { isTaken: false, held: 0 }],
  ['released', { isTaken: false, held: 0 }],
  ['lost', { isTaken: false, held: 0 }],
])('%s: no warning', async (scenario, state) => {
  const { warnings, isTaken, held, output } = await runs.get(scenario)
  expect(warnings).toEqual([])
  expect(output).toBe('')
  expect({ isTaken, held }).toEqual(state)
})

test('a held lock that nobody refers to keeps no process alive', async () => {
  for (const each of runs.values()) expect((await each).code).toBe(0)
})
