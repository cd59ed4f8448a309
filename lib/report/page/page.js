"use strict";
// Draws the report from the JSON in #data. Text of the runs goes in as text, never as HTML.
const report = JSON.parse(document.getElementById("data").textContent);
const runs = report.runs;
const colors = ["#3b7dd8", "#e07a1f", "#2a9d64", "#c2455c", "#8a63d2", "#12a5b8", "#b08900", "#d45db0"];
const color = i => colors[i % colors.length];
const tasks = {
  forward: "#3b7dd8", backward: "#1f4f96", optimizer: "#2a9d64", reading: "#8fbf4d",
  gather: "#e07a1f", scatter: "#c2455c", exchange: "#b08900", pipeline: "#d45db0", agreeing: "#f0b429",
  device: "#7b8794", evaluating: "#8a63d2", sampling: "#b79ce8", saving: "#12a5b8", starting: "#9aa4b5", other: "#c9ced8"};
const waits = ["gather", "scatter", "exchange", "pipeline", "agreeing", "device"];
const waitTexts = {gather: "all-gather", scatter: "reduce-scatter", exchange: "seq, experts", agreeing: "global sync"};
const taskText = t => waits.includes(t) ? "waiting: " + (waitTexts[t] || t) : t;
const kinds = {
  weights: "#3b7dd8", optimizer: "#2a9d64", gradients: "#c2455c", gathered: "#e07a1f", saved: "#8a63d2",
  transient: "#f0b429", boundary: "#d45db0", staging: "#12a5b8", snapshot: "#8fbf4d", workspace: "#9aa4b5"};
const axes = {shard: "#e07a1f", seq: "#3b7dd8", pipe: "#d45db0", expert: "#2f9e6e"};

function element(tag, attributes = {}, ...children) {
  const e = document.createElement(tag);
  for (const [k, v] of Object.entries(attributes)) e.setAttribute(k, v);
  for (const c of children) e.append(c);
  return e;
}
const number = (x, digits = 6) =>
  x === null || x === undefined || !isFinite(x) ? "" : Number(x.toPrecision(digits)).toString();
const scaled = (x, base, units) => {
  let i = 0;
  for (; Math.abs(x) >= base && i + 1 < units.length; ++i) x /= base;
  return number(x, 4) + units[i];
};
const bytes = x => scaled(x, 1024, [" B", " KiB", " MiB", " GiB", " TiB"]);
const count = x => scaled(x, 1000, ["", "k", "M", "G", "T"]);
const seconds = s => s < 60 ? number(s, 3) + " s" : s < 3600 ? number(s / 60, 3) + " min" : number(s / 3600, 3) + " h";
const last = a => a.length ? a[a.length - 1] : null;
const style = name => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

// ---- the table of runs
function statusOf(r) {
  if (r.status !== "running") return r.status + (r.reason && r.status !== "done" ? ": " + r.reason : "");
  const quiet = r.quiet === null ? "" : ", newest row " + seconds(r.quiet) + " ago";
  return "running" + quiet;
}
function table(head, rows) {
  const cell = (tag, c) => {
    const e = element(tag);
    if (typeof c === "object" && c !== null && !(c instanceof Node)) { e.className = c.kind; e.append(c.text); }
    else e.append(c ?? "");
    return e;
  };
  return [element("thead", {}, element("tr", {}, ...head.map(c => cell("th", c)))),
          element("tbody", {}, ...rows.map(r => element("tr", {}, ...r.map(c => cell("td", c)))))];
}
const n = text => ({kind: "number", text});
function named(i, text) {
  const s = element("span", {class: "dot"});
  s.style.background = color(i);
  const e = element("span", {}, s, text);
  return e;
}
function nameOf(i) {
  const same = runs.filter(r => r.name === runs[i].name).length > 1;
  return same ? runs[i].path : runs[i].name;
}
function overview() {
  document.getElementById("made").textContent = "created " + report.made + " by trireme " + report.version;
  document.title = "Trireme: " + runs.map((_, i) => nameOf(i)).join(", ");
  document.getElementById("runs").append(...table(
    ["run", "status", n("step"), n("tokens"), n("trained tokens"), n("loss"), n("validation loss"), n("best validation loss"), n("tokens/s"), "last checkpoint"],
    runs.map((r, i) => {
      const s = r.series, held = s.held_out.value, best = held.length ? Math.min(...held) : null;
      const t = last(r.timing), rate = t ? t.tokens_per_second : last(s.tokens_per_second.value);
      return [named(i, nameOf(i)), {kind: "long", text: statusOf(r)},
        n(r.step + (r.total_steps ? " / " + r.total_steps : "")), n(count(r.tokens)), n(r.trained_tokens === null ? "" : count(r.trained_tokens)), n(number(last(s.loss.value), 5)),
        n(number(last(held), 5)), n(best === null ? "" : number(best, 5) + " at " + s.held_out.step[held.indexOf(best)]),
        n(rate === null ? "" : count(rate)), {kind: "long", text: (r.checkpoint || "none").split("/").pop()}];
    })));
  const problems = document.getElementById("problems");
  runs.forEach((r, i) => r.problems.forEach(p =>
    problems.append(element("p", {class: "problem"}, nameOf(i) + ": " + p))));
}

