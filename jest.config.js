'use strict'

/** @type {import('jest').Config} */
module.exports = {
  // Only the tests' own folder is crawled: target/ holds tens of thousands of files.
  roots: ['<rootDir>/__test__'],
  testMatch: ['**/*.test.js'],
  testEnvironment: 'node',
  testTimeout: 30_000,
  // Nothing is compiled: the tests run the files that users get.
  transform: {},
  watchman: false,
}
