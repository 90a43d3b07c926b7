// Training runs.

const runs = data.runs;
const several = runs.length > 1;
runs.forEach((run, i) => {
  run.paint = color(palette[i % palette.length]);
  run.dashed = i >= palette.length;
});
// Runs of the same name are told apart by their paths.
runs.forEach(run => { run.label = runs.filter(other => other.name === run.name).length > 1 ? run.path : run.name; });

const last = list => list[list.length - 1];
const best = run => run.validations.length ? run.validations.reduce((a, b) => b[1] < a[1] ? b : a) : null;
/** `smooth`: the weight that the reader has set; each run has its own until then. */
const settings = { log: false, smooth: null };

/** Weight of the past in a smoothed curve: over a fiftieth of the points, since it lags behind by as much. */
const smoothing = (points, most) => Math.min(most, Math.max(0, 1 - 50 / points.length));
const smoothingOf = run => settings.smooth ?? smoothing(run.points, 0.9);

/** Exponential mean with the bias of its beginning taken out. */
function smoothed(points, column, weight) {
  let mean = 0, mass = 0;
  return points.map(point => {
    mean = weight * mean + (1 - weight) * point[column];
    mass = weight * mass + (1 - weight);
    return [point[0], mean / mass];
  });
}

/** Lines `{name, points: [[x, y]], told, paint, faint, dots, label, dashed}` over steps; the pointer tells of `told`, else of the points. */
function chart(title, lines, { height = 200, log = false, caption, zero = false, text = real } = {}) {
  return drawing(title, width => {
    const labels = lines.filter(line => line.label);
    const narrow = width < 560;
    const right = narrow || !labels.length ? 12 : Math.min(190, Math.max(...labels.map(line => textWidth(line.label))) + 12);
    const left = 54, top = 10, bottom = 34;
    const shown = lines.filter(line => !line.faint).flatMap(line => line.points.map(point => point[1])).filter(v => Number.isFinite(v) && (!log || v > 0));
    const faint = lines.filter(line => line.faint).flatMap(line => line.points.map(point => point[1])).filter(v => Number.isFinite(v) && (!log || v > 0));
    const all = shown.concat(faint);
    // Many runs have more points than a call may have arguments.
    const x0 = 0, x1 = lines.reduce((most, line) => line.points.reduce((max, point) => Math.max(max, point[0]), most), 1);
    let low = zero ? 0 : Infinity, high = -Infinity;
    for (const v of all) { if (v < low) low = v; if (v > high) high = v; }
    if (!(high > low)) { low -= Math.abs(low) * 0.1 || 1; high += Math.abs(high) * 0.1 || 1; }
    const marks = log ? logTicks(low, high) : ticks(low, high, height / 45);
    const pad = log ? 1 : (high - low) * 0.03;
    if (log) { low /= 1.03; high *= 1.03; } else { if (!zero) low -= pad; high += pad; }
    const f = log ? Math.log : v => v;
    const x = v => left + (width - left - right) * (v - x0) / (x1 - x0);
    const y = v => top + (height - top - bottom) * (1 - (f(v) - f(low)) / (f(high) - f(low)));
    const root = svg("svg", { viewBox: `0 0 ${width} ${height}`, height });
    for (const mark of marks) {
      root.append(svg("line", { class: "rule", x1: left, x2: width - right, y1: y(mark), y2: y(mark) }));
      root.append(svg("text", { class: "soft", x: left - 8, y: y(mark) + 4, "text-anchor": "end" }, real(mark)));
    }
    for (const mark of ticks(x0, x1, Math.max(2, (width - left - right) / 110)))
      root.append(svg("text", { class: "soft", x: x(mark), y: height - bottom + 18, "text-anchor": x(mark) > width - 24 ? "end" : "middle" }, whole(mark)));
    root.append(svg("text", { class: "soft", x: (left + width - right) / 2, y: height - 2, "text-anchor": "middle" }, "step"));
    for (const line of lines) {
      const points = line.points.filter(([, v]) => Number.isFinite(v) && (!log || v > 0));
      const d = points.map(([px, py], i) => `${i ? "L" : "M"}${x(px).toFixed(1)},${y(py).toFixed(1)}`).join("");
      root.append(svg("path", { d, fill: "none", stroke: line.paint, "stroke-width": line.faint ? 1 : 1.8, "stroke-opacity": line.faint ? 0.28 : 1,
        "stroke-linejoin": "round", "stroke-dasharray": line.dashed ? "5 4" : null }));
      if (line.dots && points.length < (width - left - right) / 9)
        for (const [px, py] of points) root.append(svg("circle", { cx: x(px), cy: y(py), r: 2.6, fill: line.paint }));
    }
    // Labels at the ends of their lines, moved apart.
    if (!narrow) {
      const placed = labels.filter(line => line.points.length).map(line => ({ line, at: y(last(line.points)[1]) + 4, x: x(last(line.points)[0]) + 7 })).sort((a, b) => a.at - b.at);
      for (let i = 1; i < placed.length; i++) placed[i].at = Math.max(placed[i].at, placed[i - 1].at + 15);
      const over = placed.length ? last(placed).at - (height - bottom + 4) : 0;
      if (over > 0) placed.forEach((label, i) => { label.at -= over; if (i) label.at = Math.max(label.at, placed[i - 1].at + 15); });
      for (const { line, at, x: px } of placed)
        root.append(svg("text", { class: "end", x: px, y: at, style: `fill:${line.paint}` }, shortened(line.label, width - px)));
    }
    const cross = svg("line", { class: "cross", y1: top, y2: height - bottom, visibility: "hidden" });
    root.append(cross);
    const near = (points, step) => {
      let a = 0, b = points.length - 1;
      while (b - a > 1) { const m = (a + b) >> 1; if (points[m][0] <= step) a = m; else b = m; }
      return Math.abs(points[a][0] - step) <= Math.abs(points[b][0] - step) ? points[a] : points[b];
    };
    root.addEventListener("pointermove", event => {
      const box = root.getBoundingClientRect();
      const step = x0 + (event.clientX - box.left - left) / (width - left - right) * (x1 - x0);
      if (step < x0 || step > x1 * 1.02) { cross.setAttribute("visibility", "hidden"); return hideTip(); }
      const told = lines.filter(line => !line.faint && line.points.length && step <= last(line.points)[0] * 1.02 + 1);
      if (!told.length) return hideTip();
      const first = near(told[0].points, step);
      cross.setAttribute("x1", x(first[0]));
      cross.setAttribute("x2", x(first[0]));
      cross.setAttribute("visibility", "visible");
      showTip(event, [`step ${whole(first[0])}`, ...told.map(line => {
        const point = near(line.told || line.points, step);
        return `${line.name}: ${text(point[1])}` + (point[0] !== first[0] ? ` (step ${whole(point[0])})` : "");
      })].join("\n"));
    });
    root.addEventListener("pointerleave", () => { cross.setAttribute("visibility", "hidden"); hideTip(); });
    return root;
  }, caption);
}

