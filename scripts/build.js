// Builds the addon from source, as holdfast.<triple>.node in the root, where lib/bridge.js looks first.
//
//   node scripts/build.js [--debug]
//
// Cargo is asked every time: it alone knows what is stale, and an old binary under new JavaScript must
// not happen. As `prepare` (npm install, npm ci) it steps aside, with one line, where it has nothing to
// build with or for; a build that fails is an error everywhere.

const { spawn } = require('node:child_process')
const fs = require('node:fs')
const path = require('node:path')
const readline = require('node:readline')
const { triple } = require('../lib/platform.js')

const root = path.join(__dirname, '..')

/** What keeps `prepare` from building, or undefined. */
function obstacle() {
  if (!['Cargo.toml', 'src', 'addon'].every((name) => fs.existsSync(path.join(root, name)))) {
    return 'the Rust sources are not here'
  }
  if (process.env.npm_lifecycle_event !== 'prepare') return undefined
  try {
    require.resolve('jest/package.json', { paths: [root] })
  } catch {
    return 'dev dependencies are left out'
  }
  return undefined
}

function stepAside(reason) {
  console.error(`holdfast: the addon is not built: ${reason}`)
  if (process.env.npm_lifecycle_event !== 'prepare') process.exitCode = 1
}

/**
 * Runs cargo, whose progress and complaints go to standard error as they come.
 * Resolves with the path of the library, or undefined if there is no cargo.
 */
function cargo(args) {
  return new Promise((resolve, reject) => {
    const child = spawn('cargo', args, { cwd: root, stdio: ['ignore', 'pipe', 'inherit'] })
    let library
    // The messages tell where the library is, whatever target folder is configured.
    readline.createInterface({ input: child.stdout }).on('line', (line) => {
      if (!line.startsWith('{')) return
      const message = JSON.parse(line)
      if (message.reason !== 'compiler-artifact' || message.target.name !== 'holdfast_addon') return
      library = message.filenames.find((name) => /\.(so|dylib|dll)$/.test(name))
    })
    child.on('error', (error) => (error.code === 'ENOENT' ? resolve(undefined) : reject(error)))
    child.on('close', (code, signal) => {
      if (code === 0 && library) resolve(library)
      else reject(new Error(`cargo ${args[0]} failed (${signal ?? `exit code ${code}`})`))
    })
  })
}

/** Puts the library in place in one step: a running process may have the old one mapped. */
function install(library, target) {
  const temporary = path.join(root, `.${path.basename(target, '.node')}.${process.pid}.node`)
  try {
    fs.copyFileSync(library, temporary)
    fs.renameSync(temporary, target)
  } finally {
    fs.rmSync(temporary, { force: true })
  }
}

async function main() {
  const reason = obstacle()
  if (reason) return stepAside(reason)
  const debug = process.argv.includes('--debug')
  const args = ['build', ...(debug ? [] : ['--release']), '--locked', '-p', 'holdfast-addon']
  const library = await cargo([...args, '--message-format=json-render-diagnostics'])
  if (!library) return stepAside('cargo is not in PATH (install Rust, then run: npm run build)')
  const target = path.join(root, `holdfast.${triple()}.node`)
  install(library, target)
  const megabytes = (fs.statSync(target).size / 1e6).toFixed(1)
  console.error(`holdfast: built ${path.basename(target)} (${debug ? 'debug' : 'release'}, ${megabytes} MB)`)
}

main().catch((error) => {
  console.error(`holdfast: the addon is not built: ${error.message}`)
  process.exitCode = 1
})
