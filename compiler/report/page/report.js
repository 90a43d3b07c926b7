// The report on a model.

const modules = data.modules;
const children = modules.map(() => []);
modules.forEach((module, i) => { if (module.parent >= 0) children[module.parent].push(i); });

// The colour of a module is that of the member of the model that it is part of;
// the largest ones have colours of their own.
const ranks = children[0].slice().sort((a, b) => modules[b].parameters - modules[a].parameters);
function topOf(i) {
  while (modules[i].parent > 0) i = modules[i].parent;
  return i;
}
function paintOf(i) {
  const rank = i === 0 ? -1 : ranks.indexOf(topOf(i));
  return color(rank >= 0 && rank < palette.length ? palette[rank] : "grey");
}
const titleOf = module => (module.name ? `${module.name}: ` : "") + (module.count ? `${module.count} \u00d7 ` : "") + module.module;

//--- The head -----------------------------------------------------------------

page.append(
  el("header", {},
    el("h1", {}, data.model),
    el("div", { class: "settings" }, data.source ? el("span", {}, el("code", {}, data.source)) : null,
      data.hyperparameters.map(([name, value]) => el("span", {}, `${name} = `, el("b", {}, value)))),
    el("div", { class: "figures" },
      [[whole(data.total), data.trainable === data.total ? "parameters" : `parameters, ${whole(data.trainable)} trained`],
       [bytes(data.bytes), "checkpoint in f32"],
       data.flops.perToken !== undefined ? [flop(data.flops.perToken), `forward, per ${data.flops.unit}`] : null,
       data.flops.trainStep !== undefined ? [flop(data.flops.trainStep), "training step"] : null,
       data.memory ? [bytes(data.memory.arena), "memory of the binary"] : null]
        .filter(Boolean).map(([value, text]) => el("div", {}, el("strong", {}, value), el("span", {}, text)))),
    data.total ? el("p", { class: "formula" }, el("code", {}, `${whole(data.total)} = ${data.formula}`)) : null));
if (data.wholeSequence)
  page.append(el("p", { class: "note" }, "Generation evaluates the whole sequence for every token: ", el("code", {}, data.wholeSequence)));

//--- Parameters ---------------------------------------------------------------

/** Squarified rectangles (Bruls, Huizing and van Wijk 2000) for `sizes`, in descending order. */
function squarify(sizes, x, y, width, height) {
  const total = sizes.reduce((a, b) => a + b, 0), out = [];
  const scale = width * height / total;
  for (let i = 0; i < sizes.length;) {
    const side = Math.min(width, height);
    let sum = 0, worst = Infinity, end = i;
    while (end < sizes.length) {
      const next = sum + sizes[end] * scale;
      const ratio = Math.max(side * side * sizes[i] * scale / (next * next), next * next / (side * side * sizes[end] * scale));
      if (ratio > worst) break;
      worst = ratio;
      sum = next;
      end++;
    }
    const thick = sum / side;
    let at = 0;
    for (; i < end; i++) {
      const long = sizes[i] * scale / thick;
      out.push(width >= height ? [x, y + at, thick, long] : [x + at, y, long, thick]);
      at += long;
    }
    if (width >= height) { x += thick; width -= thick; } else { y += thick; height -= thick; }
  }
  return out;
}

/** What the map shows: modules that have no members, and what others hold themselves. */
function partsOf(i) {
  const module = modules[i];
  const parts = children[i].map(child => ({ index: child, size: modules[child].parameters, leaf: children[child].length === 0 }));
  if (children[i].length && module.own) parts.push({ index: i, size: module.own, leaf: true, own: true });
  return parts.filter(part => part.size > 0).sort((a, b) => b.size - a.size);
}

