// Caches: what a loader returns is what callers get.
import { type Cache, CacheLoadError, type CacheStats, createLocks } from 'holdfast'
import { register } from 'holdfast/prometheus'
import { type Same, sure } from './same.js'

interface User {
  id: number
  name: string
}

declare function find(id: number, options: { signal: AbortSignal }): Promise<User>

const locks = createLocks({ url: 'memory:' })
export const cache: Cache = locks.cache({ prefix: 'user:', ttl: 60_000, staleFor: 30_000, earlyRefresh: 0.2 })

export async function user(id: number) {
  const found = await cache.getOrSet(`${id}`, ({ signal }) => find(id, { signal }))
  sure<Same<typeof found, User>>()
  const orNull = await cache.getOrSet(
    `${id}`,
    async () => (id > 0 ? find(id, { signal: AbortSignal.timeout(1) }) : null),
    {
      negativeTtl: 1_000,
      waitTimeout: 100,
      onWaitTimeout: 'throw',
    },
  )
  sure<Same<typeof orNull, User | null>>()
  const counted = await cache.refresh('count', ({ previous }) => (previous === undefined ? 0 : 1), {
    fallback: () => 0,
  })
  sure<Same<typeof counted, number>>()
  const known = await cache.get<User>(`${id}`, { staleFor: 5 })
  sure<Same<typeof known, User | undefined>>()
  await cache.set(`${id}`, found, { ttl: 100 })
  const gone: boolean = (await cache.delete(`${id}`)) || (await cache.expire(`${id}`))
  const stats: CacheStats = cache.stats()
  cache.on(
    'loadFailed',
    (error) => error instanceof CacheLoadError && console.log(error.cause, error.key, gone, stats),
  )
}

export const bytes = locks.cache({ codec: 'buffer', ttl: Infinity })
export const dates = locks.cache({
  codec: { encode: (value: Date) => value.toISOString(), decode: (text) => new Date(text.toString()) },
})

// @ts-expect-error a codec has both ways
locks.cache({ codec: { encode: String } })
// @ts-expect-error not an option
locks.cache({ maxAge: 5 })
// @ts-expect-error a loader is needed
cache.getOrSet('key')
// @ts-expect-error caches are made by managers
;new (class extends Cache {})()

export const unregister: () => void = register({
  locks: { main: locks },
  caches: { users: cache },
  prefix: 'app_',
})
