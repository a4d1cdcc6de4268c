// Small charts of what happens while one looks.
import { h, svg } from "./dom.js";

const points = 60;
const width = 180;
const height = 36;

// Chart draws the last minute of a figure, one bar a second.
export class Chart {
  // name says what is shown, write how a value reads.
  constructor(name, write) {
    this.values = new Array(points).fill(0);
    this.write = write;
    this.bars = svg("path", { class: "bars" });
    this.now = h("output", {}, write(0));
    this.name = name;
    this.picture = svg("svg", { viewBox: `0 0 ${width} ${height}`, preserveAspectRatio: "none", role: "img", "aria-label": `${name}, the last minute` }, this.bars);
    this.element = h("figure", { class: "chart" }, h("figcaption", {}, name, " ", this.now), this.picture);
  }

  // push adds the figure of one more second.
  push(value) {
    this.values.push(value);
    this.values.shift();
    const most = Math.max(...this.values, 1e-9);
    const step = width / points;
    this.bars.setAttribute(
      "d",
      this.values.map((v, i) => (v > 0 ? `M${(i * step).toFixed(1)} ${height}v${(-(v / most) * (height - 2) - 1).toFixed(1)}h${(step - 0.8).toFixed(1)}V${height}z` : "")).join(""),
    );
    this.now.textContent = this.write(value);
  }
}