// ---- curves
const charts = [];
function card(where, title, height, whole) {
  const canvas = element("canvas", {role: "img", "aria-label": title});
  const plot = element("div", {class: "plot"}, canvas);
  plot.style.height = height + "px";
  const c = element("div", {class: whole ? "card whole" : "card"}, element("h3", {}, title), plot);
  where.append(c);
  return {canvas, card: c};
}
// A dashed line where a process of the run began again.
const restartLines = {
  id: "restartLines",
  beforeDatasetsDraw(chart, _, options) {
    const {ctx, chartArea: a, scales: {x}} = chart;
    for (const {at, color} of options.lines ?? []) {
      const px = x.getPixelForValue(at);
      if (!(px >= a.left && px <= a.right)) continue;
      ctx.save();
      ctx.strokeStyle = color; ctx.setLineDash([4, 4]); ctx.lineWidth = 1;
      ctx.beginPath(); ctx.moveTo(px, a.top); ctx.lineTo(px, a.bottom); ctx.stroke();
      ctx.restore();
    }
  }
};
let axis = "step", logarithmic = false;
// The index of the series' point at a step, or of the last one before it.
function indexAt(series, step) {
  let low = 0, high = series.step.length;
  while (low < high) { const m = (low + high) >> 1; if (series.step[m] <= step) low = m + 1; else high = m; }
  return low - 1;
}
const xAt = (series, k) => series[axis][k];
function tokensAt(r, step) {
  const k = indexAt(r.series.loss, step);
  return k < 0 ? 0 : r.series.loss.tokens[k];
}
const markKinds = {
  checkpoint: {pointStyle: "rectRot", radius: 4}, skipped: {pointStyle: "crossRot", radius: 6, borderWidth: 2},
  stalled: {pointStyle: "triangle", radius: 7, borderWidth: 2}, slow: {pointStyle: "rect", radius: 6, borderWidth: 2},
  rollback: {pointStyle: "star", radius: 7, borderWidth: 2}, recovery: {pointStyle: "rectRounded", radius: 7, borderWidth: 2}, phase: {pointStyle: "circle", radius: 6}, batch: {pointStyle: "cross", radius: 6, borderWidth: 2}};
