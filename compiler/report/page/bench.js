// A run of `bench`: its kernels below the roofs of the machine (Williams, Waterman and Patterson 2009).

// GFLOP/s of multiply-adds on registers, by what products are made of.
const peaks = Object.entries(data.peaks_gflops), bandwidth = data.memory_gbs;
/** How a peak is called: by its kind where there are several. */
const peakName = products => peaks.length > 1 ? `peak of ${products}` : "peak";
const kinds = [["matmul", "matrix products", "blue"], ["attention", "attention", "orange"], ["row", "row by row", "green"], ["", "others", "purple"]];
const kindOf = name => kinds.find(([begin]) => name.startsWith(begin));
const limits = [["peak", "arithmetic", "blue"], ["memory", "memory", "teal"], ["cache", "caches", "gold"]];
const limitOf = entry => limits[entry.of === "peak" ? 0 : entry.share > 1 ? 2 : 1];
const three = x => x === 0 ? "0" : x >= 100 ? whole(x) : String(Number(x.toPrecision(3)));
const milliseconds = x => three(x) + " ms";
/** As `bench` prints it: what memory alone could not do comes out of the caches. */
const shareText = entry => limitOf(entry)[0] === "cache" ? "in cache" : `${(100 * entry.share).toFixed(0)} % of ${entry.of === "peak" && entry.products ? peakName(entry.products) : entry.of}`;

/** The kernels of `calls`, `[function, times]`: what each is in all of them together, the longest first. */
function kernelsOf(calls) {
  const list = calls.flatMap(([name, times]) => data.functions[name].kernels.map(kernel => {
    const all = kernel.runs * times, flops = kernel.flops * all, moved = kernel.bytes * all, time = kernel.milliseconds * times;
    return { ...kernel, function: name, runs: all, time, gflops: time > 0 ? flops / time / 1e6 : 0, gbs: time > 0 ? moved / time / 1e6 : 0,
      intensity: moved > 0 ? flops / moved : 0, paint: color(kindOf(kernel.name)[2]) };
  }));
  const sum = list.reduce((all, kernel) => all + kernel.time, 0);
  for (const kernel of list) kernel.part = sum > 0 ? kernel.time / sum : 0;
  return list.sort((a, b) => b.time - a.time);
}

// As a run goes through them.
const names = ["train", "update", "evaluate", "forward", "encode", "prefill", "decode"].filter(name => name in data.functions);
const trains = names.includes("train");
const views = [];
if (trains && names.includes("update"))
  views.push({ title: "training step" + (data.accumulate > 1 ? ` (${data.accumulate} × train, update)` : " (train, update)"), calls: [["train", data.accumulate], ["update", 1]] });
for (const name of names) views.push({ title: name, calls: [[name, 1]] });
for (const view of views) {
  view.kernels = kernelsOf(view.calls);
  view.time = view.calls.reduce((sum, [name, times]) => sum + data.functions[name].milliseconds * times, 0);
  // What is faster than memory could be is at its limit, not beyond it.
  view.least = view.kernels.reduce((sum, kernel) => sum + kernel.time * Math.min(1, kernel.share), 0);
}

//--- The head -----------------------------------------------------------------

const update = data.update_of_processes;
const exchange = update ? [[milliseconds(update.milliseconds), `update of ${update.processes} processes`],
  [milliseconds(update.exchange_milliseconds), "of it for exchanging gradients and parameters"],
  [milliseconds(update.hidden_exchange_milliseconds), "more of that hidden behind computing"]] : [];

