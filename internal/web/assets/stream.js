// One stream: what it is, what is in it, and what can be done with it.
import { Chart } from "./chart.js";
import { ask } from "./dialogs.js";
import { attempt, copy, count, h, say, size, when } from "./dom.js";
import { forkTree } from "./forks.js";
import { Log } from "./log.js";
import * as server from "./server.js";

// StreamView shows a stream in an element until stop is called. onChanged is told when
// the list of streams is out of date.
export class StreamView {
  constructor(element, path, onChanged) {
    this.element = element;
    this.path = path;
    this.onChanged = onChanged;
    this.got = { messages: 0, bytes: 0 };
  }

  async open() {
    const { type, tail, closed } = await server.head(this.path);
    Object.assign(this, { type, tail, closed });
    this.log = new Log(this.path, type, {
      onEvent: (event, messages) => this.arrived(event, messages),
      onState: (state) => this.showState(state),
      onClosed: () => this.showClosed(),
    });
    this.element.replaceChildren(this.title(), this.facts(), this.charts(), this.reading(), this.log.element, this.more());
    if (closed) this.showClosed();
    this.log.from("-1");
    this.ticking = setInterval(() => this.tick(), 1000);
    await this.load();
  }

  stop() {
    clearInterval(this.ticking);
    this.log?.stop();
  }

  title() {
    this.closedMark = h("span", { class: "chip", hidden: true }, "closed");
    const change = (label, key, act) => !server.config.readOnly && h("button", { type: "button", "data-key": key, onclick: () => act.call(this) }, label);
    this.appendButton = change("Append", "a", this.append);
    this.closeButton = change("Close", "c", this.close);
    return h(
      "header",
      { class: "title" },
      h("a", { class: "back", href: "#/", "aria-label": "All streams" }, "‹"),
      h("h1", {}, this.path),
      this.closedMark,
      h("span", { class: "spring" }),
      this.appendButton,
      this.closeButton,
      change("Fork", "f", this.fork),
      change("Delete", "d", this.remove),
      h("button", { type: "button", onclick: () => copy(new URL(server.streamURL(this.path), location.href).href) }, "Copy URL"),
    );
  }

  facts() {
    this.list = h("dl", { class: "facts" });
    return this.list;
  }

  charts() {
    this.perSecond = new Chart("messages a second", count);
    this.bytesPerSecond = new Chart("bytes a second", size);
    return h("div", { class: "charts" }, this.perSecond.element, this.bytesPerSecond.element);
  }

  // reading is the line above the content: from where, how, and whether it is live.
  reading() {
    this.state = h("output", { class: "chip" }, "…");
    const offset = h("input", { name: "offset", "aria-label": "Offset to read from", placeholder: "offset", autocomplete: "off", spellcheck: "false" });
    const jump = (event) => {
      event.preventDefault();
      this.log.from(offset.value.trim() || "-1");
    };
    const view = h("select", { "aria-label": "How to show it", onchange: () => this.log.show(view.value) }, this.log.views.map((v) => h("option", { value: v, selected: v === this.log.view }, v)));
    this.pauseButton = h("button", { type: "button", "aria-pressed": "false", "data-key": " ", onclick: () => this.pause() }, "Pause");
    return h(
      "form",
      { class: "reading", onsubmit: jump },
      this.state,
      h("button", { type: "button", "data-key": "g", onclick: () => this.log.from("-1") }, "Start"),
      h("button", { type: "button", "data-key": "G", onclick: () => this.log.from("now") }, "Now"),
      offset,
      h("button", {}, "Go"),
      h("span", { class: "spring" }),
      this.pauseButton,
      view,
    );
  }

  more() {
    const fold = h("details", {}, h("summary", {}, "Forks"));
    fold.addEventListener("toggle", () => fold.append(forkTree({ path: this.path, ...this.described })), { once: true });
    return fold;
  }

  pause() {
    const paused = !this.log.paused;
    this.log.pause(paused);
    this.pauseButton.setAttribute("aria-pressed", String(paused));
    this.showState(this.state.dataset.state);
  }

