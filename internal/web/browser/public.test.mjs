// The read-only page beside the streams in a real Chromium: OPEN is that of a server without
// access control, LOCKED of one where CLERK's token may read orders/** and BOSS's everything;
// OPEN_STREAMS and LOCKED_STREAMS are their streams.
import assert from "node:assert/strict";
import { test } from "node:test";

import { accessible, complaints, fill, gone, launch, page, press, requests, shows, visit } from "./harness.mjs";

const { OPEN, OPEN_STREAMS, LOCKED, LOCKED_STREAMS, CLERK, BOSS } = process.env;
launch(new URL(OPEN).origin, new URL(LOCKED).origin);

async function send(method, url, body, token) {
  const headers = { "Content-Type": "application/json", ...(token && { Authorization: `Bearer ${token}` }) };
  const answer = await fetch(url, { method, headers, body });
  assert.ok(answer.ok, `${method} ${url}: ${answer.status}`);
}

const visible = (selector) => page.$$eval(selector, (all) => all.filter((e) => e.checkVisibility()).map((e) => e.textContent));

test("it shows what happens and changes nothing", async () => {
  await send("PUT", `${OPEN_STREAMS}chat/1`, '["first"]');
  const fork = await fetch(`${OPEN_STREAMS}fork`, { method: "PUT", headers: { "Stream-Forked-From": new URL(`${OPEN_STREAMS}chat/1`).pathname } });
  assert.equal(fork.status, 201);
  const methods = new Set();
  const note = (request) => methods.add(request.method());
  page.on("request", note);
  await visit(`${OPEN}#/`);
  await shows("#list", "chat/1");
  await shows("#mode", "read only");
  await shows(".facts", "Streams");
  assert.deepEqual(await visible("dialog"), []);
  assert.deepEqual(await visible("#list button"), []);
  assert.deepEqual(await visible('[data-part="subscriptions"]'), []);
  assert.ok(!(await page.$eval("#main", (e) => e.textContent)).includes("curl"));
  await accessible("the first view");

  await page.click('#list a[data-path="chat/1"]');
  await shows(".rows li", '"first"');
  await send("POST", `${OPEN_STREAMS}chat/1`, '["live"]');
  await shows(".rows li", '"live"');
  assert.deepEqual(await visible("#main header button"), ["Copy URL"]);
  await page.click("#main > details > summary");
  await page.waitForSelector("section[aria-label=Forks] button"); // it comes with an event of its own
  await page.click("section[aria-label=Forks] button");
  await shows(".forks a", "fork");
  await accessible("a stream");

  for (const key of ["n", "a", "c", "f", "d"]) await press(key);
  assert.deepEqual(await visible("dialog"), []);
  await press("?");
  await shows("dialog", "next and previous stream");
  assert.ok(!(await page.$eval("dialog", (e) => e.textContent)).includes("append"));
  page.off("request", note);
  assert.deepEqual([...methods].sort(), ["GET", "HEAD"]);
});

test("where access is controlled it asks for a token", async () => {
  await send("PUT", `${LOCKED_STREAMS}orders/1`, '["paid"]', BOSS);
  await send("PUT", `${LOCKED_STREAMS}secret/1`, '["hidden"]', BOSS);
  await visit(`${LOCKED}#/`);
  await shows("dialog h2", "Access token");
  await accessible("the question for a token");
  await fill({ token: `${CLERK}x` });
  await shows("dialog [role=alert]", "The server does not take this token: there is no such API key");
  await accessible("a token that is none");
  await fill({ token: "nonsense with spaces" });
  await shows("dialog [role=alert]", "The server does not take this token: ");
  assert.equal(await page.evaluate(() => sessionStorage.length), 0);
  await fill({ token: CLERK });
  await gone("dialog", "");

  await shows("#list", "orders/1");
  assert.ok(!(await page.$eval("#list", (e) => e.textContent)).includes("secret"));
  await shows("#main", "Only those are listed that your token allows you to read.");
  await accessible("the first view of a reader");
  await page.click('#list a[data-path="orders/1"]');
  await shows(".rows li", '"paid"');
  await send("POST", `${LOCKED_STREAMS}orders/1`, '["live"]', BOSS);
  await shows(".rows li", '"live"');
  await shows(".facts", "Last write");

  await page.goto(`${LOCKED}#/streams/secret/1`);
  await shows("#main [role=alert]", "This token does not allow it.");
  await page.reload(); // the token is still there
  await shows("#list", "orders/1");
  await page.click("#token");
  await fill({ token: BOSS });
  await shows("#list", "secret/1");
  await shows(".rows li", '"hidden"');
  await page.goto(`${LOCKED}#/`);
  await shows(".facts", "Streams");
});

test("the token is in this tab and nowhere else", async () => {
  assert.deepEqual(await page.evaluate(() => [Object.values({ ...sessionStorage }), Object.values({ ...localStorage }).filter(Boolean), document.cookie]), [[BOSS], [], ""]);
  assert.ok(requests.length > 20);
  assert.deepEqual(
    requests.filter((url) => url.includes(BOSS) || url.includes(CLERK)),
    [],
  );
  await page.click("#token");
  await fill({ token: "" });
  await shows("#status", "Give a token with the button above.");
  assert.equal(await page.evaluate(() => sessionStorage.length), 0);
  await shows("#main [role=alert]", "a list needs an Authorization header with a bearer token. Give a token with the button above.");
});

test("nothing was complained about", () => assert.deepEqual(complaints, []));
