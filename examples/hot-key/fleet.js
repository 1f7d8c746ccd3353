'use strict'

const { fork } = require('node:child_process')
const { once } = require('node:events')
const path = require('node:path')

/**
 * Starts the processes of the service, and answers their queries from the database.
 * @param {number} count
 * @param {NodeJS.ProcessEnv} env
 * @param {ReturnType<typeof import('./database').openDatabase>} database
 */
function startFleet(count, env, database) {
  // A process that is gone can't be told anything; that it is gone is known by its 'exit'.
  const workers = Array.from({ length: count }, () => {
    const worker = fork(path.join(__dirname, 'worker.js'), { env })
    worker.on('message', async ({ type, id, product }) => {
      if (type !== 'query') return
      const row = await database.query(product)
      worker.send({ id, row }, () => {})
    })
    return worker
  })
  return {
    ready: () => Promise.all(workers.map((worker) => next(worker, 'ready'))),
    /** Has all of them do the same at the same time, and resolves with what each answered. */
    run(order) {
      const answered = Promise.all(workers.map((worker) => next(worker, 'answered')))
      for (const worker of workers) worker.send({ type: 'run', ...order }, () => {})
      return answered
    },
    end: () => Promise.all(workers.map(end)),
  }
}

/** The next message of this type; rejects if the process ends by itself without it. */
function next(worker, type) {
  return new Promise((resolve, reject) => {
    const settle = (settled, value) => {
      worker.off('message', onMessage).off('exit', onExit)
      settled(value)
    }
    const onMessage = (message) => {
      if (message.type === type) settle(resolve, message)
    }
    const onExit = (code, signal) =>
      settle(reject, new Error(`a process of the service ended (${signal ?? `exit code ${code}`})`))
    worker.on('message', onMessage).on('exit', onExit)
  })
}

async function end(worker) {
  if (worker.exitCode !== null || worker.signalCode !== null) return
  // Nobody is told of an end that was asked for.
  worker.removeAllListeners('exit')
  const ended = once(worker, 'exit')
  if (worker.connected) worker.disconnect()
  await ended
}

module.exports = { startFleet }
