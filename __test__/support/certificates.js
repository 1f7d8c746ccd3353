'use strict'

// A small certificate authority: enough X.509 for a TLS server on 127.0.0.1 and for a client that shows a
// certificate, written here so that the tests need no openssl command and no keys lie in the repository.

const { generateKeyPairSync, randomBytes, sign } = require('node:crypto')

const DAY = 86_400_000
const TAG = {
  boolean: 1,
  integer: 2,
  bits: 3,
  octets: 4,
  oid: 6,
  utf8: 12,
  utcTime: 23,
  sequence: 0x30,
  set: 0x31,
}
const OID = {
  commonName: '2.5.4.3',
  ecdsaWithSha256: '1.2.840.10045.4.3.2',
  basicConstraints: '2.5.29.19',
  keyUsage: '2.5.29.15',
  subjectAltName: '2.5.29.17',
}
// KeyUsage is a bit string: its first byte counts the unused bits at the end.
const MAY_SIGN_CERTIFICATES = Buffer.from([2, 0x04])
const MAY_SIGN = Buffer.from([7, 0x80])

/** @returns {{ cert: string, issue: (name: string) => { cert: string, key: string } }} all PEM */
function createAuthority(name = 'test authority') {
  const keys = newKeys()
  const cert = certificate({
    subject: name,
    issuer: name,
    publicKey: keys.publicKey,
    signer: keys.privateKey,
    isCa: true,
  })
  return {
    cert,
    issue(subject) {
      const own = newKeys()
      return {
        cert: certificate({
          subject,
          issuer: name,
          publicKey: own.publicKey,
          signer: keys.privateKey,
          isCa: false,
        }),
        key: own.privateKey.export({ type: 'pkcs8', format: 'pem' }),
      }
    },
  }
}

const newKeys = () => generateKeyPairSync('ec', { namedCurve: 'P-256' })

function certificate({ subject, issuer, publicKey, signer, isCa }) {
  const algorithm = der(TAG.sequence, oid(OID.ecdsaWithSha256))
  const toBeSigned = der(
    TAG.sequence,
    der(0xa0, der(TAG.integer, Buffer.from([2]))), // version 3
    der(TAG.integer, Buffer.concat([Buffer.from([1]), randomBytes(8)])), // serial number
    algorithm,
    distinguishedName(issuer),
    der(TAG.sequence, time(Date.now() - DAY), time(Date.now() + DAY)),
    distinguishedName(subject),
    publicKey.export({ type: 'spki', format: 'der' }),
    der(0xa3, der(TAG.sequence, ...extensions(isCa))),
  )
  const signature = Buffer.concat([Buffer.from([0]), sign('sha256', toBeSigned, signer)])
  return pem(der(TAG.sequence, toBeSigned, algorithm, der(TAG.bits, signature)))
}

function extensions(isCa) {
  if (isCa) {
    return [
      extension(OID.basicConstraints, der(TAG.sequence, der(TAG.boolean, Buffer.from([0xff])))),
      extension(OID.keyUsage, der(TAG.bits, MAY_SIGN_CERTIFICATES)),
    ]
  }
  const dnsName = (text) => der(0x82, Buffer.from(text))
  const ipAddress = (...bytes) => der(0x87, Buffer.from(bytes))
  return [
    extension(OID.keyUsage, der(TAG.bits, MAY_SIGN)),
    extension(OID.subjectAltName, der(TAG.sequence, dnsName('localhost'), ipAddress(127, 0, 0, 1))),
  ]
}

const extension = (id, value) =>
  der(TAG.sequence, oid(id), der(TAG.boolean, Buffer.from([0xff])), der(TAG.octets, value))

const distinguishedName = (text) =>
  der(TAG.sequence, der(TAG.set, der(TAG.sequence, oid(OID.commonName), der(TAG.utf8, Buffer.from(text)))))

// UTCTime, YYMMDDhhmmssZ.
const time = (ms) =>
  der(TAG.utcTime, Buffer.from(`${new Date(ms).toISOString().replace(/[-:T]/g, '').slice(2, 14)}Z`))

function oid(text) {
  const [first, second, ...rest] = text.split('.').map(Number)
  const bytes = [first * 40 + second]
  for (const part of rest) {
    const groups = [part & 0x7f]
    for (let left = part >> 7; left > 0; left >>= 7) groups.unshift((left & 0x7f) | 0x80)
    bytes.push(...groups)
  }
  return der(TAG.oid, Buffer.from(bytes))
}

function der(tag, ...contents) {
  const content = Buffer.concat(contents)
  const length = content.length
  const head = length < 0x80 ? [length] : length < 0x100 ? [0x81, length] : [0x82, length >> 8, length & 0xff]
  return Buffer.concat([Buffer.from([tag, ...head]), content])
}

const pem = (bytes) =>
  `-----BEGIN CERTIFICATE-----\n${bytes
    .toString('base64')
    .match(/.{1,64}/g)
    .join('\n')}\n-----END CERTIFICATE-----\n`

module.exports = { createAuthority }
