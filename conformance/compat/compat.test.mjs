// Packages that build on the protocol, as their users use them. The Go test one folder up
// starts the servers: STREAMS is the URL of the streams of one with the usual base path,
// BASELESS the address of one with none.
import assert from "node:assert/strict";
import { createServer } from "node:http";
import { test } from "node:test";

import { createDurableChatTransport, toDurableStreamResponse } from "@durable-streams/aisdk-transport";
import { DurableStream } from "@durable-streams/client";
import { createStateSchema } from "@durable-streams/state";
import { createStreamDB } from "@durable-streams/state/db";
import { durableStreamConnection, materializeSnapshotFromDurableStream, toDurableChatSessionResponse } from "@durable-streams/tanstack-ai-transport";
import { YjsProvider } from "@durable-streams/y-durable-streams";
import { YjsServer } from "@durable-streams/y-durable-streams/server";
import { Awareness } from "y-protocols/awareness";
import * as Y from "yjs";

const { STREAMS, BASELESS } = process.env;
const limit = { timeout: 30_000 };
const json = "application/json";

// until waits for a condition that events bring about.
async function until(condition, what) {
  for (let i = 0; i < 1000; i++) {
    if (condition()) return;
    await new Promise((resolve) => setTimeout(resolve, 10));
  }
  assert.fail(`${what}: not within 10 s`);
}

// application is a small server with routes: method and path to what gives a Response.
async function application(routes) {
  const server = createServer(async (request, response) => {
    const parts = [];
    for await (const part of request) parts.push(part);
    const route = routes[`${request.method} ${request.url}`];
    const answer = route ? await route(parts.length ? JSON.parse(Buffer.concat(parts)) : undefined) : new Response(null, { status: 404 });
    response.writeHead(answer.status, Object.fromEntries(answer.headers));
    response.end(await answer.text());
  });
  await new Promise((resolve) => server.listen(0, "127.0.0.1", resolve));
  return { url: `http://127.0.0.1:${server.address().port}`, end: () => server.close() };
}

test("state package: a database fed by a stream", limit, async () => {
  const anything = { "~standard": { version: 1, vendor: "test", validate: (value) => ({ value }) } };
  const schema = createStateSchema({ users: { schema: anything, type: "user", primaryKey: "id" } });
  const stream = await DurableStream.create({ url: `${STREAMS}state`, contentType: json });
  const send = (event) => stream.append(JSON.stringify(event));
  await send(schema.users.insert({ value: { id: "1", name: "Ada" } }));
  await send(schema.users.insert({ value: { id: "2", name: "Ben" } }));
  for (const live of ["sse", "long-poll"]) {
    const db = createStreamDB({ streamOptions: { url: stream.url, contentType: json }, live, state: schema });
    await db.preload();
    const users = db.collections.users;
    assert.equal(users.get("1").name, "Ada");
    await send(schema.users.update({ value: { id: "1", name: `Ada ${live}` } }));
    await send(schema.users.delete({ key: "2" }));
    await until(() => users.get("1").name === `Ada ${live}` && !users.has("2"), "the changes");
    await send(schema.users.insert({ value: { id: "2", name: "Ben" } }));
    await send(schema.users.update({ value: { id: "1", name: "Ada" } }));
    await until(() => users.has("2") && users.get("1").name === "Ada", "the changes back");
    db.close();
  }
});

test("Vercel AI SDK transport: an answer that survives a reload", limit, async () => {
  const writeUrl = `${STREAMS}answer`;
  let goOn;
  const held = new Promise((resolve) => {
    goOn = resolve;
  });
  async function* model() {
    yield { type: "start", messageId: "m1" };
    yield { type: "text-start", id: "t" };
    yield { type: "text-delta", id: "t", delta: "Hello " };
    await held;
    yield { type: "text-delta", id: "t", delta: "again" };
    yield { type: "text-end", id: "t" };
    yield { type: "finish" };
  }
  const app = await application({
    "POST /api/chat": () => toDurableStreamResponse({ source: model(), stream: { writeUrl } }),
    "GET /api/chat/c1/stream": () => Response.json({ streamUrl: writeUrl }, { headers: { Location: writeUrl } }),
  });
  const transport = createDurableChatTransport({ api: `${app.url}/api/chat` });
  const deltas = async (chunks) => {
    let text = "";
    for await (const chunk of chunks) {
      text += chunk.delta ?? "";
      if (text === "Hello ") goOn();
    }
    return text;
  };
  const first = await transport.sendMessages({ trigger: "submit-message", chatId: "c1", messages: [{ id: "u1", role: "user", parts: [{ type: "text", text: "Hi" }] }] });
  const reader = first.getReader();
  await reader.read();
  await reader.cancel(); // the page is reloaded in the middle
  const again = await transport.reconnectToStream({ chatId: "c1" });
  assert.equal(await deltas(again), "Hello again");
  const head = await DurableStream.head({ url: writeUrl });
  assert.equal(head.streamClosed, true);
  app.end();
});

