// A working day of the published TypeScript client against the server named by
// DS_STREAMS, the URL below which streams live.
//
// DS_STREAMS  e.g. http://127.0.0.1:8642/durable-streams/v1/stream
// DS_CONTROL  POST <DS_CONTROL>/restart kills the server with SIGKILL, starts it
//             again on the same data and port, and answers when it listens;
//             absent where the server keeps nothing
import {
  DurableStream,
  DurableStreamError,
  FetchError,
  IdempotentProducer,
  SequenceGapError,
  StaleEpochError,
  stream,
} from "@durable-streams/client"
import { describe, expect, test } from "vitest"

const streams = process.env.DS_STREAMS
if (!streams) throw new Error("DS_STREAMS is not set; run: go test ./conformance")
const control = process.env.DS_CONTROL
const streamPath = new URL(streams).pathname

let counter = 0
const run = Date.now().toString(36)
const fresh = (name: string) => `${run}-${counter++}-${name}`
const url = (name: string) => `${streams}/${name}`

/** Resolves when the condition holds; fails with its name otherwise. */
async function eventually(what: string, cond: () => boolean, ms = 15_000) {
  const end = Date.now() + ms
  while (!cond()) {
    if (Date.now() > end) throw new Error(`timed out waiting for ${what}`)
    await new Promise((r) => setTimeout(r, 10))
  }
}

/** The error that a promise ends with; fails if it ends well. */
async function failure(p: Promise<unknown>): Promise<Error & { status?: number; code?: string }> {
  try {
    await p
  } catch (e) {
    return e as Error
  }
  throw new Error("expected a failure")
}

/** fetch that holds on through a restart: only broken connections and 5xx are tried again. */
async function patientFetch(...args: Parameters<typeof fetch>): Promise<Response> {
  for (let tries = 0; ; tries++) {
    try {
      const res = await fetch(...args)
      if (res.status < 500 || tries > 400) return res
    } catch (e) {
      if (tries > 400) throw e
    }
    await new Promise((r) => setTimeout(r, 25))
  }
}