function treemap(width) {
  const height = Math.round(Math.max(220, Math.min(380, width * 0.36)));
  const root = svg("svg", { viewBox: `0 0 ${width} ${height}`, height });
  const lay = (i, x, y, w, h) => {
    const parts = partsOf(i);
    squarify(parts.map(part => part.size), x, y, w, h).forEach(([px, py, pw, ph], n) => {
      const part = parts[n], module = modules[part.index];
      const label = part.own ? `${module.module} itself` : titleOf(module);
      if (!part.leaf && pw > 30 && ph > 34) {
        const name = shortened(label, pw - 10);
        root.append(svg("rect", { x: px + 1, y: py + 1, width: Math.max(0, pw - 2), height: Math.max(0, ph - 2), fill: "none", stroke: paintOf(part.index), "stroke-width": 1.2 }));
        root.append(svg("text", { x: px + 6, y: py + 15 }, name));
        lay(part.index, px + 3, py + 20, pw - 6, ph - 23);
        return;
      }
      const path = module.path.replaceAll(".*", "") || module.module;
      const text = `${part.own ? label : path} \u00b7 ${module.module}\n${whole(part.size)} parameters, ${percent(part.size, data.total)}` +
        (part.own ? "" : `\n${module.formula}`);
      const cell = svg("g", {}, svg("rect", { x: px + 1, y: py + 1, width: Math.max(0.5, pw - 2), height: Math.max(0.5, ph - 2), fill: paintOf(part.index) }));
      const name = ph > 20 ? shortened(part.own ? label : module.name, pw - 12) : "";
      if (name) cell.append(svg("text", { x: px + 7, y: py + 17, style: "fill:var(--on-color)" }, name));
      const size = short(part.size) + ", " + percent(part.size, data.total);
      if (name && ph > 40 && textWidth(size) < pw - 12)
        cell.append(svg("text", { x: px + 7, y: py + 34, style: "fill:var(--on-color);opacity:0.85" }, size));
      root.append(withTip(cell, text));
    });
  };
  lay(0, 0, 0, width, height);
  return root;
}

/** The tree as a table whose rows open and close. */
function tree() {
  const body = el("tbody"), rows = [];
  const repeats = modules.some(module => module.count);
  const each = module => {
    if (module.count) return new Set(module.layers).size === 1 ? whole(module.layers[0]) : "differs";
    return module.instances !== 1 ? whole(module.each) : "";
  };
  const add = (cells, depth, parent, paint, share, opens, isOwn) => {
    const row = { parent, open: depth < 2, depth };
    const mark = opens
      ? el("button", { class: "toggle", "aria-expanded": String(row.open), "aria-label": "members", onclick: () => { row.open = !row.open; refresh(); } })
      : el("span", { class: "gap" });
    row.mark = opens ? mark : null;
    row.node = el("tr", { class: isOwn ? "own" : null },
      el("td", { style: `padding-left:${depth * 18}px` }, mark, " ", cells[0]),
      el("td", { class: "bar" }, el("div", { style: `width:${100 * share}%;background:${paint}` })),
      el("td", { class: "number" }, cells[1]), el("td", { class: "number soft" }, cells[2]),
      repeats ? el("td", { class: "number soft" }, cells[3]) : null,
      el("td", { class: "formulas" }, cells[4] ? el("code", {}, cells[4]) : ""));
    rows.push(row);
    body.append(row.node);
    return row;
  };
  const visit = (i, depth, parent) => {
    const module = modules[i], share = data.total ? module.parameters / data.total : 0;
    const name = [module.name ? el("span", {}, `${module.name} `) : null,
      el("span", { class: module.name ? "kind" : null }, (module.count ? `${module.count} \u00d7 ` : "") + module.module)];
    const tied = module.tied.length && !module.parameters ? `is ${module.tied.join(", ")}` : null;
    const row = add([name, whole(module.parameters), percent(module.parameters, data.total), each(module), tied || module.formula],
      depth, parent, paintOf(i), share, children[i].length > 0, false);
    if (module.line) row.node.title = `line ${module.line}${module.file ? ` of ${module.file}` : ""}`;
    if (children[i].length && module.own)
      add(["its own", whole(module.own), percent(module.own, data.total), "", ""], depth + 1, row, paintOf(i), module.own / data.total, false, true);
    for (const child of children[i]) visit(child, depth + 1, row);
  };
  const refresh = () => rows.forEach(row => {
    let shown = true;
    for (let up = row.parent; up; up = up.parent) shown = shown && up.open;
    row.node.hidden = !shown;
    if (row.mark) row.mark.setAttribute("aria-expanded", String(row.open));
  });
  visit(0, 0, null);
  refresh();
  const all = open => { rows.forEach(row => { row.open = open || row.depth < 1; }); refresh(); };
  return [
    el("div", { class: "controls" },
      el("button", { class: "button", onclick: () => all(true) }, "Open all"),
      el("button", { class: "button", onclick: () => all(false) }, "Close all")),
    el("div", { class: "scroll" }, el("table", { class: "tree" },
      el("thead", {}, el("tr", {}, el("th", {}, "module"), el("th", { class: "bar" }, ""), el("th", { class: "number" }, "parameters"),
        el("th", { class: "number" }, "share"), repeats ? el("th", { class: "number" }, "per layer") : null, el("th", {}, "formula"))), body))];
}

