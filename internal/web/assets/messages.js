// How the content of a stream is shown: JSON folded, text, or bytes in hexadecimal.
import { h } from "./dom.js";

// split takes an array of JSON messages apart and leaves each as it was written.
export function split(array) {
  const messages = [];
  let depth = 0;
  let quoted = false;
  let start = 1;
  for (let i = 0; i < array.length; i++) {
    const c = array[i];
    if (quoted) {
      if (c === "\\") i++;
      else if (c === '"') quoted = false;
    } else if (c === '"') quoted = true;
    else if (c === "[" || c === "{") depth++;
    else if (c === "]" || c === "}") depth--;
    if (!quoted && ((depth === 1 && c === ",") || (depth === 0 && c === "]"))) {
      const message = array.slice(start, i).trim();
      if (message) messages.push(message);
      start = i + 1;
    }
  }
  return messages;
}

const longestLine = 400;

// jsonRow shows one message: its text in a line, folded open its parts.
export function jsonRow(message) {
  const line = message.length > longestLine ? `${message.slice(0, longestLine)}…` : message;
  if (!/^[[{]/.test(message)) return h("pre", { class: "line" }, line);
  const details = h("details", {}, h("summary", {}, h("code", {}, line)));
  details.addEventListener("toggle", () => details.append(tree(parse(message), 0)), { once: true });
  return details;
}

// Exact is a number as it was written: a browser would round it.
class Exact {
  constructor(text) {
    this.text = text;
  }
}

const parse = (message) => JSON.parse(message, (_, value, context) => (typeof value === "number" && context?.source ? new Exact(context.source) : value));

const openDepth = 2;

function tree(value, depth) {
  if (value instanceof Exact) return h("span", { class: "number" }, value.text);
  if (value === null || typeof value !== "object") return h("span", { class: typeof value }, JSON.stringify(value));
  const entries = Object.entries(value);
  const list = Array.isArray(value);
  if (entries.length === 0) return h("span", {}, list ? "[]" : "{}");
  return h(
    "ul",
    { class: "tree" },
    entries.map(([key, child]) => {
      const name = h("span", { class: "key" }, list ? `${key}` : key);
      if (child === null || typeof child !== "object" || child instanceof Exact || Object.keys(child).length === 0) return h("li", {}, name, ": ", tree(child, depth + 1));
      const what = Array.isArray(child) ? `[${child.length}]` : `{${Object.keys(child).length}}`;
      const fold = h("details", { open: depth < openDepth }, h("summary", {}, name, " ", h("span", { class: "dim" }, what)));
      const fill = () => fold.append(tree(child, depth + 1));
      if (depth < openDepth) fill();
      else fold.addEventListener("toggle", fill, { once: true });
      return h("li", {}, fold);
    }),
  );
}

const lineBytes = 16;
const mostLines = 256;

// hexRow shows bytes as offset, hexadecimal and characters.
export function hexRow(bytes) {
  const lines = [];
  for (let at = 0; at < bytes.length && lines.length < mostLines; at += lineBytes) {
    const part = bytes.subarray(at, at + lineBytes);
    const hex = Array.from(part, (b) => b.toString(16).padStart(2, "0")).join(" ");
    const characters = Array.from(part, (b) => (b >= 32 && b < 127 ? String.fromCharCode(b) : "·")).join("");
    lines.push(`${at.toString(16).padStart(6, "0")}  ${hex.padEnd(lineBytes * 3 - 1)}  ${characters}`);
  }
  const left = bytes.length - mostLines * lineBytes;
  if (left > 0) lines.push(`… ${left} bytes more`);
  return h("pre", { class: "hex" }, lines.join("\n"));
}

// textRow shows text as it is.
export const textRow = (text) => h("pre", { class: "text" }, text);

// toBytes and toText give an event's content the other way.
export const toBytes = (event) => event.bytes ?? new TextEncoder().encode(event.text ?? "");
export const toText = (event) => event.text ?? new TextDecoder().decode(event.bytes ?? new Uint8Array());
