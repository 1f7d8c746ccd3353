// Names the build of the addon that fits this process.

const fs = require('node:fs')

/** @type {'glibc' | 'musl' | undefined} */
let detected

/**
 * The C library of this process: `'glibc'` or `'musl'`; undefined where there is no choice (not on Linux).
 * Looked up at the first call, once.
 */
function libc() {
  if (process.platform !== 'linux') return undefined
  detected ??= mapped() ?? reported()
  return detected
}

/** What the kernel has mapped into this process: the surest source, and ten times cheaper than the report. */
function mapped() {
  let maps
  try {
    maps = fs.readFileSync('/proc/self/maps', 'latin1')
  } catch {
    return undefined // no /proc in this sandbox
  }
  if (/\/ld-musl-[^/\n]*$/m.test(maps)) return 'musl'
  if (/\/(ld-linux|libc\.so|libc-)[^/\n]*$/m.test(maps)) return 'glibc'
  return undefined
}

/** What Node.js says of itself. Musl has no version to report, so its absence is the sign. */
function reported() {
  const report =
    /** @type {{ excludeNetwork?: boolean, getReport(): object } | undefined} */
    (process.report)
  if (!report) return 'glibc'
  const { excludeNetwork } = report
  report.excludeNetwork = true // else it resolves the names of all peers, which can take seconds
  try {
    const { header } = /** @type {{ header: { glibcVersionRuntime?: string } }} */ (report.getReport())
    return header.glibcVersionRuntime ? 'glibc' : 'musl'
  } finally {
    report.excludeNetwork = excludeNetwork
  }
}

/**
 * The name of the build for this process, as in `holdfast.<triple>.node` and in the package `@holdfast/<triple>`:
 * `linux-x64-gnu`, `linux-arm64-musl`, `darwin-arm64`, `win32-x64-msvc` …
 */
function triple() {
  const { platform, arch } = process
  if (platform === 'linux') return `linux-${arch}-${libc() === 'musl' ? 'musl' : 'gnu'}`
  if (platform === 'win32') return `win32-${arch}-msvc`
  return `${platform}-${arch}`
}

module.exports = { libc, triple }