if (data.total) {
  const parameters = section("Parameters", "Areas are numbers of parameters; all layers of a repeat count together.");
  parameters.append(drawing(`${whole(data.total)} parameters by module`, treemap));
  parameters.append(...tree());
}
if (data.sensitivities.length > 1) {
  page.append(el("h3", {}, "What moves the total most"), el("div", { class: "scroll" }, el("table", { style: "width:auto" },
    el("thead", {}, el("tr", {}, el("th", {}, "hyperparameter"), ["1 more adds", "derivative", "elasticity"].map(name => el("th", { class: "number" }, name)))),
    el("tbody", {}, data.sensitivities.map(entry => el("tr", {}, el("td", {}, entry.name),
      [entry.one_more === null ? "" : whole(entry.one_more), whole(entry.derivative), entry.elasticity.toFixed(3)].map(text => el("td", { class: "number" }, text))))))));
}

//--- Horizontal bars ----------------------------------------------------------

/** Rows of `{name, parts: [{size, paint, text}], label}` on one scale to `most`. */
function bars(rows, most, label) {
  return drawing(label, width => {
    const left = Math.min(width * 0.3, Math.max(...rows.map(row => textWidth(row.name))) + 14);
    const right = Math.max(...rows.map(row => textWidth(row.label))) + 14;
    const step = 26, height = rows.length * step, scale = Math.max(10, width - left - right) / most;
    const root = svg("svg", { viewBox: `0 0 ${width} ${height}`, height });
    rows.forEach((row, i) => {
      let x = left;
      const y = i * step + 4;
      root.append(svg("text", { x: left - 10, y: y + 13, "text-anchor": "end" }, shortened(row.name, left - 12)));
      for (const part of row.parts) {
        const w = part.size * scale;
        if (w > 0) root.append(withTip(svg("rect", { x, y, width: Math.max(w - 0.8, 0.7), height: 17, fill: part.paint }), part.text));
        x += w;
      }
      root.append(svg("text", { x: x + 8, y: y + 13, class: "soft" }, row.label));
    });
    return root;
  });
}

//--- Memory -------------------------------------------------------------------

/** Live bytes over the launches of a phase. */
function profile(phase, most) {
  return drawing(`Live activations of ${phase.name}`, width => {
    const height = 132, top = 8, bottom = 24, left = 4, right = 4;
    const peak = Math.max(...phase.live), n = phase.live.length;
    const x = i => left + (width - left - right) * i / n, y = v => top + (height - top - bottom) * (1 - v / most);
    const root = svg("svg", { viewBox: `0 0 ${width} ${height}`, height });
    let path = `M${x(0)},${y(0)}`;
    phase.live.forEach((value, i) => { path += `V${y(value).toFixed(1)}H${x(i + 1).toFixed(1)}`; });
    root.append(svg("path", { d: path + `V${y(0)}Z`, fill: color("green"), "fill-opacity": 0.35, stroke: color("green"), "stroke-width": 1 }));
    root.append(svg("line", { class: "rule", x1: left, x2: width - right, y1: y(0), y2: y(0) }));
    const at = phase.live.indexOf(peak), anchor = at < n * 0.3 ? "start" : at > n * 0.7 ? "end" : "middle";
    root.append(svg("text", { x: x(at + 0.5), y: Math.max(y(peak) - 4, top + 3), "text-anchor": anchor }, bytes(peak)));
    root.append(svg("text", { class: "soft", x: left, y: height - 7 }, "first launch"));
    root.append(svg("text", { class: "soft", x: width - right, y: height - 7, "text-anchor": "end" }, `launch ${n}`));
    root.addEventListener("pointermove", event => {
      const box = root.getBoundingClientRect();
      const i = Math.max(0, Math.min(n - 1, Math.floor((event.clientX - box.left - left) / (width - left - right) * n)));
      showTip(event, `launch ${i + 1} of ${n}\n${bytes(phase.live[i])} alive`);
    });
    root.addEventListener("pointerleave", hideTip);
    return root;
  });
}