page.append(el("header", {},
  el("h1", {}, data.model),
  el("div", { class: "settings" }, el("span", {}, el("code", {}, data.source)), el("span", {}, "compiled for ", el("b", {}, data.target)),
    el("span", {}, el("b", {}, data.precision)), el("span", {}, el("b", {}, String(data.threads)), data.threads === 1 ? " thread" : " threads")),
  el("div", { class: "figures" },
    [...peaks.map(([products, peak]) => [`${three(peak)} GFLOP/s`, `peak: ${products} multiply-adds on registers`]), [`${three(bandwidth)} GB/s`, "bandwidth of memory"],
     views.length ? [milliseconds(views[0].time), views[0].title] : null,
     trains && data.functions.train.tokens_per_second ? [whole(data.functions.train.tokens_per_second), "tokens per second through train"] : null,
     ...exchange]
      .filter(Boolean).map(([value, text]) => el("div", {}, el("strong", {}, value), el("span", {}, text))))));

//--- Functions ----------------------------------------------------------------

section("Functions", "Medians; the share is that of what limits a function as a whole.").append(el("div", { class: "scroll" }, el("table", {},
  el("thead", {}, el("tr", {}, el("th", {}, "function"), ["time", "fastest", "runs", "tokens/s", "GFLOP/s", "share"].map(name => el("th", { class: "number" }, name)))),
  el("tbody", {}, names.map(name => {
    const entry = data.functions[name];
    return el("tr", {}, el("td", {}, name), [milliseconds(entry.milliseconds), milliseconds(entry.fastest_milliseconds), whole(entry.runs),
      entry.tokens_per_second === null ? "" : whole(entry.tokens_per_second), entry.gflops ? three(entry.gflops) : "", shareText(entry)].map(text => el("td", { class: "number" }, text)));
  })))));

//--- The roofline -------------------------------------------------------------

const tipOf = kernel => `${kernel.name}\n${kernel.function}${kernel.path ? ": " + kernel.path : ""}${kernel.runs > 1 ? ` (${whole(kernel.runs)} runs)` : ""}\n` +
  `${milliseconds(kernel.time)}, ${percent(kernel.part, 1)} of the time\n${three(kernel.gflops)} GFLOP/s, ${three(kernel.gbs)} GB/s, ${three(kernel.intensity)} FLOP/byte\n` +
  `limited by ${limitOf(kernel)[1]}: ${shareText(kernel)}`;

