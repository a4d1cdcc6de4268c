// Opens the page of the guide to browsers (PAGE) in Chromium, appends to the stream that
// it follows (STREAM, with KEY) while its URLs expire, and compares what it shows.
import assert from "node:assert/strict";

import chromium from "@sparticuz/chromium";
import puppeteer from "puppeteer-core";

const { PAGE, STREAM, KEY } = process.env;

async function write(method, body, headers = {}) {
  const answer = await fetch(STREAM, { method, headers: { Authorization: `Bearer ${KEY}`, "Content-Type": "application/json", ...headers }, body: JSON.stringify(body) });
  assert.ok(answer.ok, `${method}: ${answer.status}`);
}

const browser = await puppeteer.launch({ executablePath: await chromium.executablePath(), args: chromium.args, headless: "shell" });
try {
  await write("PUT", { state: "paid" });
  const page = await browser.newPage();
  page.setDefaultTimeout(20_000);
  await page.goto(PAGE);
  const shown = (n) => page.waitForFunction((n) => document.querySelectorAll("#states li").length >= n, {}, n);
  const states = ["paid", "packed", "weighed", "sent", "delivered"];
  await shown(1);
  for (const [i, state] of states.entries()) {
    if (i === 0) continue;
    await new Promise((resolve) => setTimeout(resolve, 700));
    await write("POST", { state }, i === states.length - 1 ? { "Stream-Closed": "true" } : {});
    await shown(i + 1);
  }
  await shown(states.length + 1);
  assert.deepEqual(await page.$$eval("#states li", (all) => all.map((li) => li.textContent)), [...states, "the end"]);
} finally {
  await browser.close();
}
