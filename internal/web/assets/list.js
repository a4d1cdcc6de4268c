// The list of streams: searched by prefix, loaded page by page.
import { attempt, h, size } from "./dom.js";
import { config, streams } from "./server.js";

const pageSize = 100;
const typingPause = 200;

// List shows the streams in an element. onCreate is what its button does.
export class List {
  constructor(element, { onCreate }) {
    this.search = h("input", { type: "search", "aria-label": "Search streams by the start of their path", placeholder: "Search by prefix  /", autocomplete: "off", spellcheck: "false", oninput: () => this.typed() });
    this.rows = h("ul", { class: "streams" });
    this.more = h("button", { type: "button", hidden: true, onclick: () => attempt(() => this.load()) }, "Show more");
    this.empty = h("p", { class: "dim", hidden: true });
    const create = !config.readOnly && h("button", { type: "button", class: "main", onclick: onCreate }, "New stream");
    element.replaceChildren(h("div", { class: "search" }, this.search, create), this.rows, this.empty, this.more);
    this.selected = "";
  }

  typed() {
    clearTimeout(this.typing);
    this.typing = setTimeout(() => this.refresh(), typingPause);
  }

  // refresh loads the list anew.
  refresh() {
    this.loading?.abort();
    this.loading = new AbortController();
    this.after = "";
    this.fresh = true;
    return attempt(() => this.load());
  }

  async load() {
    const { signal } = this.loading;
    const prefix = this.search.value.trim();
    let page;
    do {
      // A part may be empty: the server looks at so many streams at once, and this token may read few of them.
      page = await streams({ prefix, after: page?.next ?? this.after, limit: pageSize, signal });
      if (signal.aborted) return;
    } while (page.streams.length === 0 && page.next);
    const rows = page.streams.map((s) => this.row(s));
    if (this.fresh) this.rows.replaceChildren(...rows);
    else this.rows.append(...rows);
    this.fresh = false;
    this.after = page.next;
    this.more.hidden = !page.next;
    this.empty.hidden = this.rows.childElementCount > 0;
    this.empty.textContent = prefix ? `No stream begins with “${prefix}”.` : "There are no streams yet.";
    this.mark();
  }

  row(s) {
    const what = [s.deleted ? "deleted, kept for its forks" : "", s.closed ? "closed" : "", s.forkedFrom ? "fork" : ""].filter(Boolean);
    return h(
      "li",
      {},
      h("a", { href: `#/streams/${s.path}`, "data-path": s.path }, h("span", { class: "path" }, s.path), h("span", { class: "dim" }, [size(s.bytes), ...what].join(" · "))),
    );
  }

  // select marks the stream that is shown.
  select(path) {
    this.selected = path;
    this.mark();
  }

  mark() {
    for (const a of this.rows.querySelectorAll("a")) {
      if (a.dataset.path === this.selected) a.setAttribute("aria-current", "page");
      else a.removeAttribute("aria-current");
    }
  }

  // step goes to the next (1) or previous (-1) stream.
  step(by) {
    const links = [...this.rows.querySelectorAll("a")];
    const now = links.findIndex((a) => a.dataset.path === this.selected);
    const to = links[Math.max(0, Math.min(links.length - 1, now + by))];
    to?.click();
    to?.scrollIntoView({ block: "nearest" });
  }
}
