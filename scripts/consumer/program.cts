import { strict as assert } from 'node:assert'
import { createLocks, type Lock } from 'holdfast'

async function main(): Promise<void> {
  for (const url of ['memory:', process.env.CONSUMER_REDIS_URL as string]) {
    await using locks = createLocks({ url })
    let kept: Lock
    {
      await using lock = await locks.acquire('typed')
      assert.equal(lock.held, true)
      kept = lock
    }
    assert.equal(kept.held, false)
    const outcome = await locks.tryWithLock('typed', (lock) => lock.keys)
    assert.deepEqual(outcome.acquired && outcome.result, ['typed'])
  }
}

main()
