// Following a stream by server-sent events. EventSource cannot send a token, so
// the events are taken from the body of a fetch.
import { Refusal, request, streamURL } from "./server.js";

const longestWait = 15000;

// follow gives the events of a stream from an offset on: {bytes | text, next,
// upToDate, closed}. It goes on over ended and broken connections until the stream
// is closed or signal is aborted; onState hears "live" and "waiting". What cannot be
// mended by trying again is thrown.
export async function* follow(path, offset, signal, onState) {
  let wait = 250;
  while (!signal.aborted) {
    try {
      const answer = await request(`${streamURL(path)}?offset=${encodeURIComponent(offset)}&live=sse`, { signal });
      const binary = answer.headers.get("Stream-SSE-Data-Encoding") === "base64";
      onState("live");
      let data;
      for await (const { event, text } of events(answer.body)) {
        if (event === "data") {
          data = text;
          continue;
        }
        if (event !== "control") continue;
        const control = JSON.parse(text);
        wait = 250;
        offset = control.streamNextOffset;
        yield { ...content(data, binary), next: offset, upToDate: control.upToDate ?? false, closed: control.streamClosed ?? false };
        if (control.streamClosed) return;
        data = undefined;
      }
    } catch (error) {
      if (signal.aborted) return;
      if (error instanceof Refusal && error.status >= 400 && error.status < 500 && error.status !== 429) throw error;
    }
    onState("waiting");
    await pause(wait / 2 + (Math.random() * wait) / 2, signal);
    wait = Math.min(wait * 2, longestWait);
  }
}

function content(data, binary) {
  if (data === undefined) return {};
  return binary ? { bytes: Uint8Array.from(atob(data.replaceAll("\n", "")), (c) => c.charCodeAt(0)) } : { text: data };
}

// events takes a body apart into {event, text}.
export async function* events(body) {
  let event = "message";
  let data = [];
  for await (const line of lines(body)) {
    if (line === "") {
      if (data.length > 0) yield { event, text: data.join("\n") };
      event = "message";
      data = [];
      continue;
    }
    const colon = line.indexOf(":");
    const field = colon < 0 ? line : line.slice(0, colon);
    const value = colon < 0 ? "" : line.slice(colon + (line[colon + 1] === " " ? 2 : 1));
    if (field === "event") event = value;
    else if (field === "data") data.push(value);
  }
}

async function* lines(body) {
  const reader = body.pipeThrough(new TextDecoderStream()).getReader();
  let parts = [];
  try {
    for (;;) {
      const { done, value } = await reader.read();
      if (done) return;
      const pieces = value.split("\n");
      for (const piece of pieces.slice(0, -1)) {
        parts.push(piece);
        yield parts.join("");
        parts = [];
      }
      parts.push(pieces.at(-1));
    }
  } finally {
    reader.cancel().catch(() => {});
  }
}

function pause(milliseconds, signal) {
  return new Promise((resolve) => {
    const timer = setTimeout(resolve, milliseconds);
    signal.addEventListener("abort", () => {
      clearTimeout(timer);
      resolve();
    });
  });
}