function roofline(view) {
  const shown = view.kernels.filter(kernel => kernel.time > 0);
  return drawing(`Roofline of ${view.title}`, width => {
    const height = Math.round(Math.max(340, Math.min(520, width * 0.52)));
    const left = 58, right = 14, top = 14, bottom = 40, lane = 46;
    const ridges = peaks.map(([, peak]) => peak / bandwidth), ridge = Math.max(...ridges), highest = Math.max(...peaks.map(([, peak]) => peak)), counted = shown.filter(kernel => kernel.intensity > 0);
    const lowX = Math.min(...ridges.map(r => r / 8), ...counted.map(kernel => kernel.intensity)) / 1.6;
    const highX = Math.max(ridge * 8, ...counted.map(kernel => kernel.intensity)) * 1.6;
    // Without arithmetic there is no place on a logarithmic axis: such kernels stand in a lane of their own, as far
    // below the roof there as they are short of memory's bandwidth.
    const valueOf = kernel => kernel.intensity > 0 ? kernel.gflops : kernel.gbs * lowX;
    const values = shown.map(valueOf).filter(v => v > 0);
    const lowY = Math.min(bandwidth * lowX, ...values) / 1.6, highY = Math.max(highest, ...values) * 1.8;
    const span = (v, low, high) => Math.log(v / low) / Math.log(high / low);
    const x = v => left + lane + (width - left - lane - right) * span(v, lowX, highX);
    const y = v => top + (height - top - bottom) * (1 - span(Math.max(v, lowY), lowY, highY));
    const root = svg("svg", { viewBox: `0 0 ${width} ${height}`, height });
    for (const mark of logTicks(lowY, highY)) {
      root.append(svg("line", { class: "rule", x1: left, x2: width - right, y1: y(mark), y2: y(mark) }));
      root.append(svg("text", { class: "soft", x: left - 8, y: y(mark) + 4, "text-anchor": "end" }, real(mark)));
    }
    for (const mark of logTicks(lowX, highX)) {
      root.append(svg("line", { class: "rule", x1: x(mark), x2: x(mark), y1: top, y2: height - bottom }));
      root.append(svg("text", { class: "soft", x: x(mark), y: height - bottom + 17, "text-anchor": "middle" }, real(mark)));
    }
    root.append(svg("text", { class: "soft", x: left + lane / 2 - 4, y: height - bottom + 17, "text-anchor": "middle" }, "0"));
    root.append(svg("text", { class: "soft", x: (left + width - right) / 2, y: height - 4, "text-anchor": "middle" }, "FLOP per byte"));
    root.append(svg("text", { class: "soft", x: 12, y: (top + height - bottom) / 2, "text-anchor": "middle", transform: `rotate(-90 12 ${(top + height - bottom) / 2})` }, "GFLOP/s"));
    const roof = [[left, y(bandwidth * lowX)], [x(lowX), y(bandwidth * lowX)], [x(ridge), y(highest)], [width - right, y(highest)]];
    const flats = peaks.map(([products, peak]) => ({ x: x(peak / bandwidth), y: y(peak), text: `${peakName(products)} ${three(peak)} GFLOP/s` }));
    for (const flat of flats)
      if (flat.y > y(highest)) root.append(svg("path", { d: `M${flat.x.toFixed(1)},${flat.y.toFixed(1)}L${width - right},${flat.y.toFixed(1)}`, fill: "none", stroke: color("ink"), "stroke-width": 1.6 }));
    root.append(svg("path", { d: roof.map(([px, py], i) => `${i ? "L" : "M"}${px.toFixed(1)},${py.toFixed(1)}`).join(""), fill: "none", stroke: color("ink"), "stroke-width": 1.6, "stroke-linejoin": "round" }));
    // Large ones first, so that none lies hidden.
    const dots = shown.map(kernel => ({ kernel, x: kernel.intensity > 0 ? x(kernel.intensity) : left + lane / 2 - 4, y: y(valueOf(kernel)), r: 3 + 22 * Math.sqrt(kernel.part) }));
    for (const { kernel, x: cx, y: cy, r } of dots)
      root.append(withTip(svg("circle", { class: "kernel", cx: cx.toFixed(1), cy: cy.toFixed(1), r: r.toFixed(1), fill: kernel.paint, "fill-opacity": 0.5, stroke: kernel.paint, "stroke-width": 1.4 },
        svg("title", {}, tipOf(kernel))), tipOf(kernel)));
    const [, [ax, ay], [bx, by]] = roof, slope = Math.atan2(by - ay, bx - ax), far = Math.min(0.5, 90 / Math.hypot(bx - ax, by - ay));
    const mx = ax + far * (bx - ax), my = ay + far * (by - ay);
    root.append(svg("text", { class: "end", x: mx.toFixed(1), y: (my - 8).toFixed(1), "text-anchor": "middle", transform: `rotate(${(slope * 180 / Math.PI).toFixed(2)} ${mx.toFixed(1)} ${my.toFixed(1)})` }, `memory ${three(bandwidth)} GB/s`));
    for (const flat of flats) root.append(svg("text", { class: "end", x: flat.x + 4, y: flat.y - 7 }, flat.text));
    // The names of those that take most of the time, where there is room.
    const boxes = [...flats.map(flat => [flat.x, flat.y - 20, flat.x + 4 + textWidth(flat.text), flat.y]), ...dots.map(dot => [dot.x - dot.r, dot.y - dot.r, dot.x + dot.r, dot.y + dot.r])];
    for (const { kernel, x: cx, y: cy, r } of dots.filter(dot => dot.kernel.part >= 0.03)) {
      const text = kernel.name.split(" ")[0] + (kernel.path ? " " + kernel.path : ""), long = textWidth(text);
      for (const [tx, ty] of [[cx + r + 3, cy + 4], [cx - r - 3 - long, cy + 4], [cx - long / 2, cy + r + 15], [cx - long / 2, cy - r - 6]]) {
        const box = [tx, ty - 12, tx + long, ty + 4];
        if (box[0] < left || box[2] > width - right || box[1] < top || box[3] > height - bottom) continue;
        if (boxes.some(other => box[0] < other[2] && other[0] < box[2] && box[1] < other[3] && other[1] < box[3])) continue;
        boxes.push(box);
        root.append(svg("text", { class: "end", x: tx.toFixed(1), y: ty.toFixed(1), "pointer-events": "none" }, text));
        break;
      }
    }
    return root;
  }, "Areas are shares of the time. A kernel below the slope waits for memory, one below the flat part for arithmetic; one above the slope gets its bytes from the caches. Kernels without arithmetic stand at the left, as far below the roof as they fall short of memory." +
    (peaks.length > 1 ? " A kernel's peak is that of what its products are made of; all others are of f32." : ""));
}

