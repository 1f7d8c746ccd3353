import type { Cache, LockManager } from './index.js'

/** What is measured, and where it goes. */
export interface MetricsOptions {
  /** Managers, by the name that the label `manager` is to have. */
  locks?: Record<string, Pick<LockManager, 'stats'>>
  /** Caches, by the name that the label `cache` is to have. */
  caches?: Record<string, Pick<Cache, 'stats'>>
  /** A `Registry` of prom-client. Default: its global one. */
  registry?: object
  /** Goes before every name. Default `'holdfast_'`. */
  prefix?: string
}

/**
 * Registers the figures of `stats()` as metrics of `prom-client`, which must be installed beside this package. They are read when
 * metrics are collected, and cost nothing in between. Names and what to alert on: docs/hot-keys.md.
 *
 * @returns takes the metrics out of the registry again
 * @throws {Error} `MODULE_NOT_FOUND`: there is no prom-client. What prom-client throws if a name is taken.
 */
export function register(options: MetricsOptions): () => void
