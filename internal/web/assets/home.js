// The first view: how much there is, and how it grows.
import { Chart } from "./chart.js";
import { attempt, count, h, size } from "./dom.js";
import { config, totals } from "./server.js";

const pollEvery = 1000;

// HomeView shows the server's totals in an element until stop is called.
export class HomeView {
  constructor(element) {
    this.element = element;
  }

  async open() {
    this.figures = h("dl", { class: "facts" });
    this.growth = new Chart("bytes a second", size);
    this.created = new Chart("streams a second", count);
    const example = `curl -X PUT ${new URL(config.streams, location.href).href}hello -H 'Content-Type: text/plain' -d 'Hello'`;
    this.element.replaceChildren(
      h("h1", {}, "Streams of this server"),
      this.figures,
      h("div", { class: "charts" }, this.growth.element, this.created.element),
      ...(config.readOnly ? [] : [h("h2", {}, "Write one"), h("pre", { class: "text", tabindex: "0" }, example)]),
      ...(config.version ? [h("p", { class: "dim" }, `ds ${config.version}`)] : []),
    );
    try {
      await this.poll();
    } catch (error) {
      if (error.status !== 403) throw error;
      this.element.replaceChildren(h("h1", {}, "Streams of this server"), h("p", {}, "Choose one. Only those are listed that your token allows you to read."));
      return;
    }
    if (this.stopped) return;
    this.polling = setInterval(() => attempt(() => this.poll()), pollEvery);
  }

  stop() {
    this.stopped = true;
    clearInterval(this.polling);
  }

  async poll() {
    if (this.asking) return; // counting many streams takes a while
    this.asking = true;
    let now;
    try {
      now = await totals();
    } finally {
      this.asking = false;
    }
    if (this.last) {
      this.growth.push(Math.max(0, now.bytes - this.last.bytes));
      this.created.push(Math.max(0, now.streams - this.last.streams));
    }
    this.last = now;
    const fact = (name, value) => h("div", {}, h("dt", {}, name), h("dd", {}, value));
    this.figures.replaceChildren(fact("Streams", count(now.streams)), fact("Content", size(now.bytes)), fact("Closed", count(now.closed)), fact("Forks", count(now.forks)));
  }
}