const plainMarks = ["checkpoint", "phase", "batch"];  // in the color of their run
function marksOf(r, i, series) {
  const found = {checkpoint: [], skipped: [], stalled: [], slow: [], rollback: [], recovery: [], phase: [], batch: []};
  const add = (kind, step, text) => {
    const k = indexAt(series, step);
    if (k >= 0) found[kind].push({x: axis === "step" ? step : tokensAt(r, step), y: series.value[k], text});
  };
  r.marks.checkpoints.forEach(c => add("checkpoint", c.step, "checkpoint of step " + c.step + (c.kept ? "" : ", removed since")));
  r.marks.skipped.forEach(s => add("skipped", s.step, "step " + s.step + " is skipped: " + s.why));
  r.marks.stalled.forEach(s => add("stalled", s.step, "step " + s.step + ": training stalled: " + s.why));
  r.marks.slow.forEach(s => add("slow", s.step, "step " + s.step + ": host " + s.why));
  r.marks.rollbacks.forEach(s => add("rollback", s.step, s.why));
  r.marks.recoveries.forEach(s => add("recovery", s.step, s.why));
  r.marks.phases.forEach(s => add("phase", s.step, "step " + s.step + ": the samples now come from " + s.why));
  r.marks.batches.forEach(s => add("batch", s.step, "step " + s.step + ": the batch grows " + s.why));
  return Object.entries(found).filter(([, points]) => points.length).map(([kind, data]) => ({
    type: "scatter", label: nameOf(i) + ", " + kind, data, mark: true, order: 0, ...markKinds[kind], hoverRadius: 8,
    borderColor: plainMarks.includes(kind) ? color(i) : "#d1495b", backgroundColor: style("--card")}));
}
function curve(what) {
  const datasets = [];
  runs.forEach((r, i) => {
    const s = r.series[what.key];
    if (!s || !s.value.length) return;
    const few = s.value.length < 60;
    datasets.push({label: nameOf(i), data: s.value.map((y, k) => ({x: xAt(s, k), y})), borderColor: color(i),
      backgroundColor: color(i), borderWidth: 1.5, pointRadius: few ? 2 : 0, pointHoverRadius: 5, pointHitRadius: 8, order: 1});
    if (what.key === "loss") datasets.push(...marksOf(r, i, s));
  });
  const lines = runs.flatMap((r, i) => r.marks.restarts.map(
    step => ({at: axis === "step" ? step : tokensAt(r, step), color: color(i)})));
  return {datasets, lines};
}
const curveKinds = [
  {key: "loss", title: "loss", log: true}, {key: "held_out", title: "validation loss", log: true},
  {key: "grad_norm", title: "gradient norm"}, {key: "lr", title: "learning rate"},
  {key: "tokens_per_second", title: "tokens/s"},
  {key: "margin", title: "margin of pairs"}, {key: "held_out_margin", title: "margin of validation pairs"},
  {key: "accuracy", title: "share of pairs with a margin above 0"},
  {key: "held_out_accuracy", title: "share of validation pairs with a margin above 0"},
  {key: "balance", title: "balance loss, 1 for even loads"}, {key: "router_z", title: "router z loss"},
  {key: "least_load", title: "tokens of the least loaded expert / mean of its layer"},
  {key: "most_load", title: "tokens of the most loaded expert / mean of its layer"}];
const axisText = () => axis === "step" ? "step" : "tokens";
function tooltipLabel(item) {
  if (item.dataset.mark) return item.raw.text;
  return item.dataset.label + ": " + number(item.raw.y);
}
function options(what, lines) {
  const grid = {color: style("--line")}, ticks = {color: style("--soft"), maxRotation: 0};
  return {
    animation: false, maintainAspectRatio: false, responsive: true, parsing: false,
    interaction: {mode: "nearest", axis: "x", intersect: false},
    scales: {
      x: {type: "linear", grid, ticks: {...ticks, autoSkipPadding: 16, callback: v => count(v)},
          title: {display: true, text: axisText(), color: style("--soft")}},
      y: {type: logarithmic && what.log ? "logarithmic" : "linear", grid, ticks: {...ticks,
          callback: v => what.key === "lr" ? number(v, 3) : Math.abs(v) >= 1e4 ? count(v) : number(v, 4)}}},
    plugins: {
      legend: {display: runs.length > 1, labels: {color: style("--text"), boxWidth: 12, boxHeight: 2,
        filter: (item, data) => !data.datasets[item.datasetIndex].mark}},
      tooltip: {callbacks: {title: items => items.length ? axisText() + " " + items[0].raw.x : "", label: tooltipLabel}},
      restartLines: {lines}}};
}
function drawCurves() {
  const where = document.getElementById("charts");
  const sets = [...new Set(runs.flatMap(r => Object.keys(r.series).filter(key => key.startsWith("held_out["))))];
  const after = curveKinds.findIndex(what => what.key === "held_out") + 1;
  curveKinds.splice(after, 0, ...sets.sort().map(key => ({key, title: "validation loss of " + key.slice(9, -1), log: true})));
  for (const what of curveKinds) {
    const {datasets, lines} = curve(what);
    if (!datasets.length) continue;
    const {canvas} = card(where, what.title, 280, what.key === "loss");
    charts.push({chart: new Chart(canvas, {type: "line", data: {datasets}, options: options(what, lines), plugins: [restartLines]}),
      redo(chart) {
        const now = curve(what);
        chart.data.datasets = now.datasets;
        chart.options = options(what, now.lines);
      }});
  }
  if (!where.children.length) where.append(element("p", {class: "note"}, "history.csv contains no steps yet."));
  const thinned = runs.some(r => Object.values(r.series).some(s => s.thinned));
  const some = kind => runs.some(r => r.marks[kind].length);
  const keys = [some("checkpoints") && "◇ checkpoint", some("skipped") && "✕ skipped step", some("stalled") && "△ stalled training", some("slow") && "□ slow host",
    some("rollbacks") && "✳ rollback to a checkpoint", some("recoveries") && "▢ recovery from a failure", some("phases") && "○ other files or shares", some("batches") && "+ larger batch", some("restarts") && "┆ restart",
    thinned && "long curves show only the lowest and the highest value of each interval"].filter(x => x);
  document.getElementById("key").textContent = keys.join("  ·  ");
}