//--- The head -----------------------------------------------------------------

const head = el("header", {}, el("h1", {}, several ? "Training runs" : runs[0].label));
page.append(head);
const timeOf = run => run.validations.length ? last(run.validations)[2] : 0;
if (several) {
  head.append(el("div", { class: "scroll", style: "margin-top:18px" }, el("table", {},
    el("thead", {}, el("tr", {}, el("th", {}, "run"), ["steps", [...new Set(runs.map(run => run.unit))].join(" or "), "last training loss", "best validation loss", "at step"].map(name => el("th", { class: "number" }, name)))),
    el("tbody", {}, runs.map(run => {
      const low = best(run);
      return el("tr", {}, el("td", {}, key([[run.label, run.paint, true]])), el("td", { class: "number" }, whole(run.steps)), el("td", { class: "number" }, run.seen ? short(run.seen) : ""),
        el("td", { class: "number" }, run.loss === null ? "" : lossText(run.loss)),
        el("td", { class: "number" }, low ? lossText(low[1]) : ""), el("td", { class: "number" }, low ? whole(low[0]) : ""));
    })))));
} else {
  const run = runs[0], low = best(run);
  head.append(el("div", { class: "settings" }, el("code", {}, run.path)),
    el("div", { class: "figures" },
      [[whole(run.steps), "steps"], run.seen ? [short(run.seen), run.unit] : null,
       run.loss === null ? null : [lossText(run.loss), "training loss of the last step"],
       low ? [lossText(low[1]), `best validation loss, at step ${whole(low[0])}`] : null,
       timeOf(run) ? [whole(run.seen / timeOf(run) * (last(run.validations)[0] / run.steps)), `${run.unit} per second`] : null]
        .filter(Boolean).map(([value, text]) => el("div", {}, el("strong", {}, value), el("span", {}, text)))));
}

//--- Curves -------------------------------------------------------------------