  // load gets what only the administration knows.
  async load() {
    this.described = await server.describe(this.path);
    this.showFacts();
  }

  showFacts() {
    const d = this.described ?? {};
    const fact = (name, value) => value && h("div", {}, h("dt", {}, name), h("dd", {}, value));
    this.list.replaceChildren(
      ...[
        fact("Type", this.type),
        fact("Tail", h("button", { type: "button", class: "plain", title: "Copy", onclick: () => copy(this.tail) }, this.tail)),
        fact("Size", d.bytes !== undefined && size(d.bytes)),
        fact("Created", d.created && when(d.created)),
        fact("Last write", d.lastWrite && when(d.lastWrite)),
        fact("TTL", d.ttlSeconds && `${d.ttlSeconds} s`),
        fact("Expires", d.expiresAt && when(d.expiresAt)),
        fact("Forked from", d.forkedFrom && h("a", { href: `#/streams/${d.forkedFrom}` }, d.forkedFrom)),
        fact("Forks", d.forks > 0 && count(d.forks)),
      ].filter(Boolean),
    );
  }

  arrived(event, messages) {
    this.got.messages += messages;
    if (messages > 0) this.got.bytes += event.bytes?.length ?? new Blob([event.text]).size;
    if (event.upToDate) {
      const grown = this.tail !== event.next;
      this.tail = event.next;
      this.stale ||= grown;
    }
  }

  // tick draws the second that has passed; figures that have grown old are loaded anew.
  tick() {
    this.perSecond.push(this.got.messages);
    this.bytesPerSecond.push(this.got.bytes);
    this.got = { messages: 0, bytes: 0 };
    if (!this.stale) return;
    this.stale = false;
    attempt(() => this.load());
  }

  showState(state) {
    this.state.textContent = this.closed && state !== "held" ? "closed" : this.log.paused ? "paused" : state;
    this.state.dataset.state = state;
  }

  showClosed() {
    this.closed = true;
    this.closedMark.hidden = false;
    for (const button of [this.appendButton, this.closeButton]) if (button) button.disabled = true;
    this.showState("closed");
  }

  append() {
    const json = server.isJSON(this.type);
    return ask({
      title: "Append",
      action: "Append",
      fields: [{ name: "body", label: json ? "One message, or an array of messages" : "Content", kind: "area", required: true, focus: true, hint: "Ctrl+Enter sends it." }],
      onSubmit: async ({ body }) => {
        await server.append(this.path, this.type, body);
        say("Appended.");
      },
    });
  }

  close() {
    return ask({
      title: "Close this stream?",
      text: `Nothing can be appended to ${this.path} any more. It can still be read.`,
      action: "Close it",
      dangerous: true,
      onSubmit: async () => {
        await server.close(this.path);
        this.onChanged();
        say("Closed.");
      },
    });
  }

  async fork() {
    const made = await ask({
      title: "Fork",
      text: "A new stream that begins with what this one holds, up to an offset.",
      action: "Fork",
      fields: [
        { name: "path", label: "Path of the fork", value: `${this.path}-fork`, required: true, focus: true },
        { name: "offset", label: "Offset", hint: "Empty: all there is now." },
        { name: "sub", label: server.isJSON(this.type) ? "Messages after the offset" : "Bytes after the offset", kind: "number" },
      ],
      onSubmit: async ({ path, offset, sub }) => {
        await server.fork(server.inURL(path), { source: this.path, offset: offset.trim(), subOffset: sub });
        return path;
      },
    });
    if (!made) return;
    this.onChanged();
    location.hash = `#/streams/${server.inURL(made)}`;
  }

  async remove() {
    const gone = await ask({
      title: "Delete this stream?",
      text: `${this.path} and all it holds will be gone. Forks of it keep what they inherited.`,
      action: "Delete it",
      dangerous: true,
      onSubmit: () => server.remove(this.path),
    });
    if (!gone) return;
    say("Deleted.");
    this.onChanged();
    location.hash = "#/";
  }
}