/** `rows` of `{name, types: {f32: count}}`, a colour for each type; `show` writes a count, `unit` what it counts. */
function typeBars(rows, label, show, unit) {
  const sum = types => Object.values(types).reduce((a, b) => a + b, 0);
  rows = rows.filter(row => sum(row.types) > 0);
  const names = [...new Set(rows.flatMap(row => Object.keys(row.types)))];
  const paint = name => color(palette[names.indexOf(name)] ?? "grey");
  return rows.length ? [key(names.map(name => [name, paint(name)])), bars(rows.map(row => ({
    name: row.name,
    parts: Object.entries(row.types).map(([name, count]) => ({ size: count, paint: paint(name), text: `${row.name}\n${name}: ${show(count)}\n${whole(count)} ${unit}` })),
    label: Object.entries(row.types).map(([name, count]) => `${name} ${show(count)}`).join(", "),
  })), Math.max(...rows.map(row => sum(row.types))), label)] : [];
}

if (data.memory) {
  const memory = data.memory;
  const node = section("Memory", `One arena of ${whole(memory.arena)} bytes, planned while compiling for batch ${memory.batch}${memory.sequence ? `, sequence ${memory.sequence}` : ""} and ${memory.precision}. ` +
    "Functions run one at a time and share the bytes of their activations; the rows show what each of them uses.");
  const kinds = [["parameters", "blue"], ["gradients", "orange"], ["optimizer state", "purple"], ["constants", "grey"], ["cache", "teal"], ["activations", "green"]];
  const used = new Set();
  const rows = memory.phases.map(phase => {
    const sizes = [memory.parameters, phase.gradients ? memory.gradients : 0, phase.optimizer ? memory.optimizer : 0,
      phase.name === "update" ? 0 : memory.constants, phase.cache ? memory.cache : 0, phase.activations];
    const parts = sizes.map((size, i) => ({ size, paint: color(kinds[i][1]), text: `${phase.name}\n${kinds[i][0]}: ${bytes(size)}\n${whole(size)} bytes` })).filter(part => part.size);
    sizes.forEach((size, i) => { if (size) used.add(i); });
    return { name: phase.name, parts, label: bytes(sizes.reduce((a, b) => a + b, 0)) };
  });
  node.append(key(kinds.filter((_, i) => used.has(i)).map(([name, paint]) => [name, color(paint)])),
    bars(rows, memory.arena, "Memory by phase"));
  const partNames = { optimizer: "optimizer state", saved: "saved for backward" };
  node.append(el("h3", {}, "By type"),
    el("p", { class: "caption" }, "What outlives a step, what forward leaves to backward, and of each function the activations of the launch during which most is alive."),
    ...typeBars([
      ...Object.entries(memory.types).map(([part, types]) => ({ name: partNames[part] ?? part, types })),
      ...memory.phases.map(phase => ({ name: phase.name, types: phase.live_types }))], "Memory by type", bytes, "bytes"));
  const busy = memory.phases.filter(phase => phase.live.length > 1 && Math.max(...phase.live) > 0);
  if (busy.length) {
    node.append(el("h3", {}, "Activations that are alive, launch by launch"),
      el("p", { class: "caption" }, "Each figure has its own scale. A loop over layers counts once: what it keeps for the way back lives on behind it."));
    node.append(el("div", { class: "panels" }, busy.map(phase => {
      const figure = profile(phase, Math.max(...phase.live) * 1.12);
      figure.prepend(el("div", {}, phase.name));
      return figure;
    })));
  }
}

//--- Processes ----------------------------------------------------------------

