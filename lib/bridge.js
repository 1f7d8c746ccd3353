'use strict'

const path = require('node:path')
const timers = require('node:timers')
const { LockBindingError } = require('./errors')
const { libc, triple } = require('./platform')

// The only file that touches the addon. Calls are submitted and return at once; what they come to is fetched in batches,
// as records of five numbers, and given to the target in the record's slot.

/**
 * What a slot leads to. `settle` gets the record's code and its three values; `watch` is called from time to time while it is under way.
 * @typedef {{ settle(code: number, a: number, b: number, c: number): void, watch?(): void }} Target
 */

/** What a record says; the numbers are those of addon/src/records.rs. */
const CODE = {
  WITHDRAWN: 0,
  GRANTED: 1,
  BUSY: 2,
  TIMED_OUT: 3,
  UNAVAILABLE: 4,
  WRONG_TYPE: 5,
  CLOSED: 6,
  RELEASED: 7,
  EXTENDED: 8,
  LOST: 9,
  DETACHED: 10,
  RENEWED: 11,
  STALLED: 12,
  LATE: 13,
  STORE_UNAVAILABLE: 20,
  STORE_AVAILABLE: 21,
  ADAPTED: 22,
  FALLBACK: 23,
  FOUND: 30,
  ABSENT: 31,
  LOADING: 32,
  BACKS_OFF: 33,
  LOAD_FAILED: 34,
  NOTHING: 35,
  DONE: 36,
  FOREIGN: 37,
}

const BRIDGE_VERSION = 5
const WIDTH = 5
/** How many hand-overs within the process go on without a turn of the event loop: timers and I/O must not starve. */
const STREAK = 64
/** How many reads of values are sent without waiting for the end of a burst of calls. */
const PIECE = 25
/** How long the end of the process waits for Redis to confirm the releases, ms. */
const LAST_WORDS = 200

// Taken at load, and not from the global object: fake timers in tests must not stall a lock.
const { setImmediate, setInterval } = timers
const nextTick = /** @type {any} */ (process.nextTick).clock
  ? (/** @type {() => void} */ run) => void Promise.resolve().then(run)
  : process.nextTick.bind(process)

/** @type {any} the addon, once it is loaded */
let addon
/** This copy's number there. */
let half = 0
/** @type {(Target | undefined)[]} */
const targets = []
/** @type {number[]} */
const free = []
const buffer = new Float64Array(WIDTH * 256)
let fetching = false
let postponed = false
let streak = 0
/** @type {number[]} managers with something to send */
let unsent = []
/** How often something was sent. */
let bursts = 0
/** Reads of values that aren't sent yet. */
let reads = 0

/** Keeps the process alive while a promise of ours is pending; a held lock doesn't. */
const alive = setInterval(() => {}, 2 ** 30)
alive.unref()
let pending = 0

function begin() {
  if (pending++ === 0) alive.ref()
}

function end() {
  if (--pending === 0) alive.unref()
}

/** How many locks are held. */
let held = 0

function hold() {
  held++
}

function letGo() {
  held--
}

/** Whether anything is held. */
function isHolding() {
  return held > 0
}

/** Whether anything is held or awaited. */
function inUse() {
  return pending + held > 0
}

/** Tells the native side that this event loop is alive. */
function beat() {
  addon?.beat(half)
}

let observing = false

/**
 * Whether the native side is to tell of each renewal.
 * @param {boolean} wanted
 */
function observeRenewals(wanted) {
  if (wanted === observing) return
  observing = wanted
  addon.observeRenewals(half, wanted)
}

/** The number of the burst in which goes what is asked now: what has the same number isn't sent yet. */
function burst() {
  return bursts
}

/** @param {Target} target */
function takeSlot(target) {
  const slot = free.pop() ?? targets.length
  targets[slot] = target
  return slot
}

/**
 * Ends a manager of the addon. What was said of its connection is fetched before its slot goes to another target.
 * @param {number} manager
 * @param {number} slot
 */
function close(manager, slot) {
  unsent = unsent.filter((other) => other !== manager)
  addon.leave(manager)
  fetchNow()
  freeSlot(slot)
}

/** @param {number} slot */
function freeSlot(slot) {
  targets[slot] = undefined
  free.push(slot)
}

/**
 * Everything that is under way.
 * @returns {Iterable<Target>}
 */
function* allTargets() {
  for (const target of targets) if (target) yield target
}

/** Gives every record that is there to its target. */
function fetch() {
  if (postponed) return
  fetchNow()
}

/** Runs what fetches. @type {(fetch: () => void) => void} */
let runFetch = (fetch) => fetch()

/**
 * What is fetched may run callers' code, which has nothing to do with the code that happens to fetch.
 * @param {typeof runFetch} run
 */
function fetchBy(run) {
  runFetch = run
}

function fetchNow() {
  runFetch(fetchAll)
}

