'use strict'

// The cluster module of Node: its workers are processes that exclude each other, and their ends give locks back.

const { check } = require('./support/history')
const { startWorker } = require('./support/processes')
const { onServer } = require('./support/stores')
const { until } = require('./support/until')

onServer((store) => {
  const start = (act, workers) => {
    const key = store.newKey()
    const settings = { url: store.url, port: store.server.port, key, act, workers }
    return { key, primary: startWorker('in-cluster', settings) }
  }
  const held = async (key) => (await store.server.command('KEYS', `lock:${key}:*`)).sort()

  test('P1 exclusion: the workers of a cluster exclude each other, and their primary', async () => {
    const { primary } = start('increment', 3)
    const { told } = await primary.next('told')
    const holdings = told.flatMap((worker) => worker.holdings)
    expect(holdings).toHaveLength(120)
    expect(Number(await store.server.command('GET', 'value'))).toBe(120)
    expect(check(holdings)).toEqual({ overlaps: [], fences: [] })
    expect(told.map((worker) => worker.isTaken)).toEqual([true, true, true])
    expect(await primary.next('ended')).toMatchObject({ held: true })
    expect(await primary.ended).toEqual({ code: 0, signal: null, output: '' })
  })

  test.each(['process.exit()', 'disconnect'])(
    'a worker that ends (%s) gives its lock back, and nobody else',
    async (how) => {
      const { key, primary } = start('hold', 2)
      await primary.next('told')
      expect(await held(key)).toEqual([1, 2, 'primary'].map((name) => `lock:${key}:${name}`))
      primary.send(how)
      expect(await primary.next('ended')).toMatchObject({ held: true })
      expect((await primary.ended).code).toBe(0)
      await until('everything is given back', async () => (await held(key)).length === 0)
    },
  )

  test('a worker that is killed leaves its lock to its ttl', async () => {
    const { key, primary } = start('hold', 1)
    await primary.next('told')
    primary.send('kill')
    await primary.next('ended')
    expect(await held(key)).toContain(`lock:${key}:1`)
    await primary.ended
  })
})
