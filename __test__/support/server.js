'use strict'

// A real server of its own for a test: on a free port, in a temp folder, and always stopped by its process id,
// whether the test passes, fails or its process is killed.

const { spawn } = require('node:child_process')
const { once } = require('node:events')
const fs = require('node:fs')
const net = require('node:net')
const os = require('node:os')
const path = require('node:path')
const { createAuthority } = require('./certificates')
const { RespClient } = require('./resp')
const { find } = require('./server-binary')
const { startTlsFront } = require('./tls-front')

const running = new Set()
// In a test file everything that it started ends with it.
if (typeof afterAll === 'function') afterAll(() => Promise.all([...running].map((server) => server.stop())))

/**
 * @typedef {object} ServerOptions
 * @property {string} [password] of the default user
 * @property {{ name: string, rules: string[] }[]} [users] further ACL users: `{ name: 'app', rules: ['on', '>secret', '~*', '+@all'] }`
 * @property {boolean | { requestCert: boolean }} [tls] also listen for TLS, with a certificate for localhost and 127.0.0.1
 * @property {boolean} [unixSocket] also listen on a unix socket
 * @property {number} [databases]
 * @property {string[]} [args] further arguments of the server
 */

/** @param {ServerOptions} [options] */
async function start(options = {}) {
  const server = new Server(options, await find())
  running.add(server)
  try {
    await server.launchOnFreePort()
  } catch (error) {
    await server.stop()
    throw error
  }
  return server
}

class Server {
  constructor(options, binary) {
    this.options = options
    this.binary = binary
    this.folder = fs.mkdtempSync(path.join(os.tmpdir(), 'holdfast-test-'))
    this.host = '127.0.0.1'
    this.child = null
    this.client = null
    this.front = null
    if (options.unixSocket) this.socketPath = path.join(this.folder, 'server.sock')
    // Until it turns out that it was built without.
    this.speaksTls = Boolean(options.tls)
    if (options.tls) this.prepareTls()
  }

  get pid() {
    return this.child.pid
  }

  get url() {
    const credentials = this.options.password ? `:${encodeURIComponent(this.options.password)}@` : ''
    return `redis://${credentials}${this.host}:${this.port}`
  }

  /** The same place by another name. */
  get otherUrl() {
    return this.url.replace(this.host, 'localhost')
  }

  get tlsUrl() {
    return `rediss://localhost:${this.tlsPort}`
  }

  get unixUrl() {
    return `unix://${this.socketPath}`
  }

  /** Sends one command over a raw connection of this object's own, and returns the reply. */
  command(...args) {
    if (!this.client || this.client.closed) this.client = this.connect()
    return this.client.command(...args)
  }

  /** A further raw connection, logged in; the caller closes it. */
  connect() {
    const client = new RespClient({ port: this.port })
    const { password } = this.options
    if (password) client.command('AUTH', password).catch(() => {})
    return client
  }

  /** Stops the whole process (SIGSTOP): sockets stay open, and nobody answers. */
  pause() {
    process.kill(this.pid, 'SIGSTOP')
  }

  resume() {
    process.kill(this.pid, 'SIGCONT')
  }

  /** SIGKILL: nothing is saved, and every connection is reset. Resolves when the process has ended. */
  async kill() {
    this.client?.close()
    if (this.child.exitCode !== null || this.child.signalCode !== null) return
    const ended = once(this.child, 'exit')
    this.child.kill('SIGKILL')
    await ended
  }

  /** A new, empty server on the same port. */
  async restart() {
    await this.kill()
    this.endWatcher()
    await this.launch()
  }

  async stop() {
    if (!running.delete(this)) return
    if (this.child) await this.kill()
    await this.front?.stop()
    this.endWatcher()
    fs.rmSync(this.folder, { recursive: true, force: true })
  }