if (data.memory?.processes) {
  const all = data.memory.processes, timed = all.some(each => each.seconds);
  const time = seconds => seconds < 1 ? `${(seconds * 1e3).toFixed(1)} ms` : `${seconds.toFixed(2)} s`;
  const node = section("Processes", "What each of several processes has that share an update, gradients that come to it included, and the bytes that the one that sends most sends in one." +
    (timed ? " Times are predicted, from the network that was given: what a step takes, and what of it nobody computes in." : ""));
  /** Who sends how much: all groups of ranks, or where that are many those that send most and least. */
  const senders = ({ sent_by: by }) => {
    const order = [...by].sort((a, b) => b.bytes - a.bytes);
    const said = by.length > 4 ? [order[0], order[order.length - 1]] : by;
    return said.length < 2 ? "all" : said.map(some => `${some.first}${some.last > some.first ? `-${some.last}` : ""}: ${bytes(some.bytes)}`).join(", ");
  };
  const columns = [["micro-batches", each => whole(each.micro_batches)], ["optimizer state", each => bytes(each.optimizer)], ["incoming", each => bytes(each.incoming)], ["memory", each => bytes(each.memory)], ["sent at most", each => bytes(each.sent)], ["by process", senders]];
  if (timed) columns.push(["step", each => time(each.seconds.step)], ["waits", each => time(each.seconds.step - each.seconds.compute - each.seconds.update)],
    ["hidden", each => time(each.seconds.hidden)], ["efficiency", each => `${(100 * each.efficiency).toFixed(0)}%`]);
  node.append(el("div", { class: "scroll" }, el("table", {},
    el("thead", {}, el("tr", {}, ["processes", ...columns.map(([name]) => name)].map(name => el("th", { class: "number" }, name)))),
    el("tbody", {}, all.map(each => el("tr", {}, el("td", { class: "number" }, whole(each.processes)),
      each.problem ? el("td", { colspan: columns.length }, each.problem) : columns.map(([, show]) => el("td", { class: "number" }, show(each)))))))));
}

//--- FLOPs --------------------------------------------------------------------

/** Counts of FLOPs, each of what `unit` says. */
function kindBars(kinds, paint, label, unit = "") {
  const all = kinds.reduce((sum, [, count]) => sum + count, 0);
  const large = kinds.filter(([, count]) => count >= all / 1000);
  const rest = all - large.reduce((sum, [, count]) => sum + count, 0);
  if (rest > 0) large.push(["others", rest]);
  return bars(large.map(([name, count]) => ({
    name, parts: [{ size: count, paint, text: `${name}\n${whole(count)} FLOP${unit}` }], label: `${flop(count)}, ${percent(count, all)}`,
  })), Math.max(...large.map(([, count]) => count)), label);
}
if (data.flops.forward.length || data.flops.train.length) {
  const node = section("FLOPs", "What the definitions of the operations need, whatever a kernel does.");
  if (data.flops.forward.length)
    node.append(el("h3", {}, `Forward: ${whole(data.flops.perToken)} per ${data.flops.unit}${data.flops.tokens > 1 ? `, the mean over ${whole(data.flops.tokens)} ${data.flops.unit === "example" ? "examples" : "positions"}` : ""}`),
      kindBars(data.flops.forward, color("blue"), `FLOPs of ${data.flops.unit === "example" ? "an" : "a"} ${data.flops.unit} forward, by kind of operation`, ` per ${data.flops.unit}`));
  if (data.flops.train.length)
    node.append(el("h3", {}, `Training step: ${whole(data.flops.trainStep)}`),
      kindBars(data.flops.train, color("orange"), "FLOPs of a training step by kind of operation"));
  const { forward_per_token: forward, train_step: train } = data.flops.products;
  node.append(el("h3", {}, "Products and attention, by the type of what they multiply"));
  for (const [name, types] of [[`forward, per ${data.flops.unit}`, forward], ["training step", train]])
    node.append(...typeBars([{ name, types: types ?? {} }], `FLOPs of products by type: ${name}`, flop, "FLOP"));
}

//--- Constants ----------------------------------------------------------------

function floats(text) {
  const raw = atob(text), view = new DataView(new ArrayBuffer(raw.length));
  for (let i = 0; i < raw.length; i++) view.setUint8(i, raw.charCodeAt(i));
  return Float32Array.from({ length: raw.length / 4 }, (_, i) => view.getFloat32(4 * i, true));
}
const channels = text => [1, 3, 5].map(i => parseInt(text.slice(i, i + 2), 16));
const mixed = (a, b, t) => a.map((v, i) => Math.round(v + (b[i] - v) * t));

