// A client of Node.js with many live reads on one HTTP/2 connection: half of STREAMS are SSE,
// half long-polls that come again. ROUNDS messages are appended, each once everybody
// has the one before. It prints what everybody has got, as JSON.
import http2 from 'node:http2'
import { readFileSync } from 'node:fs'

const { DS_ORIGIN, DS_STREAM, DS_CA } = process.env
const streams = Number(process.env.STREAMS)
const rounds = Number(process.env.ROUNDS)

const session = http2.connect(DS_ORIGIN, DS_CA ? { ca: readFileSync(DS_CA) } : {})
session.on('error', fail)
session.on('goaway', (code) => fail(new Error(`GOAWAY ${code}`)))
const guard = setTimeout(() => fail(new Error('not done in time')), 100_000)

function fail(err) {
  console.error(err)
  process.exit(1)
}

// request sends one and calls each with every piece of the body; it gives the answer's head and text.
function request(method, path, body, each = () => {}) {
  return new Promise((resolve, reject) => {
    const req = session.request({ ':method': method, ':path': path, 'content-type': 'text/plain' }, { endStream: body === undefined })
    let head
    let text = ''
    req.setEncoding('utf8')
    req.on('response', (h) => (head = h))
    req.on('data', (piece) => each((text += piece)))
    req.on('error', reject)
    req.on('close', () => resolve({ status: head?.[':status'], head, text, code: req.rstCode }))
    if (body !== undefined) req.end(body)
  })
}

// A barrier that everybody passes once per message.
let waiting
function everybody() {
  return new Promise((resolve) => (waiting = { left: streams, resolve }))
}
function arrived() {
  if (--waiting.left === 0) waiting.resolve()
}

const got = Array.from({ length: streams }, () => [])
const statuses = {}
const count = (s) => (statuses[s] = (statuses[s] ?? 0) + 1)

async function sse(i) {
  let events = 0
  let done = 0
  let upToDate = false
  const res = await request('GET', `${DS_STREAM}?offset=now&live=sse`, undefined, (text) => {
    const blocks = text.split('\n\n')
    for (; events < blocks.length - 1; events++) {
      const lines = blocks[events].split('\n')
      if (lines.some((l) => l === 'event: data')) {
        got[i].push(lines.filter((l) => l.startsWith('data:')).map((l) => l.slice(5)).join('\n'))
      } else if (!upToDate) {
        upToDate = true
        arrived()
      }
    }
    for (; done < got[i].length; done++) arrived()
  })
  count(res.status)
}

async function longPoll(i, offset) {
  let first = true
  while (got[i].length < rounds) {
    const waits = request('GET', `${DS_STREAM}?offset=${offset}&live=long-poll`)
    if (first) arrived()
    first = false
    const res = await waits
    count(res.status)
    offset = res.head['stream-next-offset']
    if (res.status === 200) {
      got[i].push(res.text)
      arrived()
    }
  }
}

const created = await request('PUT', DS_STREAM, '')
if (created.status !== 201) fail(new Error(`PUT: ${created.status} ${created.text}`))
let all = everybody()
const readers = []
for (let i = 0; i < streams; i++) readers.push(i % 2 === 0 ? sse(i) : longPoll(i, created.head['stream-next-offset']))
await all
const sent = []
for (let n = 0; n < rounds; n++) {
  all = everybody()
  sent.push(`message ${n}`)
  const res = await request('POST', DS_STREAM, sent[n])
  if (res.status !== 204) fail(new Error(`POST: ${res.status} ${res.text}`))
  await all
}
// The end of the stream ends all of them.
const closed = await new Promise((resolve, reject) => {
  const req = session.request({ ':method': 'POST', ':path': DS_STREAM, 'stream-closed': 'true' }, { endStream: true })
  req.on('response', (h) => resolve(h[':status']))
  req.on('error', reject)
  req.resume()
})
await Promise.all(readers)
clearTimeout(guard)
const wrong = got.filter((g) => JSON.stringify(g) !== JSON.stringify(sent)).length
console.log(JSON.stringify({ wrong, closed, statuses, example: got.find((g) => JSON.stringify(g) !== JSON.stringify(sent)) }))
session.close()
