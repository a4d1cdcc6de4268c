// Small help for building the page out of elements.

// h makes an element: h("a", {class: "x", href: "#/", onclick: f}, "text", child).
// A property that is undefined, null or false is left out.
export function h(tag, props = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(props ?? {})) {
    if (value === undefined || value === null || value === false) continue;
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (name === "value" || name === "checked") element[name] = value;
    else element.setAttribute(name, value === true ? "" : String(value));
  }
  element.append(...children.flat().filter((c) => c !== undefined && c !== null && c !== false));
  return element;
}

// svg makes an element of a drawing.
export function svg(tag, props = {}, ...children) {
  const element = document.createElementNS("http://www.w3.org/2000/svg", tag);
  for (const [name, value] of Object.entries(props)) element.setAttribute(name, String(value));
  element.append(...children);
  return element;
}

const units = ["B", "KiB", "MiB", "GiB", "TiB"];

// size writes a number of bytes as a person reads it.
export function size(bytes) {
  let unit = 0;
  let value = Number(bytes);
  while (value >= 1024 && unit < units.length - 1) {
    value /= 1024;
    unit++;
  }
  return `${unit > 0 && value < 10 ? value.toFixed(1) : Math.round(value)} ${units[unit]}`;
}

// count writes a whole number with its thousands apart.
export const count = (n) => Number(n).toLocaleString("en-US");

// when writes a moment: the time if it is today, else the date as well.
export function when(text) {
  const date = new Date(text);
  if (Number.isNaN(date.getTime())) return "–";
  const time = date.toLocaleTimeString([], { hour12: false });
  return date.toDateString() === new Date().toDateString() ? time : `${date.toLocaleDateString()} ${time}`;
}

let fading;

// say tells what happened, on the screen and to a screen reader.
export function say(text, kind = "done") {
  const status = document.getElementById("status");
  status.textContent = text;
  status.className = kind;
  clearTimeout(fading);
  fading = setTimeout(() => status.classList.add("faded"), kind === "failed" ? 12000 : 4000);
}

// attempt runs something that may fail and tells why it did. It reports whether it went well.
export async function attempt(what) {
  try {
    await what();
    return true;
  } catch (error) {
    if (error.name !== "AbortError") say(error.message, "failed");
    return false;
  }
}

// copy puts text on the clipboard.
export const copy = (text) =>
  attempt(async () => {
    await navigator.clipboard.writeText(text);
    say("Copied.");
  });