/** From numbers to colours: through a neutral middle at 0 where signs differ, else from neutral up. */
function scaleOf(low, high) {
  const middle = channels(resolved("middle")), up = channels(resolved("high")), down = channels(resolved("low"));
  const reach = Math.max(Math.abs(low), Math.abs(high)) || 1;
  if (low < 0 && high > 0) return v => v < 0 ? mixed(middle, down, Math.min(1, -v / reach)) : mixed(middle, up, Math.min(1, v / reach));
  if (high <= 0 && low < 0) return v => mixed(down, middle, high > low ? (v - low) / (high - low) : 0);
  return v => mixed(middle, up, high > low ? (v - low) / (high - low) : 1);
}

function heatmap(constant) {
  const values = floats(constant.data), rank = constant.shape.length;
  const { width, height } = constant, size = width * height;
  let low = Infinity, high = -Infinity;
  for (const v of values) { if (v < low) low = v; if (v > high) high = v; }
  const rows = rank > 1 ? constant.shape[rank - 2] : 1, columns = constant.shape[rank - 1];
  const rowName = rank > 1 ? constant.indices[rank - 2] : "", columnName = constant.indices[rank - 1];
  let picture = 0;

  const canvas = el("canvas", { width, height, role: "img", "aria-label": `${constant.name}, ${constant.shape.join(" by ")}, from ${real(low)} to ${real(high)}` });
  const scale = el("canvas", { width: 1, height: 128 });
  const paint = () => {
    const toColor = scaleOf(low, high);
    const fill = (target, w, h, at) => {
      const context = target.getContext("2d"), image = context.createImageData(w, h);
      for (let i = 0; i < w * h; i++) {
        const [r, g, b] = toColor(at(i));
        image.data.set([r, g, b, 255], 4 * i);
      }
      context.putImageData(image, 0, 0);
    };
    fill(canvas, width, height, i => values[picture * size + i]);
    fill(scale, 1, 128, i => high - (high - low) * i / 127);
  };
  paint();
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", paint);
  canvas.addEventListener("pointermove", event => {
    const box = canvas.getBoundingClientRect();
    const x = Math.min(width - 1, Math.max(0, Math.floor((event.clientX - box.left) / box.width * width)));
    const y = Math.min(height - 1, Math.max(0, Math.floor((event.clientY - box.top) / box.height * height)));
    const range = (i, block, all) => block === 1 ? i : `${i * block}\u2013${Math.min(all, (i + 1) * block) - 1}`;
    const place = [rowName ? `${rowName} = ${range(y, constant.blockRows, rows)}` : null, `${columnName} = ${range(x, constant.blockColumns, columns)}`].filter(Boolean).join(", ");
    showTip(event, `${place}\n${real(values[picture * size + y * width + x])}`);
  });
  canvas.addEventListener("pointerleave", hideTip);

  // Ticks stand at the middle of their cells.
  const bottom = el("div", { class: "axis bottom" }), left = el("div", { class: "axis left" }), side = el("div", { class: "axis" });
  const spread = (low < 0 && high > 0 ? [high, 0, low] : high > low ? [high, low] : [high]);
  for (const value of spread)
    side.append(el("span", { style: `top:${high > low ? 100 * (high - value) / (high - low) : 50}%;transform:translateY(-50%)` }, real(value)));
  const cells = n => ticks(0, n - 1, n > 12 ? 6 : n).filter(Number.isInteger);
  for (const tick of cells(columns))
    bottom.append(el("span", { style: `left:${100 * (tick + 0.5) / columns}%;top:1px;transform:translateX(-50%)` }, String(tick)));
  bottom.append(el("span", { style: "left:50%;top:18px;transform:translateX(-50%)" }, `${columnName}: ${constant.dims[rank - 1]}`));
  const frame = el("div", { class: "frame" }, canvas);
  const box = el("div", { class: "heatmap" }, left, frame, el("div", { class: "scale" }, el("div", { class: "ramp" }, scale), side), el("div"), bottom, el("div"));
  new ResizeObserver(entries => {
    // Square cells where that makes a picture of a good height.
    const wide = entries[0].contentRect.width;
    const tall = Math.max(rows === 1 ? 40 : Math.min(rows * 18, 160), Math.min(wide * rows / columns, 520));
    canvas.style.height = `${tall}px`;
    left.replaceChildren();
    if (rows > 1) {
      for (const tick of ticks(0, rows - 1, Math.max(2, Math.min(rows > 12 ? 8 : rows, tall / 22))).filter(Number.isInteger))
        left.append(el("span", { style: `top:${100 * (tick + 0.5) / rows}%;right:2px;transform:translateY(-50%)` }, String(tick)));
      left.append(el("span", { style: "top:50%;left:0;writing-mode:vertical-rl;transform:translateY(-50%) rotate(180deg)" }, `${rowName}: ${constant.dims[rank - 2]}`));
    }
  }).observe(frame);

  const total = constant.shape.slice(0, -2).reduce((a, b) => a * b, 1);
  const places = p => {
    const parts = [];
    for (let axis = rank - 3; axis >= 0; axis--) { parts.unshift(`${constant.indices[axis]} = ${p % constant.shape[axis]}`); p = Math.floor(p / constant.shape[axis]); }
    return parts.join(", ");
  };
  const choose = rank > 2 && constant.pictures > 1 ? el("div", { class: "controls" }, el("label", {}, "Slice ",
    el("select", { onchange: event => { picture = Number(event.target.value); paint(); } },
      Array.from({ length: constant.pictures }, (_, i) => el("option", { value: i }, places(i))))),
    total > constant.pictures ? `the first ${constant.pictures} of ${total}` : null) : null;
  const means = constant.blockRows * constant.blockColumns > 1 ? ` Each pixel is the mean of ${constant.blockRows} \u00d7 ${constant.blockColumns} values.` : "";
  const declared = constant.indices.map((index, i) => `${index}: ${constant.dims[i]}`).join(", ");
  return el("figure", {}, el("h3", {}, constant.name), el("p", { class: "caption" }, el("code", {}, `[${declared}] = ${constant.formula.replace(/\s+/g, " ")}`)),
    choose, box, el("figcaption", {}, `${constant.shape.join(" \u00d7 ")} values from ${real(low)} to ${real(high)}.${means}`));
}
if (data.constants.length) {
  const node = section("Constants", "The fixed tensors of the model, computed while compiling.");
  data.constants.forEach(constant => node.append(heatmap(constant)));
}

