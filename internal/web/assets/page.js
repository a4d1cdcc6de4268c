// The page as a whole: which view is shown, and the keys.
import { ask, inform } from "./dialogs.js";
import { attempt, h, say } from "./dom.js";
import { HomeView } from "./home.js";
import { List } from "./list.js";
import * as server from "./server.js";
import { StreamView } from "./stream.js";
import { SubscriptionsView } from "./subscriptions.js";

const main = document.getElementById("main");
let list;
let view;

// show opens the view that the address names.
function show() {
  view?.stop();
  const [, part, path] = /^#\/([^/]*)\/?(.*)$/.exec(location.hash) ?? [];
  document.body.dataset.view = part || "home";
  for (const a of document.querySelectorAll("[data-part]")) {
    if (a.dataset.part === (part || "streams")) a.setAttribute("aria-current", "page");
    else a.removeAttribute("aria-current");
  }
  if (part === "streams" && path) view = new StreamView(main, path, () => list.refresh());
  else if (part === "subscriptions") view = new SubscriptionsView(main);
  else view = new HomeView(main);
  list.select(part === "streams" ? path : "");
  document.title = path ? `${path} · ds` : "ds";
  const opened = view;
  attempt(async () => {
    try {
      await opened.open();
    } catch (error) {
      if (opened === view) main.replaceChildren(h("h1", {}, path || "ds"), h("p", { class: "problem", role: "alert" }, error.message));
      opened.stop();
    }
  });
}

const types = ["application/json", "text/plain", "application/octet-stream"];

async function create() {
  const made = await ask({
    title: "New stream",
    action: "Create",
    fields: [
      { name: "path", label: "Path", required: true, focus: true, hint: "Such as chat/42" },
      { name: "type", label: "Content type", value: types[0], options: types, required: true },
      { name: "ttl", label: "TTL in seconds", kind: "number", hint: "It goes when it is not used for so long. Empty: never." },
      { name: "body", label: "First content", kind: "area" },
      { name: "closed", label: "Closed from the start", kind: "check" },
    ],
    onSubmit: async ({ path, ...stream }) => {
      const answer = await server.create(server.inURL(path), stream);
      return { path: server.inURL(path), was: answer.status === 200 };
    },
  });
  if (!made) return;
  say(made.was ? "It was there already." : "Created.");
  list.refresh();
  location.hash = `#/streams/${made.path}`;
}

// tryToken takes a token if the server knows it. What it allows may still be little.
async function tryToken(given) {
  const before = server.token();
  server.setToken(given);
  if (!given) return;
  try {
    await server.streams({ limit: 1 });
  } catch (error) {
    if (error.status === 403) return;
    server.setToken(before);
    throw error.status === 401 ? new Error(`The server does not take this token: ${error.reason}`) : error;
  }
}

async function giveToken() {
  const given = await ask({
    title: "Access token",
    text: "An API key or a JWT. It is kept until this tab is closed.",
    action: "Use it",
    fields: [{ name: "token", label: "Token", kind: "password", value: server.token(), focus: true, hint: "Empty: none." }],
    onSubmit: ({ token }) => tryToken(token.trim()),
  });
  if (!given) return;
  list.refresh();
  show();
}

// askForToken opens the question by itself where nothing is to be seen without one.
async function askForToken() {
  try {
    await server.streams({ limit: 1 });
  } catch (error) {
    if (error.status === 401) await giveToken();
  }
}

const themes = ["", "light", "dark"];
const themeKey = "ds-theme";

function setTheme(theme) {
  document.documentElement.dataset.theme = theme;
  localStorage.setItem(themeKey, theme);
}

const keys = [
  ["/", "search"],
  ["j k", "next and previous stream"],
  ["n", "new stream"],
  ["a", "append"],
  ["c", "close"],
  ["f", "fork"],
  ["d", "delete"],
  ["g G", "read from the start, from now on"],
  ["space", "pause and go on"],
  ["?", "these keys"],
];

const forChanges = ["n", "a", "c", "f", "d"];
const usedKeys = () => keys.filter(([key]) => !server.config.readOnly || !forChanges.includes(key));

const showKeys = () => inform("Keys", h("dl", { class: "keys" }, usedKeys().map(([key, what]) => h("div", {}, h("dt", {}, h("kbd", {}, key)), h("dd", {}, what)))));

function pressed(event) {
  const typing = event.target.closest("input, textarea, select, dialog");
  if (typing || event.ctrlKey || event.metaKey || event.altKey) {
    if (event.key === "Escape" && typing && !typing.closest("dialog")) typing.blur();
    return;
  }
  if (event.key === " " && event.target.closest("button, summary, a")) return; // the element's own key
  const act = {
    "/": () => list.search.focus(),
    j: () => list.step(1),
    k: () => list.step(-1),
    n: () => !server.config.readOnly && create(),
    "?": showKeys,
  }[event.key];
  const button = main.querySelector(`button[data-key="${CSS.escape(event.key)}"]:not(:disabled)`);
  if (!act && !button) return;
  event.preventDefault();
  if (act) act();
  else button.click();
}

async function start() {
  setTheme(localStorage.getItem(themeKey) ?? "");
  document.getElementById("theme").onclick = () => setTheme(themes[(themes.indexOf(document.documentElement.dataset.theme) + 1) % themes.length]);
  document.getElementById("token").onclick = giveToken;
  document.getElementById("help").onclick = showKeys;
  await server.start();
  document.getElementById("mode").hidden = !server.config.readOnly;
  document.querySelector('[data-part="subscriptions"]').hidden = server.config.readOnly;
  list = new List(document.getElementById("list"), { onCreate: create });
  list.refresh();
  addEventListener("hashchange", show);
  addEventListener("keydown", pressed);
  show();
  askForToken();
}

attempt(start);
