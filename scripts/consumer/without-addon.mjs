// The package without the one for the platform: importing works, the first call tells what is missing.
import assert from 'node:assert/strict'
import { createLocks, isLockError, LockBindingError } from 'holdfast'

const manager = createLocks({ url: 'memory:' })
await assert.rejects(
  manager.withLock('key', async () => {}),
  (error) => {
    assert.ok(error instanceof LockBindingError)
    assert.ok(isLockError(error, 'ERR_NATIVE_BINDING'))
    assert.equal(error.code, 'ERR_NATIVE_BINDING')
    assert.equal(error.platform, process.platform)
    assert.equal(error.arch, process.arch)
    // The reader learns which package is missing.
    assert.ok(error.message.includes(process.env.CONSUMER_PLATFORM_PACKAGE), error.message)
    return true
  },
)
await manager.close()
