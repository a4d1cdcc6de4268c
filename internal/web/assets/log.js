// The content of a stream as it arrives: a list that keeps its last rows only, and
// that reads no further than somebody wants to see.
import { attempt, h } from "./dom.js";
import { follow } from "./live.js";
import { hexRow, jsonRow, split, textRow, toBytes, toText } from "./messages.js";
import { isJSON, isText } from "./server.js";

const mostRows = 1000;
const rowsAtOnce = 500;

// Log shows one stream. hooks: onEvent(event, messages), onState(text), onClosed().
export class Log {
  constructor(path, type, hooks) {
    this.path = path;
    this.json = isJSON(type);
    this.hooks = hooks;
    this.views = this.json ? ["json", "raw"] : ["text", "events", "hex"];
    this.view = this.json ? "json" : isText(type) ? "text" : "hex";
    this.rows = h("ol", { class: "rows", "data-view": this.view, "aria-label": "Messages", tabindex: "0" });
    this.more = h("button", { type: "button", hidden: true, onclick: () => this.goOn() }, "Show more");
    this.note = h("p", { class: "dim", hidden: true }, "Earlier rows were dropped from the screen.");
    this.element = h("div", { class: "log" }, this.note, this.rows, this.more);
    this.kept = [];
    this.paused = false;
  }

  // from shows the stream from an offset on; what was shown before goes.
  from(offset) {
    this.stop();
    this.kept = [];
    this.rows.replaceChildren();
    this.note.hidden = true;
    this.left = rowsAtOnce;
    this.reading = new AbortController();
    attempt(() => this.read(offset, this.reading));
  }

  stop() {
    this.reading?.abort();
    this.goOn();
  }

  async read(offset, reading) {
    let live = false;
    let at = offset;
    const states = (state) => this.reading === reading && this.hooks.onState(state);
    try {
      for await (const event of follow(this.path, offset, reading.signal, states)) {
        for (const row of this.rowsOf(event, at)) {
          if (this.paused || (!live && this.left <= 0)) {
            states("held");
            await this.hold();
            states("live");
          }
          if (reading.signal.aborted) return;
          this.left--;
          this.add(row);
        }
        if (reading.signal.aborted) return;
        this.hooks.onEvent(event, live ? this.messages(event) : 0);
        at = event.next;
        live ||= event.upToDate;
        if (event.closed) this.hooks.onClosed();
      }
    } catch (error) {
      states("ended");
      throw error;
    }
  }

  // hold waits until somebody wants to see more.
  hold() {
    this.more.hidden = this.paused;
    return new Promise((resolve) => {
      this.resume = resolve;
    });
  }

  goOn() {
    this.more.hidden = true;
    this.left = rowsAtOnce;
    this.resume?.();
    this.resume = undefined;
  }

  pause(paused) {
    this.paused = paused;
    if (!paused) this.goOn();
  }

  messages(event) {
    if (event.text === undefined && event.bytes === undefined) return 0;
    return this.json ? split(event.text).length : 1;
  }

  // rowsOf gives what an event adds: one row a message, or one for all its bytes.
  rowsOf(event, at) {
    if (event.text === undefined && event.bytes === undefined) return [];
    const time = new Date().toLocaleTimeString([], { hour12: false });
    if (!this.json) return [{ event, at, time }];
    return split(event.text).map((message, i) => ({ message, time, at: i === 0 ? at : undefined }));
  }

  add(row) {
    const atEnd = this.rows.scrollHeight - this.rows.scrollTop - this.rows.clientHeight < 40;
    this.kept.push(row);
    this.rows.append(this.render(row));
    while (this.kept.length > mostRows) {
      this.kept.shift();
      this.rows.firstElementChild.remove();
      this.note.hidden = false;
    }
    if (atEnd) this.rows.scrollTop = this.rows.scrollHeight;
  }

  // show changes how everything is shown.
  show(view) {
    this.view = view;
    this.rows.dataset.view = view;
    this.rows.replaceChildren(...this.kept.map((row) => this.render(row)));
    this.rows.scrollTop = this.rows.scrollHeight;
  }

  render(row) {
    let content;
    if (row.message !== undefined) content = this.view === "json" ? jsonRow(row.message) : textRow(row.message);
    else content = this.view === "hex" ? hexRow(toBytes(row.event)) : textRow(toText(row.event));
    return h("li", { title: row.at && `from offset ${row.at}` }, h("time", {}, row.time), content);
  }
}