//--- Tables -------------------------------------------------------------------

function table(title, count, heads, rows) {
  page.append(el("details", {}, el("summary", {}, title, " ", el("span", { class: "soft" }, count)),
    el("div", { class: "scroll" }, el("table", {},
      el("thead", {}, el("tr", {}, heads.map(([name, right]) => el("th", { class: right ? "number" : null }, name)))),
      el("tbody", {}, rows.map(cells => el("tr", {}, cells.map((cell, i) => el("td", { class: heads[i][1] ? "number" : null }, cell)))))))));
}
if (data.tensors.length)
  table("Tensors", `${whole(data.tensors.reduce((sum, tensor) => sum + tensor.count, 0))} in a checkpoint; * stands for the number of a layer`,
  [["name"], ["in words"], ["shape"], ["parameters", true], ["formula of one"], [""]],
  data.tensors.map(tensor => [el("code", {}, tensor.name), el("code", {}, tensor.dims), el("code", {}, tensor.shape), whole(tensor.parameters), el("code", {}, tensor.formula),
    [tensor.trainable ? "" : "not trained", tensor.rate || "", tensor.no_decay ? "no weight decay" : "", tensor.aliases.length ? `also ${tensor.aliases.join(", ")}` : ""].filter(Boolean).join("; ")]));
if (data.values.length)
  table("Shapes", "of all arguments, named values and results", [["value"], ["in words"], ["shape"], ["line", true], [""]],
    data.values.map(value => [el("code", {}, value.name), el("code", {}, value.dims), el("code", {}, value.shape), String(value.line),
      [value.role === "value" ? "" : value.role, value.file].filter(Boolean).join(", ")]));
