'use strict'

const { writeFileSync } = require('node:fs')
const { cpus, loadavg, totalmem } = require('node:os')
const { parseArgs } = require('node:util')
const libraries = require('./libraries/index.js')
const page = require('./page.js')
const { prove } = require('./proof.js')
const scenarios = require('./scenarios/index.js')
const server = require('./server.js')

const usual = scenarios.filter(({ byDefault }) => byDefault)

const USAGE = `node bench/run.js [scenario…] [--all] [--libs a,b] [--quick] [--seconds N] [--json FILE] [--markdown FILE]

  scenario         ${scenarios.map(({ name }) => name).join(', ')};
                   default: ${usual.map(({ name }) => name).join(' ')}
  --all            all of them
  --libs a,b       only these, and ${libraries.yardstick}, to which the ratios are;
                   there are: ${libraries.names.join(', ')}
  --quick          short windows, less to be trusted
  --seconds N      how long idle and held look at Holdfast; default: 60
  --json FILE      also write every window's raw figures to FILE
  --markdown FILE  also write a page of it to FILE, and pictures into a folder of that name beside it
`

main().then(
  (code) => {
    process.exitCode = code
  },
  (error) => {
    console.error(error)
    process.exitCode = 1
  },
)

async function main() {
  const wanted = read(process.argv.slice(2))
  if (!wanted) return 2
  // Ends the server, too: see its exit handler.
  for (const signal of ['SIGINT', 'SIGTERM']) process.once(signal, () => process.exit(1))

  const startedAt = performance.now()
  const started = await server.start()
  const problems = []
  try {
    const usable = await loadAll(wanted.libraries, started, problems)
    const facts = machine(started)
    console.log(head(facts, usable))

    const sections = []
    const context = {
      libraries: usable,
      server: started,
      quick: wanted.quick,
      seconds: wanted.seconds,
      progress,
    }
    for (const scenario of wanted.scenarios) {
      for (const section of await attempt(scenario, context, problems)) {
        sections.push(section)
        problems.push(...section.problems)
        console.log(`\n${section.title}\n\n${section.text}`)
      }
    }

    const seconds = Math.round((performance.now() - startedAt) / 1_000)
    console.log(`\n${seconds} s in all`)
    for (const problem of problems) console.log(`PROBLEM: ${problem}`)
    if (wanted.json) {
      const raw = rawFigures(facts, usable, sections, problems)
      writeFileSync(wanted.json, `${JSON.stringify(raw)}\n`)
    }
    if (wanted.markdown) {
      page.write(wanted.markdown, { command: commandOf(wanted), facts, usable, sections, problems })
    }
    return problems.length === 0 ? 0 : 1
  } finally {
    progress('')
    await started.stop()
  }
}

/** The sections of a scenario; none if it failed. What the others measured isn't lost by that. */
async function attempt(scenario, context, problems) {
  try {
    return await scenario.run(context)
  } catch (error) {
    problems.push(`${scenario.name} failed: ${error.message.split('\n', 1)[0]}`)
    return []
  } finally {
    progress('')
  }
}

/** What the command line asks for; nothing after having said what is wrong with it. */
function read(args) {
  try {
    const { values, positionals } = parseArgs({
      args,
      allowPositionals: true,
      options: {
        all: { type: 'boolean', default: false },
        libs: { type: 'string' },
        quick: { type: 'boolean', default: false },
        seconds: { type: 'string' },
        json: { type: 'string' },
        markdown: { type: 'string' },
        help: { type: 'boolean', short: 'h', default: false },
      },
    })
    if (values.help) {
      console.log(USAGE)
      process.exit(0)
    }
    for (const name of positionals) {
      if (!scenarios.some((scenario) => scenario.name === name)) throw new Error(`no scenario '${name}'`)
    }
    const asked = values.libs?.split(',') ?? libraries.names
    for (const name of asked) {
      if (!libraries.names.includes(name)) throw new Error(`no library '${name}'`)
    }
    const seconds = values.seconds === undefined ? undefined : Number(values.seconds)
    if (seconds !== undefined && !(seconds >= 1 && seconds <= 3_600)) {
      throw new Error('--seconds must be a number from 1 to 3600')
    }
    return {
      scenarios: scenarios.filter(({ name, byDefault }) =>
        positionals.length > 0 ? positionals.includes(name) : values.all || byDefault,
      ),
      all: values.all,
      libraries: libraries.names.filter((name) => name === libraries.yardstick || asked.includes(name)),
      quick: values.quick,
      seconds,
      json: values.json,
      markdown: values.markdown,
    }
  } catch (error) {
    console.error(`${error.message}\n\n${USAGE}`)
    return undefined
  }
}

/** Those that can be loaded and are seen to lock. What can't is left out, and said. */
async function loadAll(names, started, problems) {
  progress('proof: does every library lock?')
  const loaded = await Promise.all(
    names.map(async (name) => {
      try {
        const library = libraries.load(name)
        await prove(library, started)
        return library
      } catch (error) {
        if (name === libraries.yardstick) throw error
        problems.push(`${name} is not measured: ${error.message.split('\n', 1)[0]}`)
        return undefined
      }
    }),
  )
  progress('')
  return loaded.filter(Boolean)
}

function machine({ version }) {
  const processors = cpus()
  return {
    date: new Date().toISOString(),
    processor: processors[0]?.model.trim(),
    cores: processors.length,
    memory: totalmem(),
    platform: `${process.platform} ${process.arch}`,
    node: process.version,
    server: version,
    load: loadavg(),
  }
}

function head(facts, usable) {
  return [
    `${facts.date}  ${facts.cores} cores, ${facts.processor}, ${facts.platform}`,
    `Node.js ${facts.node}, ${facts.server} on loopback, load ${facts.load.map((n) => n.toFixed(2)).join(' ')}`,
    usable.map(({ name, version }) => `${name} (${version})`).join(', '),
    'pair = acquire + release, both confirmed by the server unless handed on within the process',
  ].join('\n')
}

function rawFigures(facts, usable, sections, problems) {
  return {
    machine: facts,
    versions: Object.fromEntries(usable.map(({ name, version }) => [name, version])),
    problems,
    scenarios: Object.fromEntries(sections.map(({ name, raw }) => [name, raw])),
  }
}

/** The command that this run answers to, as a page shows it. */
function commandOf({ all, scenarios, libraries: asked, quick, seconds, markdown }) {
  const words = [
    ...(all ? ['--all'] : scenarios.map(({ name }) => name)),
    ...(asked.length === libraries.names.length ? [] : ['--libs', asked.join(',')]),
    ...(quick ? ['--quick'] : []),
    ...(seconds === undefined ? [] : ['--seconds', seconds]),
    '--markdown',
    markdown,
  ]
  return `node bench/run.js ${words.join(' ')}`
}

/** One line on a terminal, overwritten by the next. */
function progress(text) {
  if (process.stderr.isTTY) process.stderr.write(`\r\x1b[K${text}`)
}
