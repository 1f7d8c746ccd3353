import assert from 'node:assert/strict'
import { createRequire } from 'node:module'
import * as holdfast from 'holdfast'
import { createLocks, LockError, locks } from 'holdfast'
import { exercise, urls } from './exercise.js'

for (const url of urls) await exercise(holdfast, url)

// Both module systems see one package: an error thrown here is an instance of the class required there.
const required = createRequire(import.meta.url)('holdfast')
assert.equal(LockError, required.LockError)
assert.equal(createLocks, required.createLocks)
assert.equal(locks, required.locks)
assert.deepEqual(Object.keys(holdfast).sort(), Object.keys(required).sort())