function fetchAll() {
  // A record's target may call us; what that brings is fetched by the loop that is under way.
  if (fetching) return
  fetching = true
  try {
    for (;;) {
      const count = addon.drain(half, buffer)
      if (count === 0) return
      for (let i = 0; i < count * WIDTH; i += WIDTH) {
        if (buffer[i + 1] === CODE.WITHDRAWN) continue
        try {
          targets[buffer[i]]?.settle(buffer[i + 1], buffer[i + 2], buffer[i + 3], buffer[i + 4])
        } catch (error) {
          // A defect of one must not leave the others unanswered.
          nextTick(() => {
            throw error
          })
        }
      }
    }
  } finally {
    fetching = false
  }
}

/** Fetches what a call of ours has brought about, unless the event loop has waited long enough. */
function fetchSoon() {
  if (++streak < STREAK) return fetch()
  if (postponed) return
  postponed = true
  setImmediate(() => {
    postponed = false
    streak = 0
    fetch()
  })
}

/**
 * Sends a manager's commands at the end of this burst of calls, all in one write.
 * @param {number} manager
 */
function flushSoon(manager) {
  if (unsent.length === 0) nextTick(flushAll)
  if (!unsent.includes(manager)) unsent.push(manager)
}

/**
 * The same for a read of a value: many are sent in pieces, so that the server answers some while others are still asked, and their
 * answers come while the rest is being answered.
 * @param {number} manager
 */
function flushReadSoon(manager) {
  flushSoon(manager)
  if (++reads < PIECE) return
  reads = 0
  bursts++
  addon.flush(manager)
}

function flushAll() {
  const managers = unsent
  unsent = []
  bursts++
  reads = 0
  let something = false
  for (const manager of managers) something = addon.flush(manager) || something
  if (something) fetchSoon()
}

/**
 * The details of the record that is being settled.
 * @param {number} slot
 * @param {number} code
 * @returns {{ code?: string, message?: string, definite?: boolean, holder?: string, token?: string, holds?: number,
 *   key?: string, choice?: string, p99?: number }}
 */
function detail(slot, code) {
  return addon.detail(half, slot, code) ?? {}
}

/**
 * The cached value that the record which is being settled is about.
 * @param {number} slot
 * @param {boolean} text
 * @returns {string | Buffer}
 */
function takeValue(slot, text) {
  return (text ? addon.takeText(half, slot) : addon.takeBytes(half, slot)) ?? ''
}

/**
 * Opens a manager of the addon; loads it if need be.
 * @param {object} options
 * @param {object} terms defaults of its calls
 * @param {Target} target of the events of its connection
 */
function open(options, terms, target) {
  addon ??= load()
  const slot = takeSlot(target)
  return { addon, number: /** @type {number} */ (addon.openManager(half, options, terms, slot)), slot }
}

function load() {
  const loaded = requireAddon()
  if (loaded.bridgeVersion?.() !== BRIDGE_VERSION) {
    throw unusable('the native addon is of another version than the package: build or install it again')
  }
  half = loaded.openHalf(() => {
    streak = 0
    fetch()
  })
  atExit(() => loaded.end(half, LAST_WORDS))
  return loaded
}

function requireAddon() {
  const override = process.env.HOLDFAST_NATIVE_PATH
  const name = triple()
  const candidates = override
    ? [path.resolve(override)]
    : [path.join(__dirname, '..', `holdfast.${name}.node`), `@holdfast/${name}`]
  const failures = []
  for (const candidate of candidates) {
    try {
      return require(candidate)
    } catch (error) {
      failures.push(error)
    }
  }
  // What is there and can't be loaded says more than what isn't there.
  const cause =
    failures.find((error) => /** @type {any} */ (error)?.code !== 'MODULE_NOT_FOUND') ?? failures[0]
  if (override) throw unusable(`HOLDFAST_NATIVE_PATH names a file that can't be loaded: ${override}`, cause)
  throw unusable(
    `there is no usable native addon for ${name}. Installed with --omit=optional or for another platform? Then ` +
      `\`npm install @holdfast/${name}\`. In a clone, or where no build is published: ` +
      '`node scripts/build.js` in the folder of the package builds it, with a Rust toolchain.',
    cause,
  )
}

/**
 * @param {string} message
 * @param {unknown} [cause]
 */
function unusable(message, cause) {
  return new LockBindingError(message, {
    platform: process.platform,
    arch: process.arch,
    libc: libc(),
    cause,
  })
}

/**
 * Runs `last` when the process exits, also by process.exit() and after an uncaught exception. One listener serves all
 * copies of this file.
 * @param {() => void} last
 */
function atExit(last) {
  const registry = /** @type {any} */ (process)
  const name = Symbol.for('holdfast.atExit')
  if (!registry[name]) {
    const all = new Set()
    Object.defineProperty(process, name, { value: all })
    process.on('exit', () => {
      for (const each of all) each()
    })
  }
  registry[name].add(last)
}

module.exports = {
  CODE,
  open,
  close,
  allTargets,
  fetchNow,
  fetchBy,
  takeSlot,
  takeValue,
  freeSlot,
  fetchSoon,
  flushSoon,
  flushReadSoon,
  detail,
  begin,
  burst,
  end,
  nextTick,
  beat,
  hold,
  letGo,
  inUse,
  isHolding,
  observeRenewals,
}