describe("TypeScript client", () => {
  test("create, append, read, head, delete", async () => {
    const u = url(fresh("text"))
    const s = await DurableStream.create({ url: u, contentType: "text/plain" })
    await s.append("hello ")
    await s.append("world")
    expect(await (await s.stream({ live: false })).text()).toBe("hello world")

    const head = await DurableStream.head({ url: u })
    expect(head).toMatchObject({ exists: true, contentType: "text/plain", streamClosed: false })
    const rest = await stream({ url: u, offset: head.offset, live: false })
    expect(await rest.text()).toBe("")
    expect(rest.offset).toBe(head.offset)

    await s.delete()
    expect((await DurableStream.head({ url: u })).exists).toBe(false)
  })

  test("JSON: batches arrive as single messages, in order", async () => {
    const u = url(fresh("json"))
    const s = await DurableStream.create({ url: u, contentType: "application/json" })
    await Promise.all(Array.from({ length: 50 }, (_, i) => s.append(JSON.stringify({ i, list: [i] }))))
    const items = await (await stream<{ i: number }>({ url: u, live: false })).json()
    expect(items.map((x) => x.i)).toEqual(Array.from({ length: 50 }, (_, i) => i))
  })

  test("bytes survive a round trip, over SSE too", async () => {
    const u = url(fresh("bytes"))
    const all = Uint8Array.from({ length: 256 }, (_, i) => i)
    const s = await DurableStream.create({ url: u, contentType: "application/octet-stream" })
    await s.append(all)
    expect(await (await stream({ url: u, live: false })).body()).toEqual(all)

    const got: number[] = []
    const live = await stream({ url: u, live: "sse" })
    const stop = live.subscribeBytes((c) => void got.push(...c.data))
    await eventually("the first bytes", () => got.length === 256)
    await s.append(all)
    await eventually("the second bytes", () => got.length === 512)
    stop()
    expect(got).toEqual([...all, ...all])
  })

  test("appendStream sends one streaming body", async () => {
    const u = url(fresh("pipe"))
    const s = await DurableStream.create({ url: u, contentType: "text/plain" })
    async function* tokens() {
      for (const t of ["one ", "two ", "three"]) yield t
    }
    await s.appendStream(tokens())
    expect(await (await stream({ url: u, live: false })).text()).toBe("one two three")
  })

  for (const live of ["sse", "long-poll"] as const) {
    test(`${live}: catch-up, then appends as they come, then close as the end`, async () => {
      const u = url(fresh(live))
      const s = await DurableStream.create({ url: u, contentType: "text/plain", body: "old " })
      let text = ""
      let closed = false
      const reader = await stream({ url: u, live })
      reader.subscribeText((c) => {
        text += c.text
        closed ||= c.streamClosed
      })
      await eventually("the history", () => text === "old ")
      await s.append("new ")
      await eventually("the append", () => text === "old new ")
      await s.close({ body: "last" })
      await eventually("the end", () => closed)
      await reader.closed
      expect(text).toBe("old new last")
      expect(reader.streamClosed).toBe(true)
    })

    test(`${live}: from "now" only what comes after`, async () => {
      const u = url(fresh(`now-${live}`))
      const s = await DurableStream.create({ url: u, contentType: "application/json", body: '[{"n":0}]' })
      const got: number[] = []
      const reader = await stream<{ n: number }>({ url: u, live, offset: "now" })
      const stop = reader.subscribeJson<{ n: number }>((b) => void got.push(...b.items.map((x) => x.n)))
      for (let n = 1; n <= 5; n++) await s.append(JSON.stringify({ n }))
      await eventually("five messages", () => got.length >= 5)
      stop()
      expect(got).toEqual([1, 2, 3, 4, 5])
    })
  }

  test("a closed stream is read to its end without waiting", async () => {
    const u = url(fresh("closed"))
    const s = await DurableStream.create({ url: u, contentType: "text/plain" })
    await s.append("all")
    const { finalOffset } = await s.close()
    expect((await s.close()).finalOffset).toBe(finalOffset)
    const res = await stream({ url: u, live: true })
    expect(await res.text()).toBe("all")
    await eventually("the end", () => res.streamClosed)
    expect((await s.head()).streamClosed).toBe(true)
  })

  test("fork by headers: shared history, separate futures", async () => {
    const source = fresh("source")
    const fork = fresh("fork")
    const s = await DurableStream.create({ url: url(source), contentType: "text/plain" })
    await s.append("shared ")
    const f = await DurableStream.create({
      url: url(fork),
      contentType: "text/plain",
      headers: { "Stream-Forked-From": `${streamPath}/${source}` },
    })
    await s.append("source")
    await f.append("fork")
    const text = async (u: string) => (await stream({ url: u, live: false })).text()
    expect(await text(url(source))).toBe("shared source")
    expect(await text(url(fork))).toBe("shared fork")

    const first = fresh("first")
    const start = await stream({ url: url(source), live: false })
    await start.text()
    await DurableStream.create({
      url: url(first),
      contentType: "text/plain",
      headers: {
        "Stream-Forked-From": `${streamPath}/${source}`,
        "Stream-Fork-Offset": "0000000000000000_0000000000000000",
        "Stream-Fork-Sub-Offset": "3",
      },
    })
    expect(await text(url(first))).toBe("sha")
  })

  test("error classes", async () => {
    const missing = await failure(stream({ url: url(fresh("missing")), live: false }))
    expect(missing).toBeInstanceOf(FetchError)
    expect(missing.status).toBe(404)
    expect((missing as FetchError).json).toMatchObject({ error: { code: expect.any(String), message: expect.any(String) } })

    const u = url(fresh("errors"))
    const s = await DurableStream.create({ url: u, contentType: "text/plain", body: "x" })
    const exists = await failure(DurableStream.create({ url: u, contentType: "application/json" }))
    expect(exists.status).toBe(409)
    expect((await failure(stream({ url: u, live: false, offset: "no such offset" }))).status).toBe(400)
    await s.append("a", { seq: "b" })
    expect((await failure(s.append("b", { seq: "a" }))).status).toBe(409)

    await s.close()
    const closed = await failure(s.append("late"))
    expect(closed.status).toBe(409)
    expect(closed instanceof DurableStreamError || closed instanceof FetchError).toBe(true)
  })

  test("producer: a batch sent twice counts once, a stale epoch is fenced, auto-claim takes over", async () => {
    const u = url(fresh("fence"))
    const s = await DurableStream.create({ url: u, contentType: "text/plain" })
    const newer = new IdempotentProducer(s, "p", { epoch: 3 })
    newer.append("new;")
    await newer.flush()

    let fenced: Error | undefined
    const older = new IdempotentProducer(s, "p", { epoch: 1, onError: (e) => void (fenced = e) })
    older.append("old;")
    await older.flush().catch(() => undefined)
    expect(fenced).toBeInstanceOf(StaleEpochError)
    expect((fenced as StaleEpochError).currentEpoch).toBe(3)

    const claimer = new IdempotentProducer(s, "p", { epoch: 0, autoClaim: true })
    claimer.append("claimed;")
    await claimer.flush()

    let echo = 0
    const twice: typeof fetch = async (...args) => {
      if (args[1]?.method === "POST") {
        echo++
        await fetch(...args)
      }
      return fetch(...args)
    }
    const doubling = new IdempotentProducer(s, "q", { fetch: twice, lingerMs: 0 })
    for (let i = 0; i < 10; i++) {
      doubling.append(`${i};`)
      await doubling.flush()
    }
    expect(echo).toBe(10)
    const closing = await doubling.close("end")
    expect(await (await stream({ url: u, live: false })).text()).toBe("new;claimed;0;1;2;3;4;5;6;7;8;9;end")
    expect((await s.head()).offset).toBe(closing.finalOffset)
  })

  test("producer on a stream that somebody closed ends with an error, it does not spin", async () => {
    const u = url(fresh("closed-under"))
    const s = await DurableStream.create({ url: u, contentType: "text/plain" })
    let posts = 0
    let failed: Error | undefined
    const counting: typeof fetch = (...args) => {
      if (++posts > 20) throw new Error("the client spins")
      return fetch(...args)
    }
    const p = new IdempotentProducer(s, "p", { fetch: counting, lingerMs: 0, onError: (e) => void (failed ??= e) })
    p.append("a")
    await p.flush()
    await s.close()
    p.append("b")
    await p.flush().catch(() => undefined)
    expect(failed).toBeInstanceOf(SequenceGapError)
    expect(posts).toBeLessThan(10)
    expect(await (await stream({ url: u, live: false })).text()).toBe("a")
  })

  test.runIf(control)(
    "producer over kill -9: nothing lost, nothing doubled, readers follow",
    async () => {
      const u = url(fresh("restart"))
      const s = await DurableStream.create({ url: u, contentType: "application/json" })
      const errors: Error[] = []
      const producer = new IdempotentProducer(s, "writer", {
        fetch: patientFetch,
        lingerMs: 1,
        maxBatchBytes: 400,
        maxInFlight: 5,
        onError: (e) => void errors.push(e),
      })
      const seen: number[] = []
      const reader = await stream<{ n: number }>({ url: u, live: "long-poll", fetch: patientFetch })
      reader.subscribeJson<{ n: number }>((b) => void seen.push(...b.items.map((x) => x.n)))

      const total = 3000
      const restarts = (async () => {
        for (let i = 0; i < 4; i++) {
          await eventually("progress", () => seen.length > (i * total) / 6, 60_000)
          const res = await fetch(`${control}/restart`, { method: "POST" })
          expect(res.status, await res.text()).toBe(200)
        }
      })()
      for (let n = 0; n < total; n++) {
        producer.append(JSON.stringify({ n, pad: "x".repeat(40) }))
        if (n % 20 === 0) await new Promise((r) => setTimeout(r, 5))
      }
      await restarts
      await producer.flush()
      const { finalOffset } = await producer.close(JSON.stringify({ n: total }))
      expect(errors).toEqual([])

      const want = Array.from({ length: total + 1 }, (_, n) => n)
      const items = await (await stream<{ n: number }>({ url: u, live: false })).json()
      expect(items.map((x) => x.n)).toEqual(want)
      await eventually("the reader's end", () => reader.streamClosed)
      expect(seen).toEqual(want)
      expect(await s.head()).toMatchObject({ offset: finalOffset, streamClosed: true })
    },
    120_000
  )
})
