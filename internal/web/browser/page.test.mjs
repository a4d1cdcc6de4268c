// The page in a real Chromium. The Go test one folder up starts the servers and gives
// their addresses: PAGE (of an empty server), STREAMS (its streams). With SHOTS set to a folder, pictures for the documents go there.
import assert from "node:assert/strict";
import { readFile } from "node:fs/promises";
import { createRequire } from "node:module";
import { after, before, test } from "node:test";

import chromium from "@sparticuz/chromium";
import puppeteer from "puppeteer-core";

const { PAGE, STREAMS, SHOTS } = process.env;
const axe = await readFile(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");
const limit = 20_000;

let browser;
let page;
const complaints = [];

before(async () => {
  browser = await puppeteer.launch({ executablePath: await chromium.executablePath(), args: chromium.args, headless: "shell" });
  page = await browser.newPage();
  page.setDefaultTimeout(limit);
  page.on("pageerror", (error) => complaints.push(`uncaught: ${error.message}`));
  page.on("console", (message) => {
    if (message.type() === "error" && !/status of 4\d\d/.test(message.text())) complaints.push(`console: ${message.text()}`);
  });
  page.on("request", (request) => {
    if (new URL(PAGE).origin !== new URL(request.url()).origin) complaints.push(`request to ${request.url()}`);
  });
  await page.setViewport({ width: 1200, height: 760 });
});

after(() => browser?.close());

// shows waits until the element that selector names has this text in it.
async function shows(selector, text) {
  try {
    await page.waitForFunction((s, t) => [...document.querySelectorAll(s)].some((e) => e.checkVisibility() && e.textContent.includes(t)), {}, selector, text);
  } catch {
    const found = await page.$$eval(selector, (all) => all.map((e) => e.textContent).join(" | "));
    assert.fail(`${selector} does not show “${text}” but “${found}”`);
  }
}

const gone = (selector, text) => page.waitForFunction((s, t) => ![...document.querySelectorAll(s)].some((e) => e.checkVisibility() && e.textContent.includes(t)), {}, selector, text);

// fill answers the open dialog and sends it.
async function fill(answers) {
  for (const [name, value] of Object.entries(answers)) {
    const field = await page.waitForSelector(`dialog[open] [name="${name}"]`);
    await field.evaluate((input) => {
      input.value = "";
    });
    await field.type(value);
  }
  await page.click("dialog[open] .buttons button:last-child");
}

async function press(key) {
  await page.evaluate(() => document.activeElement?.blur());
  await page.keyboard.press(key);
}

async function post(path, type, body) {
  const answer = await fetch(STREAMS + path, { method: "POST", headers: { "Content-Type": type }, body });
  assert.equal(answer.status, 204);
}

async function put(path, type, body) {
  const answer = await fetch(STREAMS + path, { method: "PUT", headers: { "Content-Type": type }, body });
  assert.equal(answer.status, 201);
  return answer.headers.get("Stream-Next-Offset");
}

async function open(hash) {
  await page.goto("about:blank");
  await page.goto(PAGE + hash);
}

async function accessible(what) {
  for (const scheme of ["light", "dark"]) {
    await page.emulateMediaFeatures([{ name: "prefers-color-scheme", value: scheme }]);
    // The policy of the page keeps scripts out, so this one comes by the debugger.
    await page.evaluate(axe);
    const { violations } = await page.evaluate(() => globalThis.axe.run());
    assert.deepEqual(
      violations.map((v) => `${v.id}: ${v.nodes.map((n) => n.html).join(" ")}`),
      [],
      `${what}, ${scheme}`,
    );
  }
  await page.emulateMediaFeatures([]);
}

async function shot(name) {
  if (SHOTS) await page.screenshot({ path: `${SHOTS}/${name}.png` });
}

test("from nothing to a closed fork", async () => {
  await open("#/");
  await shows("#list", "There are no streams yet.");
  await accessible("the first view");

  await press("n");
  await fill({ path: "chat/1", ttl: "abc" }); // a number field takes no letters
  await shows("#main h1", "chat/1");
  await shows("#list", "chat/1");

  await press("a");
  await fill({ body: "{bad" });
  await shows("dialog [role=alert]", "JSON");
  await fill({ body: '{"from":"page","big":12345678901234567890123,"deep":[[["x"]]]}' });
  await shows(".rows li", '"from":"page"');
  await post("chat/1", "application/json", '[{"from":"elsewhere"},"two"]');
  await shows(".rows li", '"from":"elsewhere"');
  await shows(".rows li", '"two"');
  await shows(".facts", "application/json");
  assert.equal(await page.$eval(".reading output", (e) => e.textContent), "live");

  await page.click(".rows li summary");
  await shows(".rows .number", "12345678901234567890123");
  await accessible("a stream");
  await shot("stream");

  await press("f");
  await fill({ path: "chat/1 again" });
  await shows("#main h1", "chat/1%20again");
  await shows(".rows li", '"from":"elsewhere"');
  await shows(".facts", "Forked from");
  await press("a");
  await fill({ body: '"only here"' });
  await shows(".rows li", '"only here"');
  await page.click("#main > details > summary");
  await shows(".forks", "chat/1");
  await page.click("section[aria-label=Forks] button");
  await gone("section[aria-label=Forks] button:disabled", "");
  await shows(".forks ul ul strong", "chat/1%20again");

  await press("c");
  await shows("dialog", "Close this stream?");
  await page.keyboard.press("Escape");
  await gone("dialog", "Close this stream?");
  await press("c");
  await fill({});
  await shows(".title .chip", "closed");
  assert.equal(await page.$eval('button[data-key="a"]', (e) => e.disabled), true);
  await shows("#list", "closed");
  const head = await fetch(`${STREAMS}chat/1%20again`, { method: "HEAD" });
  assert.equal(head.headers.get("Stream-Closed"), "true");
  assert.deepEqual(await (await fetch(`${STREAMS}chat/1`)).json(), [{ from: "page", big: 12345678901234567890123, deep: [[["x"]]] }, { from: "elsewhere" }, "two"]);
});

test("search, keys and deletion", async () => {
  await put("a/first", "text/plain", "x");
  await put("b/second", "text/plain", "x");
  await open("#/");
  await shows("#list", "b/second");
  await press("/");
  await page.keyboard.type("a/");
  await gone("#list", "b/second");
  await shows("#list", "a/first");
  await page.keyboard.type("nothing");
  await shows("#list", "No stream begins with “a/nothing”.");
  await page.$eval("#list input", (input) => {
    input.value = "";
    input.dispatchEvent(new Event("input"));
  });
  await shows("#list", "b/second");
  await press("j");
  await shows("#main h1", "a/first");
  await press("j");
  await shows("#main h1", "b/second");
  await press("k");
  await shows("#main h1", "a/first");
  await press("d");
  await shows("dialog", "a/first and all it holds will be gone");
  await fill({});
  await gone("#list", "a/first");
  assert.equal((await fetch(`${STREAMS}a/first`)).status, 404);
  await press("?");
  await shows("dialog", "next and previous stream");
  await accessible("a dialog");
});

test("text, bytes, pause and offsets", async () => {
  const second = await put("text", "text/plain", "first ");
  await post("text", "text/plain", "second\r\n<b>third</b>");
  await open("#/streams/text");
  await shows(".rows", "first second\n<b>third</b>");
  await press(" ");
  await shows(".reading output", "paused");
  await post("text", "text/plain", " fourth");
  await page.click("button[data-key=' ']");
  await shows(".rows", " fourth");
  await page.type(".reading input", second);
  await page.keyboard.press("Enter");
  await gone(".rows", "first");
  await shows(".rows", "second");
  await page.$eval(".reading input", (input) => {
    input.value = "nonsense";
  });
  await page.click(".reading button:not([type])");
  await shows("#status.failed", "offset");

  await put("bytes", "application/octet-stream", new Uint8Array([0, 255, 68, 83]));
  await open("#/streams/bytes");
  await shows(".rows", "000000  00 ff 44 53");
  await shows(".rows", "··DS");
});

test("much is shown in parts", async () => {
  await put("much", "application/json", JSON.stringify(Array.from({ length: 1700 }, (_, i) => ({ i }))));
  await open("#/streams/much");
  await shows(".log button", "Show more");
  await shows(".reading output", "held");
  assert.equal(await page.$$eval(".rows > li", (all) => all.length), 500);
  await page.click(".log > button");
  await shows(".rows", '{"i":999}');
  await page.click(".log > button");
  await shows(".rows", '{"i":1499}');
  await page.click(".log > button");
  await shows(".rows", '{"i":1699}');
  assert.equal(await page.$$eval(".rows > li", (all) => all.length), 1000);
  await shows(".reading output", "live");
});

test("markup in names and messages is text", async () => {
  await put("<img src=x onerror=alert(1)>".replaceAll(" ", "%20").replaceAll("<", "%3C").replaceAll(">", "%3E"), "text/html", "<script>alert(1)</script>");
  await put("quotes", "application/json", '["</pre><b>bold</b>", {"<i>k</i>": "<u>v</u>"}]');
  await open("#/streams/quotes");
  await shows(".rows", "<b>bold</b>");
  await page.click(".rows summary");
  await shows(".key", "<i>k</i>");
  assert.equal(await page.$("main b, main i, main u"), null);
});

test("what is not there", async () => {
  await open("#/streams/never/was");
  await shows("#main [role=alert]", "There is no stream at this path.");
  await open("#/subscriptions");
  await shows("#main", "There are no subscriptions.");
  await accessible("the subscriptions");
});

test("on a phone", async () => {
  await page.setViewport({ width: 390, height: 760, isMobile: true, hasTouch: true });
  await open("#/");
  await shows("#list", "chat/1");
  const wide = () => page.evaluate(() => document.documentElement.scrollWidth > innerWidth);
  assert.equal(await wide(), false);
  await page.tap('#list a[data-path="chat/1"]');
  await shows(".rows li", '"two"');
  assert.equal(await page.$eval("#list", (e) => getComputedStyle(e).display), "none");
  assert.equal(await wide(), false);
  await shot("phone");
  await page.tap(".back");
  await page.waitForSelector("#list", { visible: true });
  await page.setViewport({ width: 1200, height: 760 });
});

test("nothing was complained about", () => assert.deepEqual(complaints, []));