// ---- bars: a row for each label, its parts one after the other
// Room for rows, for the axis, and for a legend that on a phone has many lines.
const heightOf = (where, rows, parts) =>
  Math.min(900, 50 + rows * 30) + 22 * Math.ceil(parts * 125 / Math.max(250, where.clientWidth - 60));
function bars(where, title, labels, parts, text, whole) {
  const rows = labels.length, {canvas, card: c} = card(where, title, heightOf(where, rows, parts.length), whole);
  const grid = {color: () => style("--line")}, soft = () => style("--soft");
  const chart = new Chart(canvas, {type: "bar",
    data: {labels, datasets: parts.map(p => ({label: p.label, data: p.values, backgroundColor: p.colors ?? p.color, maxBarThickness: 24}))},
    options: {animation: false, maintainAspectRatio: false, indexAxis: "y",
      interaction: {mode: "nearest", axis: "xy", intersect: true},
      scales: {x: {stacked: true, grid, ticks: {color: soft, maxRotation: 0, autoSkipPadding: 16, callback: v => text(v)}},
               y: {stacked: true, grid: {display: false}, ticks: {color: () => style("--text"), autoSkip: rows > 30}}},
      plugins: {legend: {labels: {color: () => style("--text"), boxWidth: 12, boxHeight: 12}},
                tooltip: {callbacks: {label: i => i.dataset.label + ": " + text(i.raw)}}}}});
  charts.push({chart, redo() {}});
  return c;
}
const most = 64;
function rowsOf(process) { return process.ranks.slice(0, most); }
function timeTables() {
  const where = document.querySelector("#time .grid");
  runs.forEach((r, i) => {
    const process = last(r.timing);
    if (!process) {
      where.append(element("p", {class: "note"}, nameOf(i) + ": no process of this run has written its times" +
        (r.status === "running" ? " yet." : ".")));
      return;
    }
    const of = t => process.ranks.map(k => k.seconds[t]), mean = a => a.reduce((x, y) => x + y, 0) / a.length;
    const present = Object.keys(tasks).filter(t => Math.max(...of(t)) > 0);
    const c = bars(where, nameOf(i) + ": time of each rank, steps " + (process.first_step + 1) + " to " + process.last_step,
      rowsOf(process).map(k => "rank " + k.rank),
      present.map(t => ({label: taskText(t), color: tasks[t], values: rowsOf(process).map(k => k.seconds[t])})), seconds, true);
    const all = mean(process.ranks.map(k => Object.values(k.seconds).reduce((x, y) => x + y, 0)));
    const rows = present.map(t => [taskText(t), ...[Math.min(...of(t)), mean(of(t)), Math.max(...of(t))].map(x => n(x.toFixed(3))),
      n((100 * mean(of(t)) / all).toFixed(2))]);
    rows.push(["all", n(""), n(all.toFixed(3)), n(""), n("100.00")]);
    const t = element("table");
    t.append(...table(["seconds", n("min"), n("mean"), n("max"), n("%")], rows));
    const flops = process.tokens_per_second * process.flops_per_token / process.ranks.length;
    c.append(element("div", {class: "wide"}, t), element("p", {class: "note"},
      count(process.tokens_per_second) + " tokens/s, " + scaled(flops, 1000, [" ", " k", " M", " G", " T", " P"]) + "FLOP/s per rank in steps" +
      (process.peak_flops_per_rank ? ", " + number(100 * flops / process.peak_flops_per_rank, 3) + "% of the machine's peak" : "") +
      (r.timing.length > 1 ? "; the last of " + r.timing.length + " processes of this run" : "") +
      (process.ranks.length > most ? "; the first " + most + " of " + process.ranks.length + " ranks" : "")));
  });
}

