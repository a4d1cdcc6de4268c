// What the page asks of the server: the stream protocol below `streams`, and the
// administration API below `api`. Both addresses come from config.json.

export let config = { streams: "", api: "", readOnly: true, version: "" };

// start loads the configuration; everything else needs it.
export async function start() {
  const answer = await fetch("config.json");
  if (!answer.ok) throw new Error(`The server does not answer as expected (${answer.status}).`);
  config = await answer.json();
}

// The token lives as long as the tab.
const tokenKey = "ds-token";
export const token = () => sessionStorage.getItem(tokenKey) ?? "";
export function setToken(value) {
  if (value) sessionStorage.setItem(tokenKey, value);
  else sessionStorage.removeItem(tokenKey);
}

// Refusal is an answer that is not a success. reason is what the server says.
export class Refusal extends Error {
  constructor(status, code, message, reason = message) {
    super(message);
    this.status = status;
    this.code = code;
    this.reason = reason;
  }
}

// meaning is what answers without a body say, as those to HEAD.
const meaning = { 401: "This needs a token.", 403: "This token does not allow it.", 404: "There is no stream at this path.", 410: "This stream was deleted; only its forks are left." };

// request sends one request and gives its answer, or throws a Refusal.
export async function request(url, options = {}) {
  const headers = new Headers(options.headers);
  if (token()) headers.set("Authorization", `Bearer ${token()}`);
  let answer;
  try {
    answer = await fetch(url, { cache: "no-store", ...options, headers });
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new Refusal(0, "unreachable", "The server cannot be reached.");
  }
  if (answer.ok) return answer;
  const text = await answer.text();
  let told = {};
  try {
    told = JSON.parse(text).error ?? {};
  } catch {
    // Not ours: a proxy, perhaps.
  }
  const reason = told.message ?? meaning[answer.status] ?? `The server answers ${answer.status}.`;
  const message = answer.status === 401 ? `${reason.replace(/[.]?$/, ".")} Give a token with the button above.` : reason;
  throw new Refusal(answer.status, told.code ?? "", message, reason);
}

const read = async (path, options) => (await request(config.api + path, options)).json();

// Administration.
export const streams = ({ prefix, source, after, limit, signal }) => read(`/streams?${new URLSearchParams(drop({ prefix, source, after, limit }))}`, { signal });
export const describe = (path) => read(`/streams/${path}`);
export const totals = () => read("/totals");
export const subscriptions = (after) => read(`/subscriptions?${new URLSearchParams(drop({ after }))}`);

function drop(parameters) {
  return Object.entries(parameters).filter(([, value]) => value !== undefined && value !== "");
}

// The protocol. A path is as it stands in URLs.
export const streamURL = (path) => config.streams + path;

export async function head(path) {
  const { headers } = await request(streamURL(path), { method: "HEAD" });
  return {
    type: headers.get("Content-Type") ?? "",
    tail: headers.get("Stream-Next-Offset") ?? "",
    closed: headers.get("Stream-Closed") === "true",
    ttl: headers.get("Stream-TTL"),
    expires: headers.get("Stream-Expires-At"),
  };
}

export const create = (path, { type, ttl, closed, body }) =>
  request(streamURL(path), {
    method: "PUT",
    headers: drop({ "Content-Type": type, "Stream-TTL": ttl, "Stream-Closed": closed ? "true" : undefined }),
    body: body || undefined,
  });

export const fork = (path, { source, offset, subOffset }) =>
  request(streamURL(path), {
    method: "PUT",
    headers: drop({ "Stream-Forked-From": new URL(streamURL(source), location.href).pathname, "Stream-Fork-Offset": offset, "Stream-Fork-Sub-Offset": subOffset }),
  });

export const append = (path, type, body) => request(streamURL(path), { method: "POST", headers: { "Content-Type": type }, body });

export const close = (path) => request(streamURL(path), { method: "POST", headers: { "Stream-Closed": "true" } });

export const remove = (path) => request(streamURL(path), { method: "DELETE" });

// inURL gives the path of a stream that a person has written, as it stands in URLs.
export function inURL(name) {
  return name
    .split(/(%[0-9A-Fa-f]{2})/)
    .map((part, i) => (i % 2 ? part : encodeURI(part).replace(/[?#]/g, encodeURIComponent)))
    .join("");
}

// isJSON tells whether a stream of this type holds messages.
export const isJSON = (type) => essence(type) === "application/json";

// isText tells whether a stream of this type holds text.
export const isText = (type) => essence(type).startsWith("text/");

const essence = (type) => type.split(";")[0].trim().toLowerCase();
