// A stream's place among its forks, as a tree.
import { attempt, h } from "./dom.js";
import { describe, streams } from "./server.js";

const longestChain = 256;
const pageSize = 10000;

// forkTree shows where a stream comes from, and on demand what was forked from it: there is
// no index of that, so all streams have to be looked through.
export function forkTree(stream) {
  const tree = h("div", { class: "forks" });
  const search = h("button", { type: "button", onclick: () => attempt(() => look()) }, "Look for forks");
  const note = h("p", { class: "dim" });
  let children = [];

  async function look() {
    search.disabled = true;
    try {
      const found = [];
      let after = "";
      do {
        const page = await streams({ source: stream.path, after, limit: pageSize });
        found.push(...page.streams);
        after = tree.isConnected ? page.next : ""; // nobody looks any more
      } while (after);
      children = found;
    } finally {
      search.disabled = false;
    }
    note.textContent = children.length > 0 ? "" : "Nothing was forked from it.";
    await draw();
  }

  async function draw() {
    const chain = [stream];
    while (chain[0].forkedFrom && chain.length < longestChain) {
      const source = await describe(chain[0].forkedFrom).catch(() => ({ path: chain[0].forkedFrom, deleted: true }));
      chain.unshift(source);
    }
    tree.replaceChildren(h("ul", {}, node(chain, 0)));
  }

  function node(chain, depth) {
    const s = chain[depth];
    const next = chain[depth + 1];
    const forks = s.path === stream.path ? children : [];
    const below = [...(next ? [node(chain, depth + 1)] : []), ...forks.map((c) => node([c], 0))];
    const name = s.path === stream.path ? h("strong", { "aria-current": "page" }, s.path) : s.deleted ? h("span", {}, s.path) : h("a", { href: `#/streams/${s.path}` }, s.path);
    return h("li", {}, name, s.deleted && h("span", { class: "dim" }, " deleted, kept for its forks"), s.forkOffset && h("span", { class: "dim" }, ` at ${s.forkOffset}`), below.length > 0 && h("ul", {}, below));
  }

  attempt(draw);
  return h("section", { "aria-label": "Forks" }, tree, search, note);
}
