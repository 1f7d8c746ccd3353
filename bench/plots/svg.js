'use strict'

/** An element as text. Numbers are cut to what the eye can see; what is undefined is left out. */
function element(name, attributes, ...children) {
  const given = Object.entries(attributes)
    .filter(([, value]) => value !== undefined)
    .map(
      ([attribute, value]) => ` ${attribute}="${escaped(typeof value === 'number' ? short(value) : value)}"`,
    )
    .join('')
  const content = children.flat(Infinity).join('\n')
  return content === '' ? `<${name}${given}/>` : `<${name}${given}>${content}</${name}>`
}

function text(content, attributes) {
  return element('text', attributes, escaped(content))
}

function short(value) {
  return String(Math.round(value * 10) / 10)
}

function escaped(content) {
  return String(content)
    .replaceAll('&', '&amp;')
    .replaceAll('<', '&lt;')
    .replaceAll('>', '&gt;')
    .replaceAll('"', '&quot;')
}

module.exports = { element, text, short }
