'use strict'
// Installs the packed tarballs into an empty folder, as a user would, and uses them in each way that users do:
// require, import, TypeScript (oldest and newest supported), Jest, Jest in worker threads; and without the addon.
// The programs lie in scripts/consumer/. No registry is asked. The last line is `N passed, N failed`.

const { execFile } = require('node:child_process')
const fs = require('node:fs')
const os = require('node:os')
const path = require('node:path')
const { promisify } = require('node:util')
const { start } = require('../__test__/support/server.js')
const { pack, platformPackage } = require('./pack.js')

const execute = promisify(execFile)
const root = path.join(__dirname, '..')
const work = fs.mkdtempSync(path.join(os.tmpdir(), 'holdfast-consumer-'))
const windows = process.platform === 'win32'

/** The environment of a consumer, who has none of our settings. */
function environment(extra) {
  const own = /^(HOLDFAST_|REDIS_URL$|npm_|NODE_OPTIONS$|JEST_)/
  const kept = Object.entries(process.env).filter(([name]) => !own.test(name))
  return { ...Object.fromEntries(kept), ...extra }
}

async function run(command, args, cwd, extra = {}, timeout = 120_000) {
  const options = { cwd, env: environment(extra), timeout, shell: windows && command === 'npm' }
  try {
    return await execute(command, args, options)
  } catch (error) {
    throw new Error(
      `${command} ${args.join(' ')}: ${error.stdout ?? ''}${error.stderr ?? ''}${error.message}`,
    )
  }
}

const node = (args, cwd, extra) => run(process.execPath, args, cwd, extra)
const tool = (name) => require.resolve(name, { paths: [root] })

/** A new project with the given tarballs as dependencies, and the consumer's programs. */
async function install(name, tarballs) {
  const folder = path.join(work, name)
  fs.cpSync(path.join(__dirname, 'consumer'), folder, { recursive: true })
  fs.writeFileSync(path.join(folder, 'package.json'), '{ "private": true }\n')
  // Offline: the packages of the other platforms are optional, and nobody is asked for them.
  await run('npm', ['install', '--offline', '--no-audit', '--no-fund', ...tarballs], folder)
  return folder
}

/** Where the package lies in a project. */
const installed = (folder, name = 'holdfast') => path.join(folder, 'node_modules', ...name.split('/'))

function filesBelow(folder) {
  const entries = fs.readdirSync(folder, { recursive: true, withFileTypes: true })
  return entries.filter((entry) => entry.isFile()).map((entry) => path.join(entry.parentPath, entry.name))
}

/** The user's own @types/node, which the package's declarations build on. */
function addNodeTypes(folder) {
  for (const name of ['@types/node', 'undici-types']) {
    const source = path.dirname(tool(`${name}/package.json`))
    fs.cpSync(source, path.join(folder, 'node_modules', name), { recursive: true })
  }
}

async function compileAndRun(folder, compiler, module, extra) {
  const outDir = `compiled-${compiler}`
  const config = {
    compilerOptions: { target: 'es2022', lib: ['es2022'], module, outDir, strict: true, skipLibCheck: false },
    files: ['program.mts', 'program.cts'],
  }
  const project = path.join(folder, `tsconfig.${compiler}.json`)
  fs.writeFileSync(project, JSON.stringify(config))
  await node([path.join(root, 'node_modules', compiler, 'bin', 'tsc'), '-p', project], folder)
  for (const program of ['program.mjs', 'program.cjs'])
    await node([path.join(outDir, program)], folder, extra)
}

async function jest(folder, args, extra) {
  // A cache of its own: with timings of an earlier run Jest would do without workers.
  const cache = fs.mkdtempSync(path.join(work, 'jest-cache-'))
  const config = JSON.stringify({ rootDir: folder, cacheDirectory: cache, transform: {}, watchman: false })
  const fixed = [tool('jest/bin/jest'), '--ci', '--maxWorkers=2', `--config=${config}`]
  await node([...fixed, ...args], folder, extra)
}

let passed = 0
let failed = 0

/** Runs one case; the others go on if it fails. */
async function check(name, fn) {
  const started = Date.now()
  try {
    await fn()
    passed += 1
    console.log(`ok - ${name} (${Date.now() - started} ms)`)
  } catch (error) {
    failed += 1
    console.log(`not ok - ${name}\n${error.stack.replace(/^/gm, '    ')}`)
  }
}

async function main() {
  const server = await start()
  const redis = { CONSUMER_REDIS_URL: server.url }
  let made
  let folder
  let alone
  try {
    await check('the tarballs are made', () => {
      made = pack(path.join(work, 'tarballs'))
    })
    await check('both tarballs install, without a script or a further package', async () => {
      folder = await install('project', [made.root, made.platform])
      const list = JSON.parse((await run('npm', ['ls', '--all', '--json'], folder)).stdout)
      const names = Object.keys(list.dependencies).sort()
      if (names.join() !== [platformPackage, 'holdfast'].join()) throw new Error(`installed: ${names}`)
      const { scripts } = JSON.parse(fs.readFileSync(path.join(installed(folder), 'package.json'), 'utf8'))
      const automatic = ['preinstall', 'install', 'postinstall', 'prepare'].filter((name) => scripts?.[name])
      if (automatic.length > 0) throw new Error(`it has scripts that run by themselves: ${automatic}`)
    })
    await check('each tarball holds its part', () => {
      const binaries = (name) => filesBelow(installed(folder, name)).filter((file) => file.endsWith('.node'))
      if (binaries('holdfast').length !== 0) throw new Error('the root tarball holds a binary')
      if (binaries(platformPackage).length !== 1) throw new Error('the platform tarball holds no binary')
      const strangers = filesBelow(installed(folder)).filter((file) =>
        /(__test__|\.test\.|target\/)/.test(file),
      )
      if (strangers.length > 0) throw new Error(`not for users: ${strangers}`)
    })
    await check('require', () => node(['require.js'], folder, redis))
    await check('import, and the same classes as by require', () => node(['import.mjs'], folder, redis))
    await check('TypeScript 5.2, node16', async () => {
      addNodeTypes(folder)
      await compileAndRun(folder, 'typescript-5.2', 'node16', redis)
    })
    await check('TypeScript, newest, nodenext', () => compileAndRun(folder, 'typescript', 'nodenext', redis))
    await check('Jest', () => jest(folder, [], redis))
    await check('Jest in worker threads', () =>
      jest(folder, ['--workerThreads'], { ...redis, CONSUMER_WORKER_THREADS: '1' }),
    )
    await check('without the addon: ERR_NATIVE_BINDING at the first call, not before', async () => {
      alone = await install('alone', [made.root])
      await node(['without-addon.mjs'], alone, { CONSUMER_PLATFORM_PACKAGE: platformPackage })
    })
    await check('the root tarball builds the addon from its sources', async () => {
      // The dependencies that the repository has compiled are taken from there.
      const target = { CARGO_TARGET_DIR: process.env.CARGO_TARGET_DIR ?? path.join(root, 'target') }
      await run('npm', ['run', 'build'], installed(alone), target, 600_000)
      await node(['require.js'], alone, redis)
    })
  } finally {
    await server.stop()
    fs.rmSync(work, { recursive: true, force: true })
  }
  console.log(`${passed} passed, ${failed} failed`)
  if (failed > 0) process.exitCode = 1
}

main().catch((error) => {
  console.error(error)
  console.log(`${passed} passed, ${failed + 1} failed`)
  process.exitCode = 1
})