const node = section("Loss", null);
const holder = el("div");
function drawLoss() {
  const lines = [];
  for (const run of runs) {
    const train = several ? run.paint : color("blue"), valid = several ? run.paint : color("orange");
    const dashed = run.dashed;
    if (run.points.length) {
      const steps = run.points.map(point => [point[0], point[1]]);
      const smooth = smoothingOf(run);
      if (smooth > 0) lines.push({ points: steps, paint: train, faint: true });
      lines.push({ points: smoothed(run.points, 1, smooth), told: steps, paint: train, name: several ? `${run.label}, training` : "training",
        label: several ? (run.validations.length ? null : run.label) : `training ${lossText(run.loss)}`, dashed: several && run.validations.length ? true : dashed });
    }
    if (run.validations.length)
      lines.push({ points: run.validations.map(point => [point[0], point[1]]), paint: valid, dots: true, name: several ? `${run.label}, validation` : "validation",
        label: `${several ? run.label : "validation"} ${lossText(last(run.validations)[1])}` });
  }
  const blocks = runs.filter(run => run.block > 1).map(run => `${several ? run.label + ": e" : "E"}ach point is the mean of ${run.block} steps.`).join(" ");
  holder.replaceChildren(chart("Loss by step", lines, { height: 400, log: settings.log, caption: blocks, text: lossText }));
}
const validated = runs.some(run => run.validations.length);
if (several)
  node.append(el("p", { class: "caption" }, validated ? "Solid with dots: validation. Dashed, or solid where a run has none: training, smoothed; the faint lines are the steps themselves." : "Smoothed; the faint lines are the steps themselves."));
else
  node.append(key([["training", color("blue"), true], validated ? ["validation", color("orange"), true] : null].filter(Boolean)));
node.append(el("div", { class: "controls" },
  el("label", {}, el("input", { type: "checkbox", onchange: event => { settings.log = event.target.checked; drawLoss(); } }), "Logarithmic"),
  el("label", {}, "Smoothing", el("input", { type: "range", min: 0, max: 0.99, step: 0.01, value: Math.max(...runs.map(smoothingOf)), oninput: event => { settings.smooth = Number(event.target.value); drawLoss(); } }))),
  holder);
drawLoss();

/** A column of the steps: itself faint and smoothed, or as it is. */
const column = (i, most) => runs.filter(run => run.points.some(point => point[i] !== 0)).flatMap(run => {
  const paint = several ? run.paint : color("blue"), points = run.points.map(point => [point[0], point[i]]);
  const line = { points, paint, name: run.label, dashed: run.dashed }, smooth = smoothing(points, most);
  return smooth ? [{ points, paint, faint: true }, { ...line, points: smoothed(run.points, i, smooth), told: points }] : [line];
});
const panels = el("div", { class: "panels", style: "margin-top:12px" });
for (const [name, i, most, options] of [["Learning rate", 2, 0, { zero: true }], ["Norm of the gradient", 3, 0.95, { log: true }]]) {
  const lines = column(i, most);
  if (!lines.length) continue;
  const figure = chart(`${name} by step`, lines, options);
  figure.prepend(el("h3", {}, name));
  panels.append(figure);
}
const answers = runs.flatMap(run => [[3, "seen in training"], [4, "not seen"]].map(([i, name]) => ({
  points: run.validations.filter(point => point[i] !== null).map(point => [point[0], point[i]]),
  paint: several ? run.paint : color(i === 3 ? "blue" : "orange"), dashed: several && i === 3, dots: true,
  name: several ? `${run.label}, ${name}` : name, label: several ? (i === 4 ? run.label : null) : name })).filter(line => line.points.length));
if (answers.length) {
  const figure = chart("Share of exact answers by step", answers, { zero: true });
  figure.prepend(el("h3", {}, "Exact answers"), el("p", { class: "caption" }, several ? "Solid: prompts that training has not seen. Dashed: prompts of the training part." : "To prompts of the training part, and to others."));
  panels.append(figure);
}
page.append(panels);

//--- Samples ------------------------------------------------------------------

for (const run of runs) {
  if (!run.samples.length) continue;
  page.append(el("h2", {}, several ? `Samples of ${run.label}` : "Samples"));
  for (const sample of run.samples.slice(-6))
    page.append(el("div", { class: "caption" }, `step ${whole(sample.step)}`), el("pre", { class: "sample" }, el("b", {}, sample.prompt), sample.text));
  if (run.samples.length > 6) page.append(el("p", { class: "caption" }, `The last 6 of ${run.samples.length}.`));
}
