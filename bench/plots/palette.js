'use strict'

const { names } = require('../libraries/index.js')

/** For light and for dark pages, and a pattern of dashes for those who can't tell the colours apart. */
const OWN = { light: '#0969da', dark: '#58a6ff', dash: undefined, width: 3 }
const OTHERS = [
  { light: '#59636e', dark: '#9198a1', dash: '7 3' },
  { light: '#cf222e', dark: '#ff7b72', dash: '2 3' },
  { light: '#9a6700', dark: '#d29922', dash: '10 3 2 3' },
  { light: '#8250df', dark: '#bc8cff', dash: '5 2' },
  { light: '#1a7f37', dark: '#3fb950', dash: '12 4' },
  { light: '#bf3989', dark: '#f778ba', dash: '4 2 1 2' },
].map((colours) => ({ ...colours, width: 2 }))

const peers = names.filter((name) => name !== 'holdfast')

/** How a library is drawn, everywhere the same. Anything else, such as a PING, is drawn like text. */
function lookOf(name) {
  if (name === 'holdfast') return { ...OWN, class: 'holdfast' }
  const position = peers.indexOf(name)
  if (position === -1) return { class: 'text', dash: '1 3', width: 2 }
  return { ...OTHERS[position % OTHERS.length], class: `peer${position}` }
}

/** The pages' own colours. The card is opaque: it stays readable if a page isn't as dark as the system says. */
const PAGE = {
  light: { card: '#ffffff', border: '#d1d9e0', text: '#1f2328', muted: '#59636e', grid: '#d1d9e0' },
  dark: { card: '#0d1117', border: '#3d444d', text: '#f0f6fc', muted: '#9198a1', grid: '#3d444d' },
}

function style() {
  return `<style>
text { font: 12px system-ui, -apple-system, "Segoe UI", Helvetica, Arial, sans-serif; fill: currentColor }
.title { font-size: 16px; font-weight: 600 }
.strong { font-weight: 600 }
${rules('light')}
@media (prefers-color-scheme: dark) {
${rules('dark')}
}
</style>`
}

function rules(theme) {
  const { card, border, text, muted, grid } = PAGE[theme]
  const libraries = names.map((name) => `.${lookOf(name).class} { color: ${lookOf(name)[theme]} }`)
  return [
    `.card { fill: ${card}; stroke: ${border} }`,
    `.text { color: ${text} }`,
    `.muted { color: ${muted} }`,
    `.grid { color: ${grid} }`,
    ...libraries,
  ].join('\n')
}

module.exports = { lookOf, style }