test("TanStack AI transport: a chat in two tabs", limit, async () => {
  const writeUrl = `${STREAMS}session`;
  async function* answer() {
    yield { type: "RUN_STARTED", runId: "r", threadId: "t" };
    yield { type: "TEXT_MESSAGE_START", messageId: "a1", role: "assistant" };
    for (const delta of ["Good ", "morning"]) yield { type: "TEXT_MESSAGE_CONTENT", messageId: "a1", delta };
    yield { type: "TEXT_MESSAGE_END", messageId: "a1" };
    yield { type: "RUN_FINISHED", runId: "r", threadId: "t" };
  }
  const app = await application({
    "POST /api/chat": ({ messages }) => toDurableChatSessionResponse({ stream: { writeUrl }, newMessages: messages, responseStream: answer(), mode: "await" }),
  });
  await DurableStream.create({ url: writeUrl, contentType: json });
  const ending = new AbortController();
  const tab = async () => {
    let text = "";
    for await (const chunk of durableStreamConnection({ sendUrl: `${app.url}/api/chat`, readUrl: writeUrl }).subscribe(ending.signal)) {
      if (chunk.type === "TEXT_MESSAGE_CONTENT") text += chunk.delta;
      if (chunk.type === "RUN_FINISHED") return text;
    }
    return text;
  };
  const tabs = [tab(), tab()];
  await durableStreamConnection({ sendUrl: `${app.url}/api/chat`, readUrl: writeUrl }).send([{ id: "u1", role: "user", parts: [{ type: "text", content: "Hello. " }] }]);
  for (const text of await Promise.all(tabs)) assert.match(text, /Good morning$/);
  ending.abort();
  const { messages, offset } = await materializeSnapshotFromDurableStream({ readUrl: writeUrl });
  assert.deepEqual(
    messages.map((m) => [m.role, m.parts.map((p) => p.content ?? p.text).join("")]),
    [
      ["user", "Hello. "],
      ["assistant", "Good morning"],
    ],
  );
  assert.equal(offset, (await DurableStream.head({ url: writeUrl })).offset);
  app.end();
});

test("Yjs provider: two writers of one document", limit, async () => {
  // It builds URLs from the root of its server, so it needs one without a base path.
  const yjs = new YjsServer({ port: 0, host: "127.0.0.1", dsServerUrl: BASELESS, compactionThreshold: 2000 });
  const url = await yjs.start();
  const providers = [];
  const open = (liveMode) => {
    const doc = new Y.Doc();
    const awareness = new Awareness(doc);
    providers.push(new YjsProvider({ doc, awareness, baseUrl: `${url}/v1/yjs/test`, docId: "notes/1", liveMode }));
    return { doc, awareness, text: doc.getText("t"), provider: providers.at(-1) };
  };
  const ada = open("sse");
  const ben = open("long-poll");
  await until(() => ada.provider.synced && ben.provider.synced, "both synced");
  for (let i = 0; i < 60; i++) (i % 2 ? ada : ben).text.insert(0, `${"word ".repeat(20)}${i}\n`);
  await until(() => ada.text.length === ben.text.length && ada.text.toString() === ben.text.toString() && ada.text.toString().split("\n").length === 61, "the same text");
  // Presence is heard from the moment on at which its stream is followed, which nothing tells.
  await until(() => {
    ada.awareness.setLocalStateField("name", "Ada");
    return [...ben.awareness.getStates().values()].some((s) => s.name === "Ada");
  }, "presence");
  const late = open("sse");
  await until(() => late.text.toString() === ada.text.toString(), "the late one has it too");
  for (const provider of providers) provider.destroy();
  await yjs.stop();
});