  async launchOnFreePort() {
    const attempts = 10
    for (let attempt = 1; ; attempt++) {
      this.port = await freePort()
      if (this.speaksTls) this.tlsPort = await freePort()
      try {
        await this.launch()
        if (this.options.tls && !this.speaksTls) await this.startFront()
        return
      } catch (error) {
        // Between our look and the server's bind somebody else may have taken the port.
        const portTaken = /address already in use|failed listening/i.test(error.message)
        const builtWithoutTls = this.speaksTls && !portTaken && /tls/i.test(error.message)
        if (builtWithoutTls) this.speaksTls = false
        else if (!portTaken || attempt === attempts) throw error
      }
    }
  }

  async launch() {
    const child = spawn(this.binary, this.arguments(), {
      cwd: this.folder,
      stdio: ['ignore', 'pipe', 'pipe'],
    })
    this.child = child
    this.watch(child.pid)
    let log = ''
    await new Promise((resolve, reject) => {
      child.once('error', reject)
      child.once('exit', () => reject(new Error(`${this.binary} ended while starting:\n${log}`)))
      for (const stream of [child.stdout, child.stderr]) {
        stream.setEncoding('utf8').on('data', (text) => {
          // Only the start is of interest; the streams are read to the end all the same, so that the server never blocks on its log.
          if (log.length < 20_000) log += text
          if (/ready to accept connections/i.test(log)) resolve()
        })
      }
    })
  }

  arguments() {
    const { password, users = [], tls, databases = 16, args = [] } = this.options
    const list = [
      '--port',
      this.port,
      '--bind',
      this.host,
      '--save',
      '',
      '--appendonly',
      'no',
      '--databases',
      databases,
    ]
    if (password) list.push('--requirepass', password)
    if (this.socketPath) list.push('--unixsocket', this.socketPath, '--unixsocketperm', '700')
    if (this.speaksTls) {
      list.push('--tls-port', this.tlsPort, '--tls-auth-clients', tls.requestCert ? 'yes' : 'no')
      for (const [option, file] of Object.entries(this.tlsFiles)) list.push(option, file)
    }
    for (const { name, rules } of users) list.push('--user', name, ...rules)
    return [...list, ...args].map(String)
  }

  prepareTls() {
    this.authority = createAuthority()
    this.ca = this.authority.cert
    this.certificate = this.authority.issue('server')
    const file = (name, content) => {
      const full = path.join(this.folder, name)
      fs.writeFileSync(full, content)
      return full
    }
    this.tlsFiles = {
      '--tls-ca-cert-file': file('ca.pem', this.ca),
      '--tls-cert-file': file('cert.pem', this.certificate.cert),
      '--tls-key-file': file('key.pem', this.certificate.key),
    }
  }

  async startFront() {
    const requestCert = Boolean(this.options.tls.requestCert)
    this.front = await startTlsFront({ ...this.certificate, ca: this.ca, requestCert, target: this.port })
    this.tlsPort = this.front.port
  }

  // Ends the server and removes its folder if this process goes without doing so: the watcher reads from
  // a pipe that nobody writes to, and sees its end when this process is gone, however it went.
  watch(pid) {
    const script = 'read -r _; kill -9 "$1" 2>/dev/null; rm -rf "$2"'
    this.watcher = spawn('sh', ['-c', script, 'sh', String(pid), this.folder], {
      stdio: ['pipe', 'ignore', 'ignore'],
      detached: true,
    })
    this.watcher.unref()
    this.watcher.stdin.unref()
  }

  endWatcher() {
    this.watcher?.kill('SIGKILL')
    this.watcher = null
  }
}

/** A TCP port of 127.0.0.1 that nobody listens on at this moment. */
async function freePort() {
  const probe = net.createServer()
  await new Promise((resolve, reject) => probe.once('error', reject).listen(0, '127.0.0.1', resolve))
  const { port } = probe.address()
  await new Promise((resolve) => probe.close(resolve))
  return port
}

module.exports = { start, freePort }
