'use strict'

// A raw client of the Redis protocol, for what a test sets up and asserts: no pool, no retries,
// no opinion. One command is one request, and an error reply is a rejection with the server's words.

const net = require('node:net')

class ReplyError extends Error {
  constructor(message) {
    super(message)
    this.name = 'ReplyError'
    /** The first word of the reply: WRONGTYPE, NOAUTH … */
    this.code = message.split(' ', 1)[0]
  }
}

class RespClient {
  /** @param {{ port?: number, host?: string, path?: string }} address of a TCP port or a unix socket */
  constructor(address) {
    this.pending = []
    this.unread = Buffer.alloc(0)
    this.closed = null
    this.onMonitorLine = null
    this.socket = net.connect(address.path ? { path: address.path } : { host: '127.0.0.1', ...address })
    this.socket.setNoDelay(true)
    this.socket.on('data', (chunk) => this.receive(chunk))
    this.socket.on('error', (error) => this.fail(error))
    this.socket.on('close', () => this.fail(new Error('the connection was closed')))
  }

  /** Sends one command; numbers and strings are sent as they print. */
  command(...args) {
    if (this.closed) return Promise.reject(this.closed)
    return new Promise((resolve, reject) => {
      this.pending.push({ resolve, reject })
      this.socket.write(encode(args))
    })
  }

  /** Calls `onLine` with every command that the server executes from now on. */
  async monitor(onLine) {
    this.onMonitorLine = onLine
    await this.command('MONITOR')
  }

  close() {
    this.socket.destroy()
  }

  receive(chunk) {
    this.unread = this.unread.length === 0 ? chunk : Buffer.concat([this.unread, chunk])
    let at = 0
    for (;;) {
      const reply = decode(this.unread, at)
      if (!reply) break
      at = reply.end
      const waiter = this.pending.shift()
      if (!waiter) this.onMonitorLine?.(reply.value)
      else if (reply.value instanceof ReplyError) waiter.reject(reply.value)
      else waiter.resolve(reply.value)
    }
    this.unread = this.unread.subarray(at)
  }

  fail(error) {
    this.closed ??= error
    for (const waiter of this.pending.splice(0)) waiter.reject(this.closed)
  }
}

function encode(args) {
  const parts = [`*${args.length}\r\n`]
  for (const arg of args) {
    const text = String(arg)
    parts.push(`$${Buffer.byteLength(text)}\r\n${text}\r\n`)
  }
  return parts.join('')
}

// Reads one reply that begins at `at`, or returns undefined while it is not complete.
function decode(bytes, at) {
  const lineEnd = bytes.indexOf('\r\n', at)
  if (lineEnd < 0) return
  const line = bytes.toString('utf8', at + 1, lineEnd)
  const end = lineEnd + 2
  switch (bytes[at]) {
    case 0x2b: // +
      return { value: line, end }
    case 0x2d: // -
      return { value: new ReplyError(line), end }
    case 0x3a: // :
      return { value: Number(line), end }
    case 0x24: {
      // $
      const length = Number(line)
      if (length < 0) return { value: null, end }
      if (bytes.length < end + length + 2) return
      return { value: bytes.toString('utf8', end, end + length), end: end + length + 2 }
    }
    case 0x2a: {
      // *
      const length = Number(line)
      if (length < 0) return { value: null, end }
      const value = []
      let next = end
      for (let i = 0; i < length; i++) {
        const item = decode(bytes, next)
        if (!item) return
        value.push(item.value)
        next = item.end
      }
      return { value, end: next }
    }
    default:
      throw new Error(`not a reply: ${line}`)
  }
}

module.exports = { RespClient, ReplyError }
