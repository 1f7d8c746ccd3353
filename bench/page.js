'use strict'

const { mkdirSync, readdirSync, rmSync, writeFileSync } = require('node:fs')
const { basename, dirname, extname, join } = require('node:path')

const INTRODUCTION = `Made by one command, everything in one run, on one machine. What the scenarios and the figures mean, and how time is shared between the libraries, stands in [bench/README.md](../bench/README.md). Absolute figures are this machine's; compare those of one table.`

/** Writes a page of all sections to `file`, and its pictures into a folder of the same name beside it. */
function write(file, { command, facts, usable, sections, problems }) {
  const folder = basename(file, extname(file))
  const pictures = join(dirname(file), folder)
  const plots = sections.flatMap((section) => section.plots ?? [])
  if (plots.length > 0) draw(plots, pictures)

  const parts = sections.map(({ title, markdown, plots = [] }) =>
    [
      `## ${title[0].toUpperCase()}${title.slice(1)}`,
      markdown,
      ...plots.map(({ file, title }) => `![${title}](${folder}/${file})`),
    ].join('\n\n'),
  )
  const notes = problems.map((problem) => `- ${problem}`).join('\n')
  writeFileSync(
    file,
    `${[
      '# Benchmarks',
      INTRODUCTION,
      conditions(command, facts, usable),
      ...(notes ? ['What went wrong:', notes] : []),
      ...parts,
    ].join('\n\n')}\n`,
  )
}

function draw(plots, folder) {
  mkdirSync(folder, { recursive: true })
  // None may stay behind from a run that drew others.
  for (const file of readdirSync(folder)) {
    if (extname(file) === '.svg') rmSync(join(folder, file))
  }
  for (const { file, svg } of plots) writeFileSync(join(folder, file), svg)
}

function conditions(command, facts, usable) {
  const versions = usable.map(({ name, version }) => `${name} (${version})`).join(', ')
  const memory = `${Math.round(facts.memory / 2 ** 30)} GB`
  return [
    `- command: \`${command}\``,
    `- date: ${facts.date.slice(0, 10)}`,
    `- machine: ${facts.cores} cores (${facts.processor}), ${memory}, ${facts.platform}; Node.js ${facts.node}, ${facts.server} on loopback`,
    `- libraries: ${versions}`,
  ].join('\n')
}

module.exports = { write }
