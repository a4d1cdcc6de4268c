// The page of the admin address in a real Chromium. PAGE is that of an empty server, STREAMS its
// streams.
import assert from "node:assert/strict";
import { test } from "node:test";

import { accessible, complaints, fill, gone, launch, page, press, shot, shows, visit } from "./harness.mjs";

const { PAGE, STREAMS } = process.env;
launch(new URL(PAGE).origin);

const open = (hash) => visit(PAGE + hash);

async function post(path, type, body) {
  const answer = await fetch(STREAMS + path, { method: "POST", headers: { "Content-Type": type }, body });
  assert.equal(answer.status, 204);
}

async function put(path, type, body) {
  const answer = await fetch(STREAMS + path, { method: "PUT", headers: { "Content-Type": type }, body });
  assert.equal(answer.status, 201);
  return answer.headers.get("Stream-Next-Offset");
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