// ---- memory and traffic
// The plan has one rank of each kind, by stage, and says which kind a place of a stage is of; later places repeat that.
function planned(plan, rank) {
  const place = rank.data * plan.grid.seq + rank.seq;
  return plan.ranks.filter(p => p.pipe === rank.pipe)[plan.kind_of_place[place % plan.kind_of_place.length]];
}
// A plan's has in it what is pinned, where that is the same memory.
const reserved = (x, process) => x.reserved_bytes + (x.seconds && process.backend !== "cuda" ? x.pinned_bytes : 0);
function memory() {
  const where = document.querySelector("#memory .grid");
  runs.forEach((r, i) => {
    const process = last(r.timing);
    if (!process && !r.plan) return;
    const rows = [];
    if (process) rowsOf(process).forEach(k => {
      rows.push(["rank " + k.rank, k]);
      const p = r.plan && planned(r.plan, k);
      if (p) rows.push(["planned", p]);
    });
    else r.plan.ranks.forEach(p => rows.push(["rank " + p.rank + ", planned", p]));
    const present = Object.keys(kinds).filter(k => rows.some(([, x]) => x.peak_bytes_by_kind[k]));
    const c = bars(where, nameOf(i) + ": peaks of memory by kind", rows.map(([label]) => label),
      present.map(k => ({label: k, values: rows.map(([, x]) => x.peak_bytes_by_kind[k] ?? 0),
        colors: rows.map(([label]) => kinds[k] + (label.endsWith("planned") ? "88" : ""))})), bytes);
    const t = element("table");
    const cells = rows.map(([label, x]) => [label, n(bytes(x.peak_bytes)), n(bytes(reserved(x, process)))]);
    t.append(...table(["", n("peak of the total"), n("reserved")], cells.slice(0, 16)));
    c.append(element("div", {class: "wide"}, t), element("p", {class: "note"},
      "Kinds reach their peaks at different times, so a bar can be longer than the peak of the total."));
    if (process && process.ranks.some(k => Object.values(k.sent_bytes).some(x => x > 0)))
      traffic(where, r, i, process);
  });
  if (!where.children.length) where.append(element("p", {class: "note"}, "No run has times from its end or a plan."));
}
function traffic(where, r, i, process) {
  const used = Object.keys(axes).filter(a => process.ranks.some(k => k.sent_bytes[a] > 0));
  const c = bars(where, nameOf(i) + ": bytes sent by each rank, by axis", rowsOf(process).map(k => "rank " + k.rank),
    used.map(a => ({label: a, color: axes[a], values: rowsOf(process).map(k => k.sent_bytes[a])})), bytes);
  if (!r.plan) return;
  const t = element("table"), steps = Math.max(1, process.last_step - process.first_step);
  t.append(...table(["", ...used.map(n)], rowsOf(process).slice(0, 16).flatMap(k => {
    const p = planned(r.plan, k);
    return [["rank " + k.rank + ", per step", ...used.map(a => n(bytes(k.sent_bytes[a] / steps)))],
            ["planned, per step", ...used.map(a => n(bytes(p.sent_bytes_a_step[a])))]];
  })));
  c.append(element("div", {class: "wide"}, t), element("p", {class: "note"},
    "The measured bytes include evaluations, the planned bytes do not." +
    (used.includes("expert") ? " The plan assumes evenly loaded experts." : "")));
}

