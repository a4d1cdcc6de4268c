// The subscriptions, and what each of them waits for.
import { attempt, h } from "./dom.js";
import { subscriptions } from "./server.js";

// SubscriptionsView lists the subscriptions in an element.
export class SubscriptionsView {
  constructor(element) {
    this.element = element;
  }

  async open() {
    this.rows = h("div", { class: "subscriptions" });
    this.more = h("button", { type: "button", hidden: true, onclick: () => attempt(() => this.load()) }, "Show more");
    this.element.replaceChildren(h("h1", {}, "Subscriptions"), this.rows, this.more);
    await this.load();
    if (this.rows.childElementCount === 0) this.rows.append(h("p", { class: "dim" }, "There are no subscriptions."));
  }

  stop() {}

  async load() {
    const page = await subscriptions(this.after);
    this.after = page.next;
    this.more.hidden = !page.next;
    this.rows.append(...page.subscriptions.map(card));
  }
}

function card(s) {
  const fact = (name, value) => value && h("div", {}, h("dt", {}, name), h("dd", {}, value));
  return h(
    "article",
    {},
    h("h2", {}, s.id),
    h(
      "dl",
      { class: "facts" },
      fact("Kind", s.type),
      fact("State", s.state),
      fact("Pattern", s.pattern),
      fact("Webhook", s.webhookURL),
      fact("Wake stream", s.wakeStream && h("a", { href: `#/streams/${s.wakeStream}` }, s.wakeStream)),
      fact("Generation", String(s.generation)),
      fact("Pending streams", String(s.pending)),
    ),
  );
}
