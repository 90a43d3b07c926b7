// What the pages share: numbers for people, elements, axes, hover.

const data = JSON.parse(document.getElementById("data").textContent);
const page = document.getElementById("page");
const tip = document.getElementById("tip");
const palette = ["blue", "orange", "green", "purple", "red", "teal", "gold"];

const color = name => `var(--${name})`;
const resolved = name => getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();
const whole = n => Math.round(n).toLocaleString("en-US");

/** 124.4 M; exact below ten thousand. */
function short(n, units = ["", " k", " M", " G", " T", " P", " E"], base = 1000) {
  let unit = 0;
  while (Math.abs(n) >= base && unit + 1 < units.length) { n /= base; unit++; }
  return (unit === 0 ? whole(n) : n.toFixed(n >= 100 ? 0 : n >= 10 ? 1 : 2)) + units[unit];
}
const bytes = n => short(n, [" bytes", " KiB", " MiB", " GiB", " TiB"], 1024);
const flop = n => short(n, [" FLOP", " kFLOP", " MFLOP", " GFLOP", " TFLOP", " PFLOP", " EFLOP"]);
const percent = (part, all) => all ? (100 * part / all).toFixed(part / all < 0.0995 ? 1 : 0) + " %" : "";
/** A real number to four digits, without a tail of zeros. */
function real(x) {
  if (x === 0) return "0";
  const size = Math.abs(x);
  return size >= 1e5 || size < 1e-4 ? x.toExponential(2).replace(/\.?0+e/, "e") : String(Number(x.toPrecision(4)));
}
/** A loss: four decimals, as `train` prints it. */
const lossText = x => x === 0 || Math.abs(x) >= 0.001 ? x.toFixed(4) : real(x);

function make(name, attributes, children, namespace) {
  const node = namespace ? document.createElementNS(namespace, name) : document.createElement(name);
  for (const [key, value] of Object.entries(attributes || {})) {
    if (value === null || value === undefined) continue;
    if (key.startsWith("on")) node.addEventListener(key.slice(2), value);
    else node.setAttribute(key, value);
  }
  for (const child of [children].flat(3))
    if (child !== null && child !== undefined) node.append(child);
  return node;
}
const el = (name, attributes, ...children) => make(name, attributes, children);
const svg = (name, attributes, ...children) => make(name, attributes, children, "http://www.w3.org/2000/svg");

function section(title, text, ...children) {
  const node = el("section", {}, el("h2", {}, title), text ? el("p", { class: "caption" }, text) : null, children);
  page.append(node);
  return node;
}
const key = entries => el("div", { class: "legend" }, entries.map(([name, paint, line]) =>
  el("span", {}, el("i", { class: line ? "line" : null, style: `background:${paint};border-color:${paint}` }), name)));

function showTip(event, text) {
  tip.textContent = text;
  tip.hidden = false;
  const box = tip.getBoundingClientRect();
  let x = event.clientX + 14, y = event.clientY + 16;
  if (x + box.width > innerWidth - 6) x = Math.max(6, event.clientX - box.width - 12);
  if (y + box.height > innerHeight - 6) y = event.clientY - box.height - 12;
  tip.style.left = `${x}px`;
  tip.style.top = `${y}px`;
}
const hideTip = () => { tip.hidden = true; };
/** Says `text` where the pointer is on `node`, and to readers of the page. */
function withTip(node, text) {
  node.addEventListener("pointermove", event => showTip(event, text));
  node.addEventListener("pointerleave", hideTip);
  return node;
}

/** Draws into a new figure again whenever its width or the colours change. */
function drawing(label, draw, caption) {
  const place = el("div");
  const figure = el("figure", {}, place, caption ? el("figcaption", {}, caption) : null);
  let width = 0;
  const again = () => {
    if (width <= 0) return;
    const node = draw(width);
    node.setAttribute("role", "img");
    node.setAttribute("aria-label", label);
    place.replaceChildren(node);
  };
  const fit = () => {
    const now = Math.floor(place.clientWidth);
    if (now !== width) { width = now; again(); }
  };
  // Once the page is there; an observer alone would wait for its first frame.
  addEventListener("DOMContentLoaded", fit);
  new ResizeObserver(fit).observe(place);
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", again);
  figure.redraw = again;
  return figure;
}

/** Round numbers from `low` to `high`. */
function ticks(low, high, most) {
  const rough = (high - low) / Math.max(1, most);
  if (!(rough > 0)) return [low];
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = power * [1, 2, 2.5, 5, 10].find(factor => factor * power >= rough * 0.999);
  const list = [];
  for (let i = Math.ceil(low / step - 1e-9); i * step <= high + step * 1e-9; i++) list.push(Number((i * step).toPrecision(12)));
  return list;
}
/** Powers of ten; 3, or 2 and 5, of them where these are few; in a narrow range as on a linear axis. */
function logTicks(low, high) {
  for (const factors of [[1], [1, 3], [1, 2, 5]]) {
    const list = [];
    for (let power = Math.floor(Math.log10(low)); power <= Math.ceil(Math.log10(high)); power++)
      for (const factor of factors) {
        const tick = Number((factor * 10 ** power).toPrecision(2));
        if (tick >= low && tick <= high) list.push(tick);
      }
    if (list.length > 2) return list.filter((_, i) => i % Math.ceil(list.length / 7) === 0);
  }
  return ticks(low, high, 4);
}
/** The width that a text takes at a size of 12.5 px. */
const ruler = document.createElement("canvas").getContext("2d");
function textWidth(text, font = "12.5px system-ui, sans-serif") {
  ruler.font = font;
  return ruler.measureText(text).width;
}
function shortened(text, width, font) {
  if (textWidth(text, font) <= width) return text;
  while (text.length > 1 && textWidth(text + "\u2026", font) > width) text = text.slice(0, -1);
  return text.length > 1 ? text + "\u2026" : "";
}