// ---- the schedule
function timeline(where, title, labels, groups, text) {
  const {canvas, card: c} = card(where, title, heightOf(where, labels.length, groups.length), true);
  const chart = new Chart(canvas, {type: "bar",
    data: {labels, datasets: groups.map(g => ({label: g.label, data: g.spans, backgroundColor: g.color, grouped: false,
      borderColor: () => style("--card"), borderWidth: g.edges ? {left: 1} : 0, borderSkipped: false, maxBarThickness: 22, minBarLength: 1}))},
    options: {animation: false, maintainAspectRatio: false, indexAxis: "y", parsing: {xAxisKey: "x", yAxisKey: "y"},
      interaction: {mode: "nearest", axis: "xy", intersect: true},
      scales: {x: {type: "linear", min: 0, grid: {color: () => style("--line")}, ticks: {color: () => style("--soft"), maxRotation: 0,
                   autoSkipPadding: 16, callback: v => text(v)}},
               y: {type: "category", labels, grid: {display: false}, ticks: {color: () => style("--text"), autoSkip: false}}},
      plugins: {legend: {labels: {color: () => style("--text"), boxWidth: 12, boxHeight: 12}},
        tooltip: {callbacks: {label: i => i.dataset.label + (i.raw.m >= 0 ? ", microbatch " + i.raw.m : "") + ": " +
          text(i.raw.x[0]) + " to " + text(i.raw.x[1])}}}}});
  charts.push({chart, redo() {}});
  return c;
}
function schedules() {
  const where = document.querySelector("#schedule .grid");
  runs.forEach((r, i) => {
    if (r.trace && r.trace.bars.length) {
      const ranks = [...new Set(r.trace.bars.map(b => b[0]))].sort((a, b) => a - b).slice(0, 32);
      const present = Object.keys(tasks).filter(t => r.trace.bars.some(b => b[1] === t));
      // What a rank waits for lies on what it waits in.
      present.sort((a, b) => waits.includes(b) - waits.includes(a));
      const c = timeline(where, nameOf(i) + ": step " + r.trace.step + ", traced", ranks.map(k => "rank " + k),
        present.map(t => ({label: taskText(t), color: tasks[t], edges: t === "forward" || t === "backward",
          spans: r.trace.bars.filter(b => b[1] === t && ranks.includes(b[0]))
            .map(b => ({x: [b[3], b[4]], y: "rank " + b[0], m: b[2]}))})), x => number(x, 4) + " ms");
      c.append(element("p", {class: "note"}, "from " + r.trace.file +
        (r.trace.left_out ? "; the " + r.trace.left_out + " shortest spans are left out" : "")));
    } else if (r.plan) {
      const s = r.plan.schedule, groups = [["forward", tasks.forward, ["forward"]],
        ["backward", tasks.backward, ["backward", "input_gradients"]], ["weight gradients", "#7a5cc0", ["weight_gradients"]]]
        .map(([label, color, kinds]) => ({label, color, edges: true,
          spans: s.stages.flatMap((spans, k) => spans.filter(x => kinds.includes(x.what))
            .map(x => ({x: [x.begin, x.end], y: "stage " + k, m: x.microbatch})))})).filter(g => g.spans.length || g.label !== "weight gradients");
      const c = timeline(where, nameOf(i) + ": planned step", s.stages.map((_, k) => "stage " + k), groups, x => count(x) + "FLOP");
      c.append(element("p", {class: "note"}, "bubble " + number(100 * s.bubble, 3) +
        "%; widths are FLOPs of matrix products and attention. To see the times of a real step, set run.trace_steps."));
    }
  });
  if (!where.children.length) where.append(element("p", {class: "note"}, "No run has a trace or a plan."));
}

// ---- decks
function decks() {
  const where = document.getElementById("decks");
  runs.forEach((r, i) => {
    if (i > 0 && r.differences) {
      const box = element("div", {class: "wide"}), t = element("table");
      where.append(element("h3", {}, "from " + nameOf(0) + " to " + nameOf(i)), box);
      if (!r.differences.length) box.append("The decks are equal.");
      else {
        t.append(...table(["differences"], r.differences.map(d => [{kind: "long", text: d}])));
        box.append(t);
      }
    }
  });
  runs.forEach((r, i) => {
    if (!r.deck) return;
    where.append(element("details", {class: "deck"}, element("summary", {}, named(i, nameOf(i) + ": effective.toml")),
      element("pre", {}, r.deck)));
  });
}

function redraw() {
  for (const {chart, redo} of charts) { redo(chart); chart.update("none"); }
}
Chart.defaults.font.family = getComputedStyle(document.body).fontFamily;
overview();
drawCurves();
timeTables();
memory();
schedules();
decks();
document.querySelectorAll("button[data-axis]").forEach(b => b.addEventListener("click", () => {
  axis = b.dataset.axis;
  document.querySelectorAll("button[data-axis]").forEach(o => o.setAttribute("aria-pressed", String(o === b)));
  redraw();
}));
document.getElementById("log").addEventListener("click", e => {
  logarithmic = !logarithmic;
  e.currentTarget.setAttribute("aria-pressed", String(logarithmic));
  redraw();
});
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", redraw);
