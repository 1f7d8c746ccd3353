// Managers: options, events, figures, closing.
import * as tls from 'node:tls'
import {
  type CloseOptions,
  configure,
  createLocks,
  type Distribution,
  type Lock,
  LockManager,
  type LockLostError,
  type LockUnavailableError,
  type locks,
  type ManagerOptions,
  type Stats,
  type TlsOptions,
} from 'holdfast'
import { type Same, sure } from './same.js'

sure<Same<typeof locks, LockManager>>()

const everything: Required<ManagerOptions> = {
  url: 'rediss://user@127.0.0.1:6380/1',
  username: 'user',
  password: 'secret',
  db: 1,
  tls: {
    ca: ['PEM', Buffer.from('PEM')],
    cert: 'PEM',
    key: Buffer.from('PEM'),
    servername: 'redis.internal',
    rejectUnauthorized: false,
  },
  keyPrefix: '',
  commandTimeout: 500,
  ttl: 5_000,
  autoExtend: true,
  timeout: Infinity,
  ifLost: 'ignore',
  strategy: 'handoff',
  turn: { holders: 4, duration: Infinity },
  fair: false,
  maxHold: Infinity,
  maxStall: 60_000,
  minHold: 0,
  reentrant: false,
  detectDeadlock: false,
  captureStacks: true,
}
const manager = createLocks(everything)
sure<Same<typeof manager, LockManager>>()
createLocks()
createLocks({})
createLocks({ url: 'memory:' })
const configured = configure(everything)
sure<Same<typeof configured, void>>()

// Settings that node:tls itself takes go through as they are.
const trusted: TlsOptions = { ca: [...tls.rootCertificates] }
createLocks({ url: 'rediss://127.0.0.1', tls: trusted })

// @ts-expect-error an object, not the URL itself
createLocks('redis://127.0.0.1')
// @ts-expect-error unknown option
createLocks({ uri: 'redis://127.0.0.1' })
// @ts-expect-error a string, not a URL object
createLocks({ url: new URL('redis://127.0.0.1') })
// @ts-expect-error not a strategy
createLocks({ strategy: 'queue' })
// @ts-expect-error a number of holders, in an object
createLocks({ turn: 4 })
// @ts-expect-error an encrypted key is not supported
createLocks({ tls: { passphrase: 'secret' } })
// @ts-expect-error a number
createLocks({ db: '1' })
// @ts-expect-error options are required
configure()
// @ts-expect-error made by createLocks only
new LockManager()

export function eventsAreNamedAndTyped(from: LockManager) {
  from.on('lost', (error) => sure<Same<typeof error, LockLostError>>())
  from.once('unavailable', (error) => sure<Same<typeof error, LockUnavailableError>>())
  from.off('reconnected', () => {})
  const same = from.on('releaseFailed', (error) => sure<Same<typeof error, LockUnavailableError>>())
  sure<Same<typeof same, LockManager>>()

  from.on('stalled', ({ keys, silent }) => sure<Same<typeof keys, readonly string[]>>() ?? silent.toFixed())
  from.on('adapted', ({ strategy }) => sure<Same<typeof strategy, 'spin' | 'backoff' | 'hybrid'>>())

  // @ts-expect-error a LockLostError has a reason out of seven
  from.on('lost', (error) => error.reason === 'stolen')
  // @ts-expect-error no argument
  from.on('reconnected', (error) => error)
}

export async function managersAreReadyAndClose() {
  const ready = await manager.ready()
  sure<Same<typeof ready, void>>()
  await manager.ready({})
  await manager.ready({ timeout: 1_000 })
  const options: CloseOptions = { drain: Infinity }
  const closed = await manager.close(options)
  sure<Same<typeof closed, void>>()
  await manager.close()
  await manager[Symbol.asyncDispose]()

  // @ts-expect-error an object
  manager.close(1_000)
  // @ts-expect-error unknown option
  manager.close({ timeout: 1_000 })
  // @ts-expect-error unknown option
  manager.ready({ drain: 1_000 })
}

export function figuresAreNumbers(): number {
  const stats = manager.stats()
  sure<Same<typeof stats, Stats>>()
  const numbers: number[] = [
    stats.acquired,
    stats.lost,
    stats.commands,
    stats.nativeCpu,
    stats.losses.maxHold,
  ]
  sure<Same<typeof stats.waits, Distribution>>()
  sure<Same<typeof stats.holds.p99, number | undefined>>()
  sure<Same<typeof stats.suggestedTtl, number | undefined>>()
  // @ts-expect-error no such figure
  return stats.attempts + numbers.length
}

export function aManagerIsAnEmitter(emitter: NodeJS.EventEmitter = manager): Lock | undefined {
  emitter.setMaxListeners(20)
  // @ts-expect-error an emitter is not a manager
  const back: LockManager = emitter
  return back && undefined
}
