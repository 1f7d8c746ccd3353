'use strict'

const fs = require('node:fs')
const os = require('node:os')
const path = require('node:path')

// What the workers share: a number in a file, which threads and processes can both get at. It has no lock of its own,
// and adding to it takes two steps, as with a row that is read, changed and written back.

/** @param {string} file */
function openCounter(file) {
  const descriptor = fs.openSync(file, 'r+')
  const bytes = Buffer.alloc(4)
  return {
    path: file,
    read() {
      fs.readSync(descriptor, bytes, 0, 4, 0)
      return bytes.readUInt32LE()
    },
    write(value) {
      bytes.writeUInt32LE(value)
      fs.writeSync(descriptor, bytes, 0, 4, 0)
    },
  }
}

function createCounter() {
  const folder = fs.mkdtempSync(path.join(os.tmpdir(), 'holdfast-demo-'))
  const file = path.join(folder, 'counter')
  fs.writeFileSync(file, Buffer.alloc(4))
  return {
    ...openCounter(file),
    remove() {
      fs.rmSync(folder, { recursive: true, force: true })
    },
  }
}

module.exports = { createCounter, openCounter }
