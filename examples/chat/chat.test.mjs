// The chat in a real Chromium. The Go test beside it runs the program and gives the
// address of its page (PAGE), one that lets the model go on in the middle of an answer
// (GATE), and what it answers to the first prompt (ANSWER). With SHOTS set to a folder,
// pictures go there.
import assert from "node:assert/strict";
import { readFile } from "node:fs/promises";
import { createRequire } from "node:module";
import { after, before, test } from "node:test";

import chromium from "@sparticuz/chromium";
import puppeteer from "puppeteer-core";

const { PAGE, GATE, ANSWER, SHOTS } = process.env;
const axe = await readFile(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");
const end = "This is the end of my answer.";

let browser;
let page;
const complaints = [];

async function tab(address) {
  const tab = await browser.newPage();
  tab.setDefaultTimeout(20_000);
  tab.on("pageerror", (error) => complaints.push(`uncaught: ${error.message}`));
  tab.on("console", (message) => ["error", "warn"].includes(message.type()) && complaints.push(message.text()));
  tab.on("request", (request) => {
    if (new URL(PAGE).origin !== new URL(request.url()).origin) complaints.push(`request to ${request.url()}`);
  });
  await tab.setViewport({ width: 900, height: 700 });
  await tab.goto(address);
  return tab;
}

before(async () => {
  browser = await puppeteer.launch({ executablePath: await chromium.executablePath(), args: chromium.args, headless: "shell" });
  page = await tab(PAGE);
});

after(() => browser?.close());

const words = (tab) => tab.$$eval(".answer", (all) => all.at(-1)?.textContent ?? "");

// grown waits until the last answer has more than so many characters.
const grown = (tab, length) => tab.waitForFunction((n) => [...document.querySelectorAll(".answer")].at(-1)?.textContent.length > n, {}, length);

// settled waits until nothing is being answered.
const settled = (tab, answers) =>
  tab.waitForFunction((n) => document.querySelectorAll('.answer[aria-busy="false"]').length === n && document.querySelector("#stop").hidden, {}, answers);

async function ask(tab, prompt) {
  await tab.type("#text", prompt);
  await tab.keyboard.press("Enter");
}

test("words come one after the other, and a reload goes on in the middle", async () => {
  await ask(page, "What is a <b>stream</b>?");
  await grown(page, 40);
  assert.equal(await page.$eval(".asked", (p) => p.textContent), "What is a <b>stream</b>?");
  assert.ok(await page.$eval(".answer", (p) => p.ariaBusy === "true" && getComputedStyle(document.querySelector("#send")).display === "none"));
  const before = await words(page);
  await page.reload();
  await grown(page, Math.max(before.length - 1, 200)); // the model may have come to its gate already
  const after = await words(page);
  assert.ok(ANSWER.startsWith(after), after);
  assert.ok(!after.includes(end), "the reload has not come in the middle");
});

test("a second tab sees the same", async () => {
  const second = await tab(page.url());
  await grown(second, 100);
  assert.ok(!(await words(second)).includes(end), "the second tab has not come in the middle");
  await fetch(GATE);
  await settled(second, 1);
  await settled(page, 1);
  assert.equal(await words(second), ANSWER);
  assert.equal(await words(page), ANSWER);

  await ask(second, "And from here?");
  await page.waitForFunction(() => document.querySelectorAll(".asked").length === 2);
  await grown(page, 100);
  if (SHOTS) await page.screenshot({ path: `${SHOTS}/chat.png` });
  await second.click("#stop");
  await settled(page, 2);
  await settled(second, 2);
  const stopped = await words(page);
  assert.ok(!stopped.includes(end), "the answer was complete before it was stopped");
  assert.equal(await words(second), stopped);
  await second.close();
});

test("what was stopped stays as it was", async () => {
  const stopped = await words(page);
  await page.reload();
  await settled(page, 2);
  assert.equal(await words(page), stopped);
});

test("another chat is empty", async () => {
  const former = page.url();
  await Promise.all([page.waitForNavigation(), page.click("#new")]);
  await page.waitForFunction(() => location.hash.length > 10);
  assert.notEqual(page.url(), former);
  assert.equal(await page.$(".asked"), null);
  await page.goto("about:blank");
  await page.goto(former);
  await settled(page, 2);
});

test("for everybody, and on a phone", async () => {
  for (const scheme of ["light", "dark"]) {
    await page.emulateMediaFeatures([{ name: "prefers-color-scheme", value: scheme }]);
    await page.evaluate(axe); // by the debugger, since the page's policy keeps scripts out
    const { violations } = await page.evaluate(() => globalThis.axe.run());
    assert.deepEqual(violations.map((v) => `${v.id}: ${v.nodes.map((n) => n.html).join(" ")}`), [], scheme);
  }
  await page.setViewport({ width: 390, height: 700, isMobile: true, hasTouch: true });
  assert.equal(await page.evaluate(() => document.documentElement.scrollWidth > innerWidth), false);
  if (SHOTS) await page.screenshot({ path: `${SHOTS}/chat-phone.png` });
});

test("nothing was complained about", () => assert.deepEqual(complaints, []));