/** The time by what limits it, and what of it would be left at the limits. */
function limitBar(view) {
  const sums = limits.map(([, name, paint], i) => ({ name, paint: color(paint), size: view.kernels.reduce((sum, kernel) => sum + (limitOf(kernel) === limits[i] ? kernel.time : 0), 0) }));
  const all = sums.reduce((sum, entry) => sum + entry.size, 0);
  const used = sums.filter(entry => entry.size > 0);
  return [
    el("p", { class: "caption" }, `By what limits them, kernels take ${used.map(entry => `${percent(entry.size, all)} (${entry.name})`).join(", ")} of ${milliseconds(view.time)}. ` +
      `At what the machine could do they would take ${milliseconds(view.least)}.`),
    key(used.map(entry => [entry.name, entry.paint])),
    drawing(`Time of ${view.title} by what limits it`, width => {
      const root = svg("svg", { viewBox: `0 0 ${width} 20`, height: 20 });
      let x = 0;
      for (const entry of used) {
        const w = width * entry.size / all;
        root.append(withTip(svg("rect", { x, y: 1, width: Math.max(w - 0.8, 0.7), height: 18, fill: entry.paint }), `${entry.name}\n${milliseconds(entry.size)}, ${percent(entry.size, all)}`));
        x += w;
      }
      return root;
    })];
}

function kernelTable(view) {
  const several = view.calls.length > 1;
  return el("div", { class: "scroll" }, el("table", { class: "kernels" },
    el("thead", {}, el("tr", {}, el("th", {}, "kernel"), el("th", {}, "module"), several ? el("th", {}, "function") : null,
      ["runs", "time", "share of time", "GFLOP/s", "GB/s", "FLOP/byte"].map(name => el("th", { class: "number" }, name)), el("th", {}, "limited by"), el("th", { class: "number" }, "share"))),
    el("tbody", {}, view.kernels.map(kernel => el("tr", {}, el("td", {}, el("code", {}, kernel.name)), el("td", {}, el("code", {}, kernel.path)), several ? el("td", {}, kernel.function) : null,
      [whole(kernel.runs), milliseconds(kernel.time), (100 * kernel.part).toFixed(1) + " %", three(kernel.gflops), three(kernel.gbs), three(kernel.intensity)].map(text => el("td", { class: "number" }, text)),
      el("td", {}, limitOf(kernel)[1]), el("td", { class: "number" }, `${(100 * kernel.share).toFixed(0)} %`))))));
}

if (views.length) {
  const node = section("Kernels", null), holder = el("div");
  const show = view => holder.replaceChildren(key(kinds.filter(kind => view.kernels.some(kernel => kindOf(kernel.name) === kind)).map(([, name, paint]) => [name, color(paint)])),
    roofline(view), ...limitBar(view), kernelTable(view));
  if (views.length > 1)
    node.append(el("div", { class: "controls" }, el("label", {}, "of ",
      el("select", { onchange: event => show(views[event.target.selectedIndex]) }, views.map(view => el("option", {}, view.title))))));
  node.append(holder);
  show(views[0]);
}
