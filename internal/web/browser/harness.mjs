// What the tests of the page share: a Chromium, its page, and ways to look at it and to use
// it. The Go test one folder up starts the servers and gives their addresses. With SHOTS
// set to a folder, pictures for the documents go there.
import assert from "node:assert/strict";
import { readFile } from "node:fs/promises";
import { createRequire } from "node:module";
import { after, before } from "node:test";

import chromium from "@sparticuz/chromium";
import puppeteer from "puppeteer-core";

const { SHOTS } = process.env;
const axe = await readFile(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");
const limit = 20_000;

let browser;
export let page;
export const complaints = [];
export const requests = []; // the URLs of all

// origins are where the page may ask for something.
export function launch(...origins) {
  before(async () => {
    browser = await puppeteer.launch({ executablePath: await chromium.executablePath(), args: chromium.args, headless: "shell" });
    page = await browser.newPage();
    page.setDefaultTimeout(limit);
    page.on("pageerror", (error) => complaints.push(`uncaught: ${error.message}`));
    page.on("console", (message) => {
      if (message.type() === "error" && !/status of 4\d\d/.test(message.text())) complaints.push(`console: ${message.text()}`);
    });
    page.on("request", (request) => {
      requests.push(request.url());
      if (!origins.includes(new URL(request.url()).origin)) complaints.push(`request to ${request.url()}`);
    });
    await page.setViewport({ width: 1200, height: 760 });
  });
  after(() => browser?.close());
}

// shows waits until the element that selector names has this text in it.
export async function shows(selector, text) {
  try {
    await page.waitForFunction((s, t) => [...document.querySelectorAll(s)].some((e) => e.checkVisibility() && e.textContent.includes(t)), {}, selector, text);
  } catch {
    const found = await page.$$eval(selector, (all) => all.map((e) => e.textContent).join(" | "));
    assert.fail(`${selector} does not show “${text}” but “${found}”`);
  }
}

export const gone = (selector, text) => page.waitForFunction((s, t) => ![...document.querySelectorAll(s)].some((e) => e.checkVisibility() && e.textContent.includes(t)), {}, selector, text);

// fill answers the open dialog and sends it.
export async function fill(answers) {
  for (const [name, value] of Object.entries(answers)) {
    const field = await page.waitForSelector(`dialog[open] [name="${name}"]`);
    await field.evaluate((input) => {
      input.value = "";
    });
    await field.type(value);
  }
  await page.click("dialog[open] .buttons button:last-child");
}

export async function press(key) {
  await page.evaluate(() => document.activeElement?.blur());
  await page.keyboard.press(key);
}

// visit opens an address anew.
export async function visit(address) {
  await page.goto("about:blank");
  await page.goto(address);
}

export async function accessible(what) {
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

export async function shot(name) {
  if (SHOTS) await page.screenshot({ path: `${SHOTS}/${name}.png` });
}
