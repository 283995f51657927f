"use strict";
(() => {
const began = performance.now();
const data = JSON.parse(document.getElementById("data").textContent);
const groups = data.groups;
const byId = (id) => document.getElementById(id);

/* ---- analysis: the same answers as fedsched.analysis.arrival, speedup, envelope and groups ---- */

/** First step at or above a target: [rounds, airtime], or null. Steps rise, so halve. */
function reach(run, target) {
  const [rounds, airtime, value] = run.steps;
  let low = 0, high = value.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (value[middle] >= target) high = middle; else low = middle + 1;
  }
  return low < value.length ? { rounds: rounds[low], airtime: airtime[low] } : null;
}
const mean = (values) => values.reduce((sum, each) => sum + each, 0) / values.length;
const clock = (line, c) => line.airtime + c * line.rounds;

function meanReach(reached) {
  if (reached.some((each) => each === null)) return null;
  return { rounds: mean(reached.map((r) => r.rounds)), airtime: mean(reached.map((r) => r.airtime)) };
}

function speedup(baseline, ours) {
  const logs = baseline.map((time, k) => Math.log(time / ours[k]));
  const centre = mean(logs), n = logs.length;
  if (!Number.isFinite(centre)) return null;
  if (n < 2) return { ratio: Math.exp(centre), low: null, high: null, seeds: n };
  const deviation = Math.sqrt(logs.reduce((sum, each) => sum + (each - centre) ** 2, 0) / (n - 1));
  const half = data.quantiles[n - 2] * deviation / Math.sqrt(n);
  return { ratio: Math.exp(centre), low: Math.exp(centre - half), high: Math.exp(centre + half), seeds: n };
}
function against(group, reached, c) {
  if (group.baseline === null) return null;
  const pairs = [];
  group.runs.forEach((ours, i) => groups[group.baseline].runs.forEach((theirs, j) => {
    if (ours.seed === theirs.seed) pairs.push([reached[group.baseline][j], reached[groups.indexOf(group)][i]]);
  }));
  if (!pairs.length || pairs.some(([a, b]) => a === null || b === null)) return null;
  return speedup(pairs.map(([a]) => clock(a, c)), pairs.map(([, b]) => clock(b, c)));
}
/** Who is first as a function of c: [{index, begin, end}], by indices of groups. */
function envelope(lines) {
  const known = lines.filter((line) => line !== null);
  if (!known.length) return [];
  const before = (a, b) => { for (let k = 0; k < a.length; k++) if (a[k] !== b[k]) return a[k] < b[k]; return false; };
  let now = known[0], here = 0;
  for (const line of known) if (before([line.airtime, line.rounds], [now.airtime, now.rounds])) now = line;
  const segments = [];
  for (;;) {
    let next = null, key = null;
    for (const line of known) {
      if (line.rounds >= now.rounds) continue;
      const its = [(line.airtime - now.airtime) / (now.rounds - line.rounds), line.rounds, groups[line.index].label];
      if (key === null || before(its, key)) { key = its; next = line; }
    }
    if (next === null) return [...segments, { index: now.index, begin: here, end: Infinity }];
    if (key[0] > here) { segments.push({ index: now.index, begin: here, end: key[0] }); here = key[0]; }
    now = next;
  }
}

/* ---- state ---- */

const COMPUTATION_TOP = 30, COMPUTATION_KNEE = 0.1;
const environments = [...new Set(groups.map((group) => group.environment))];
const state = { c: 0, target: data.target, environment: data.environment, hidden: new Set(), log: true, relative: false, loss: "loss", power: null };
/** Times are compared within one environment, unless all are asked for (null). */
const here = (k) => state.environment === null || groups[k].environment === state.environment;
const shown = (k) => here(k) && !state.hidden.has(k);
const nameOf = (k) => state.environment === null ? groups[k].label : groups[k].choice;

function computeAll() {
  const reached = groups.map((group) => group.runs.map((run) => reach(run, state.target)));
  const lines = reached.map((each, index) => { const at = meanReach(each); return at && { ...at, index }; });
  const gains = groups.map((group) => against(group, reached, state.c));
  const visible = lines.filter((line) => line && shown(line.index));
  return { reached, lines, gains, visible, best: envelope(visible) };
}

/* ---- numbers as text ---- */

const THIN = "\u202f"; // narrow, and no line ends at it
function fixed(value, digits) {
  const [whole, part] = value.toFixed(digits).split(".");
  const spaced = whole.replace(/\B(?=(\d{3})+$)/g, THIN);
  return part === undefined ? spaced : `${spaced}.${part}`;
}
const seconds = (value) => fixed(value, value < 10 ? 2 : value < 1000 ? 1 : 0);
const breakpoint = (value) => value >= 1000 ? fixed(value, 0) : String(Number(value.toPrecision(3)));
const times = (value) => fixed(value, value < 10 ? 2 : value < 100 ? 1 : 0);
function compact(value) {
  if (value === 0) return "0";
  const size = Math.abs(value);
  if (size >= 1e6 || size < 1e-4) return value.toExponential(size === 10 ** Math.round(Math.log10(size)) ? 0 : 2).replace("e+", "e");
  return size >= 1000 ? fixed(value, 0) : String(Number(value.toPrecision(4)));
}
const spaced = (label) => label.replace(/=/g, `${THIN}=${THIN}`);

/* ---- elements ---- */

function make(tag, attributes = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
  element.append(...children);
  return element;
}
function draw(tag, attributes = {}, text = null) {
  const element = document.createElementNS("http://www.w3.org/2000/svg", tag);
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
  if (text !== null) element.textContent = text;
  return element;
}
const COLOURS = 7, DASHES = ["", "8 4", "2 4", "10 4 2 4", "5 3 1 3 1 3"];
// Where there are few enough, the colour is the setting and the dash the policy, so that rivals are seen side by side.
const setting = (group) => group.choice.replace(group.kind, "").replace("(biased)", "").trim();
const kinds = [...new Set(groups.map((group) => group.kind))], settings = [...new Set(groups.map(setting))];
const paired = kinds.length <= DASHES.length && settings.length > 1 && settings.length <= COLOURS;
const choices = [...new Set(groups.map((group) => group.choice))];
/** A choice keeps its look in every environment; only where all are shown at once each has its own. */
const slot = (k) => state.environment === null && environments.length > 1 ? k
  : paired ? kinds.indexOf(groups[k].kind) * COLOURS + settings.indexOf(setting(groups[k])) : choices.indexOf(groups[k].choice);
const colour = (k) => `var(--s${slot(k) % COLOURS})`;
const dash = (k) => DASHES[Math.floor(slot(k) / COLOURS) % DASHES.length];
function swatch(stroke, pattern) {
  const picture = draw("svg", { class: "swatch", viewBox: "0 0 24 10", "aria-hidden": "true" });
  const line = draw("line", { x1: 1, x2: 23, y1: 5, y2: 5, "stroke-width": 3, "stroke-linecap": pattern ? "butt" : "round", "stroke-dasharray": pattern });
  line.style.stroke = stroke;
  picture.append(line);
  return picture;
}

/* ---- scales ---- */

const WARP = {
  linear: [(x) => x, (u) => u],
  log: [Math.log10, (u) => 10 ** u],
  // Straight near zero, logarithmic far from it; zero has its place.
  knee: [(x) => Math.log1p(x / COMPUTATION_KNEE), (u) => COMPUTATION_KNEE * Math.expm1(u)],
};
function scaleOf(kind, [low, high], from, to) {
  const [go, back] = WARP[kind], a = go(low), b = go(high), span = b - a || 1;
  return { kind, low, high, at: (x) => from + (go(x) - a) / span * (to - from), back: (p) => back(a + (p - from) / (to - from) * span) };
}
function ticksOf(scale, room) {
  const { kind, low, high } = scale;
  if (kind === "knee") return [0, 0.1, 0.3, 1, 3, 10, 30, 100, 300, 1000].filter((x) => x <= high * 1.0001);
  if (kind === "log") {
    const found = [];
    for (const steps of [[1], [1, 3], [1, 2, 5], [1, 1.5, 2, 3, 4, 5, 6, 7, 8, 9]]) {
      const all = [];
      for (let e = Math.floor(Math.log10(low)); e <= Math.ceil(Math.log10(high)); e++)
        for (const s of steps) { const x = s * 10 ** e; if (x >= low * 0.9999 && x <= high * 1.0001) all.push(Number(x.toPrecision(3))); }
      if (all.length > room && found.length > 1) break;
      found.splice(0, found.length, ...all);
      if (found.length >= 4) break;
    }
    const skip = Math.ceil(found.length / Math.max(room, 2));
    return found.filter((_, k) => k % skip === 0);
  }
  const rough = (high - low) / Math.max(room, 1), power = 10 ** Math.floor(Math.log10(rough || 1));
  const step = [1, 2, 5, 10].map((s) => s * power).find((s) => s >= rough * 0.999) || power * 10;
  const found = [];
  for (let k = Math.ceil(low / step - 1e-9); k * step <= high + step * 1e-9; k++) found.push(Number((k * step).toPrecision(12)));
  return found;
}

/* ---- charts ---- */

const charts = new Map();
function pathOf(xs, ys, x, y) {
  let text = "", pen = false;
  for (let k = 0; k < xs.length; k++) {
    const px = x.at(xs[k]), py = y.at(ys[k]);
    if (!Number.isFinite(px) || !Number.isFinite(py)) { pen = false; continue; }
    text += `${pen ? "L" : "M"}${px.toFixed(1)} ${py.toFixed(1)}`;
    pen = true;
  }
  return text;
}
/**
 * Draw a chart into its element. plan: { x, y: {kind, domain, name}, series: [{name, colour, dash, xs, ys, seeds,
 * step, faint}], rules: [{x | y, name}], dots: [{x, y, colour, ring}], tipX(x), tipY(y), empty, about }
 */
function drawChart(id, plan) {
  const box = byId(id), width = box.clientWidth, height = box.clientHeight;
  const chart = charts.get(id) || {};
  charts.set(id, Object.assign(chart, { plan, box }));
  for (const old of [...box.children]) old.remove();
  chart.tip = null;
  if (!chart.wired) wire(chart);
  box.setAttribute("role", "img");
  box.setAttribute("tabindex", "0");
  box.setAttribute("aria-label", plan.about);
  if (plan.empty) { chart.x = null; box.append(make("div", { class: "empty" }, plan.empty)); return; }
  const yLabels = ticksOf(scaleOf(plan.y.kind, plan.y.domain, 1, 0), Math.floor(height / 52));
  const left = Math.max(30, 10 + 6.8 * Math.max(...yLabels.map((each) => compact(each).length)));
  const frame = { left, right: width - 12, top: 24, bottom: height - 38 };
  const x = scaleOf(plan.x.kind, plan.x.domain, frame.left, frame.right);
  const y = scaleOf(plan.y.kind, plan.y.domain, frame.bottom, frame.top);
  Object.assign(chart, { x, y, frame });
  const picture = draw("svg", { class: "plot", viewBox: `0 0 ${width} ${height}`, "aria-hidden": "true" });
  for (const each of yLabels) {
    const at = y.at(each);
    picture.append(draw("line", { class: "gridline", x1: frame.left, x2: frame.right, y1: at, y2: at }));
    picture.append(draw("text", { x: frame.left - 7, y: at + 4, "text-anchor": "end" }, compact(each)));
  }
  picture.append(draw("line", { class: "axis", x1: frame.left, x2: frame.right, y1: frame.bottom, y2: frame.bottom }));
  for (const each of ticksOf(x, Math.floor(width / 64)).filter((tick) => !plan.whole || Number.isInteger(tick))) {
    const at = x.at(each);
    picture.append(draw("line", { class: "axis", x1: at, x2: at, y1: frame.bottom, y2: frame.bottom + 4 }));
    picture.append(draw("text", { x: at, y: frame.bottom + 17, "text-anchor": "middle" }, compact(each)));
  }
  picture.append(draw("text", { class: "name", x: frame.right, y: height - 4, "text-anchor": "end" }, plan.x.name));
  picture.append(draw("text", { class: "name", x: 0, y: 12 }, plan.y.name));
  const clip = `clip-${id}`, inner = draw("g", { "clip-path": `url(#${clip})` });
  const mask = draw("clipPath", { id: clip });
  mask.append(draw("rect", { x: frame.left - 1, y: frame.top - 8, width: frame.right - frame.left + 8, height: frame.bottom - frame.top + 9 }));
  const line = (xs, ys, look, each) => {
    const path = draw("path", { d: pathOf(xs, ys, x, y), "stroke-width": 2, ...look });
    path.style.stroke = each.colour;
    inner.append(path);
  };
  for (const each of plan.broad || []) line(each.xs, each.ys, { class: "broad" }, each);
  for (const each of plan.series) for (const [xs, ys] of each.seeds || []) line(xs, ys, { class: "seed" }, each);
  for (const each of plan.series) {
    if (each.step) {
      const fill = draw("path", { class: "fill", d: pathOf(each.outline[0], each.outline[1], x, y), "fill-opacity": Math.min(0.1, 0.4 / plan.series.length) });
      fill.style.fill = each.colour;
      inner.append(fill);
      line(each.outline[0], each.outline[1], { "stroke-dasharray": each.dash, "stroke-width": 1.6 }, each);
    } else line(each.xs, each.ys, { "stroke-dasharray": each.dash, "data-series": each.name, "stroke-width": each.width || 2 }, each);
  }
  picture.append(mask, inner);
  for (const each of plan.rules || []) {
    const across = each.y !== undefined, at = across ? y.at(each.y) : x.at(each.x);
    const inside = across ? at >= frame.top - 1 && at <= frame.bottom + 1 : at >= frame.left - 1 && at <= frame.right + 1;
    if (!Number.isFinite(at) || !inside) continue;
    picture.append(draw("line", across ? { class: "rule", x1: frame.left, x2: frame.right, y1: at, y2: at } : { class: "rule", x1: at, x2: at, y1: frame.top, y2: frame.bottom }));
    const end = !across && at > (frame.left + frame.right) / 2;
    const place = across
      ? { x: frame.left + 5, y: at - 6 }
      : { x: at + (end ? -6 : 6), y: frame.top + 8, "text-anchor": end ? "end" : "start" };
    picture.append(draw("text", { class: "rule-name", ...place }, each.name));
  }
  for (const each of plan.dots || []) {
    const px = x.at(each.x), py = y.at(each.y);
    if (!(px >= frame.left - 1 && px <= frame.right + 1)) continue;
    const dot = draw("circle", { cx: px, cy: py, r: each.ring ? 4.5 : 4, "stroke-width": 2 });
    dot.style.fill = each.ring ? "var(--card)" : each.colour;
    dot.style.stroke = each.ring ? each.colour : "var(--card)";
    picture.append(dot);
  }
  chart.cursor = draw("g");
  picture.append(chart.cursor);
  box.append(picture);
}

function interpolate(xs, ys, x) {
  if (!xs.length || x < xs[0] || x > xs[xs.length - 1]) return null;
  let low = 0, high = xs.length - 1;
  while (high - low > 1) { const middle = (low + high) >> 1; if (xs[middle] <= x) low = middle; else high = middle; }
  if (xs[high] === xs[low]) return ys[low];
  return ys[low] + (ys[high] - ys[low]) * Math.max(0, Math.min(1, (x - xs[low]) / (xs[high] - xs[low])));
}
function hideTip(chart) {
  if (chart.tip) chart.tip.remove();
  chart.tip = null;
  if (chart.cursor) chart.cursor.replaceChildren();
}
function showTip(chart, position) {
  hideTip(chart);
  if (!chart.x) return;
  const { plan, frame, x, y, box } = chart;
  const px = Math.max(frame.left, Math.min(frame.right, position));
  let at = x.back(px);
  if (plan.whole) at = Math.round(at);
  chart.at = px;
  const rows = [];
  for (const each of plan.series) {
    const value = interpolate(each.xs, each.ys, at);
    if (value === null || !Number.isFinite(value)) continue;
    rows.push({ each, value });
  }
  if (!rows.length) return;
  const line = x.at(at);
  chart.cursor.append(draw("line", { class: "cursor", x1: line, x2: line, y1: frame.top, y2: frame.bottom }));
  for (const { each, value } of rows) {
    const py = y.at(value);
    if (!Number.isFinite(py)) continue;
    const dot = draw("circle", { cx: line, cy: Math.max(frame.top - 8, Math.min(frame.bottom, py)), r: 3.5 });
    dot.style.fill = each.colour;
    chart.cursor.append(dot);
  }
  rows.sort((a, b) => plan.keepOrder ? 0 : b.value - a.value);
  const tip = make("div", { class: "tip" }, make("b", {}, plan.tipX(at)));
  for (const { each, value } of rows.slice(0, 12))
    tip.append(make("div", {}, swatch(each.colour, each.dash || ""), make("span", {}, spaced(each.name)), make("i", {}, plan.tipY(value))));
  if (rows.length > 12) tip.append(`and ${rows.length - 12} more`);
  box.append(tip);
  chart.tip = tip;
  const room = box.clientWidth - tip.offsetWidth, beside = line + 14;
  tip.style.left = `${Math.max(0, beside <= room ? beside : Math.min(room, line - 14 - tip.offsetWidth))}px`;
  tip.style.top = `${Math.max(0, Math.min(frame.top + 2, box.clientHeight - tip.offsetHeight))}px`;
}
function wire(chart) {
  const { box } = chart;
  chart.wired = true;
  const follow = (event) => showTip(chart, event.clientX - box.getBoundingClientRect().left);
  box.addEventListener("pointermove", follow);
  box.addEventListener("pointerdown", follow);
  box.addEventListener("pointerleave", () => hideTip(chart));
  box.addEventListener("blur", () => hideTip(chart));
  box.addEventListener("keydown", (event) => {
    if (event.key === "Escape") { hideTip(chart); return; }
    const step = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
    if (!step || !chart.x) return;
    event.preventDefault();
    const { left, right } = chart.frame;
    const from = chart.tip ? chart.at : (left + right) / 2;
    showTip(chart, from + step * Math.max(4, (right - left) / 60));
  });
}

/* ---- the pictures ---- */

/** Curves of the seeds of a group at computation time c, and their mean where every seed speaks. */
function curvesOf(group, which, c) {
  const known = group.runs.map((run) => run[which]).filter(({ each }) => each[0].length);
  if (!known.length) return null;
  const timed = ([rounds, airtime, value]) => [airtime.map((a, k) => a + c * rounds[k]), value];
  const long = known.some((run) => run.mean), seeds = known.map((run) => timed(run.each));
  const drawn = known.length > 1 || long ? seeds : [];
  const sources = known.map((run) => timed(run.mean || run.each));
  if (sources.length === 1) return { xs: sources[0][0], ys: sources[0][1], seeds: drawn };
  const begin = Math.max(...sources.map(([xs]) => xs[0])), end = Math.min(...sources.map(([xs]) => xs[xs.length - 1]));
  if (!(end > begin)) return { xs: [], ys: [], seeds: drawn };
  const points = 400, bend = state.log && begin > 0 ? Math.log(end / begin) : 0;
  const xs = [], ys = [], at = sources.map(() => 0);
  for (let k = 0; k < points; k++) {
    const share = k / (points - 1);
    const x = k === points - 1 ? end : bend ? begin * Math.exp(bend * share) : begin + (end - begin) * share;
    let sum = 0;
    sources.forEach(([px, py], s) => {
      while (at[s] < px.length - 2 && px[at[s] + 1] < x) at[s]++;
      const low = at[s], high = Math.min(low + 1, px.length - 1), span = px[high] - px[low];
      sum += py[low] + (py[high] - py[low]) * (span > 0 ? Math.max(0, Math.min(1, (x - px[low]) / span)) : 0);
    });
    xs.push(x);
    ys.push(sum / sources.length);
  }
  return { xs, ys, seeds: drawn };
}
function extent(lists, keep = Number.isFinite) {
  let low = Infinity, high = -Infinity;
  for (const list of lists) for (const each of list) if (keep(each)) { if (each < low) low = each; if (each > high) high = each; }
  return low <= high ? [low, high] : null;
}
const positive = (x) => Number.isFinite(x) && x > 0;
const widen = ([low, high], share) => [low - (high - low || 1) * share, high + (high - low || 1) * share];
const NOTHING = "Every configuration is hidden. Choose some in the legend.";
const visibleGroups = () => groups.map((group, k) => ({ group, k })).filter(({ k }) => shown(k));
const look = (k) => ({ name: nameOf(k), colour: colour(k), dash: dash(k) });

function drawCurves(id, which, name, answers) {
  const series = [];
  for (const { group, k } of visibleGroups()) {
    const curves = curvesOf(group, which, state.c);
    if (curves) series.push({ ...look(k), ...curves });
  }
  const all = (place) => series.flatMap((each) => [[each.xs, each.ys][place], ...each.seeds.map((seed) => seed[place])]);
  const acceptable = state.log ? positive : Number.isFinite;
  const along = extent(all(0), acceptable), up = extent(all(1));
  const about = `${name} over time, ${series.length} configurations, computation ${compact(state.c)} s a round`;
  if (!along || !up) return drawChart(id, { about, empty: series.length || shownAny() ? `No ${name} was measured.` : NOTHING, series: [] });
  const targeted = which === "accuracy";
  let domain = widen(up, 0.04);
  if (targeted) domain = [Math.max(0, Math.min(domain[0], state.target - 0.02)), Math.min(1.02, Math.max(domain[1], state.target + 0.03))];
  else if (up[0] >= 0) domain[0] = Math.max(0, domain[0]);
  const narrow = state.log && along[1] / along[0] < 1.01;
  drawChart(id, {
    about, series,
    x: { kind: state.log ? "log" : "linear", domain: narrow ? [along[0] * 0.9, along[1] * 1.1] : state.log ? along : [0, along[1] || 1], name: "simulated time (s)" },
    y: { kind: "linear", domain, name },
    rules: targeted ? [{ y: state.target, name: `target ${compact(state.target)}` }] : [],
    dots: targeted ? answers.visible.map((line) => ({ x: clock(line, state.c), y: state.target, colour: colour(line.index) })) : [],
    tipX: (x) => `${seconds(x)} s`, tipY: (y) => y.toFixed(4),
  });
}
const shownAny = () => groups.some((_, k) => shown(k));

function drawTimes(answers) {
  const about = `seconds to accuracy ${compact(state.target)} against computation time a round`;
  const top = Math.max(COMPUTATION_TOP, state.c * 1.05), lines = answers.visible;
  if (!lines.length) return drawChart("times", { about, series: [], empty: shownAny() ? `No configuration shown reaches ${compact(state.target)}.` : NOTHING });
  const [go, back] = WARP.knee, changes = answers.best.slice(1).map((part) => part.begin).filter((c) => c < top);
  const grid = [...changes, top];
  for (let k = 0; k < 120; k++) grid.push(back(go(top) * k / 120));
  grid.sort((a, b) => a - b);
  const fastest = (c) => Math.min(...lines.map((line) => clock(line, c)));
  const height = (line, c) => state.relative ? clock(line, c) / fastest(c) : clock(line, c);
  const series = lines.map((line) => ({ ...look(line.index), xs: grid, ys: grid.map((c) => height(line, c)), width: 1.8 }));
  const winner = (part) => lines.find((line) => line.index === part.index);
  const broad = answers.best.filter((part) => part.begin < top).map((part) => {
    const xs = grid.filter((c) => c >= part.begin && c <= part.end);
    return { colour: colour(part.index), xs, ys: xs.map((c) => height(winner(part), c)) };
  });
  const dots = answers.best.slice(1).filter((part) => part.begin <= top)
    .map((part) => ({ x: part.begin, y: height(winner(part), part.begin), colour: "var(--ink)", ring: true }));
  const up = extent(series.map((each) => each.ys), positive) || [1, 10];
  drawChart("times", {
    about, series, broad, dots,
    x: { kind: "knee", domain: [0, top], name: "computation a round (s)" },
    y: { kind: "log", domain: [up[0] * (state.relative ? 0.97 : 0.85), up[1] * (state.relative ? 1.03 : 1.1)], name: state.relative ? `time to ${compact(state.target)}, over the fastest` : `seconds to ${compact(state.target)}` },
    rules: [{ x: state.c, name: `${compact(state.c)} s` }],
    tipX: (c) => `computation ${compact(Number(c.toPrecision(3)))} s a round`, tipY: (value) => state.relative ? `${value.toFixed(3)} times` : `${seconds(value)} s`,
  });
}

function drawPower() {
  const group = groups[state.power], { names, rounds, mean_w: averages } = group.power;
  const mix = (k) => names.length < 2 ? "var(--s0)" : `color-mix(in oklab, var(--s1) ${Math.round(100 * (1 - k / (names.length - 1)))}%, var(--s0))`;
  const series = names.map((name, k) => ({ name, colour: mix(k), dash: "", xs: rounds, ys: averages[k], width: 1.6 }));
  const up = extent(averages, positive), budget = group.budget_w;
  const about = `running average of transmit power of ${names.length} device groups over rounds, ${group.label}`;
  if (!up) drawChart("power", { about, series: [], empty: "No power was spent." });
  else drawChart("power", {
    about, series, keepOrder: true,
    x: { kind: "log", domain: [1, Math.max(2, rounds[rounds.length - 1])], name: "round" },
    y: { kind: "log", domain: [Math.min(up[0], budget || up[0]) * 0.7, Math.max(up[1], budget || up[1]) * 1.4], name: "average power so far (W)" },
    rules: budget ? [{ y: budget, name: `budget ${compact(budget)} W` }] : [],
    tipX: (x) => `after ${fixed(Math.max(1, x), 0)} rounds`, tipY: (value) => `${compact(value)} W`,
  });
  const ramp = make("span", { class: "ramp" });
  ramp.style.background = `linear-gradient(in oklab to right, var(--s1), var(--s0))`;
  byId("power-ramp").replaceChildren(...(names.length > 1 ? [names[0], ramp, names[names.length - 1]] : names), ". Power times probability, averaged from the first round on.");
}

function drawSelection() {
  const series = visibleGroups().map(({ group, k }) => ({ ...look(k), xs: group.selection.device, ys: group.selection.share, width: 1.6 }));
  const about = "share of rounds each device takes part in";
  const along = extent(series.map((each) => each.xs)), up = extent(series.map((each) => each.ys), positive);
  if (!along || !up) return drawChart("selection", { about, series: [], empty: series.length ? "No device took part." : NOTHING });
  const log = up[1] / up[0] > 25;
  drawChart("selection", {
    about, series, whole: true,
    x: { kind: "linear", domain: along[0] === along[1] ? widen(along, 0.5) : along, name: "device" },
    y: { kind: log ? "log" : "linear", domain: log ? [up[0] * 0.8, Math.min(up[1] * 1.3, Math.max(1, up[1]))] : [0, up[1] * 1.08], name: "share of rounds" },
    tipX: (x) => `device ${x}`, tipY: (value) => compact(value),
  });
}

function drawSizes() {
  const series = visibleGroups().map(({ group, k }) => {
    const xs = group.sizes.map((_, size) => size), outline = [[], []];
    xs.forEach((size) => { outline[0].push(size - 0.5, size + 0.5); outline[1].push(group.sizes[size], group.sizes[size]); });
    outline[0].push(xs.length - 0.5); outline[1].push(0);
    return { ...look(k), xs, ys: group.sizes, step: true, outline };
  });
  const about = "distribution of the number of devices in a round";
  if (!series.length) return drawChart("sizes", { about, series, empty: NOTHING });
  const top = Math.max(...series.map((each) => each.xs.length)), up = extent(series.map((each) => each.ys)) || [0, 1];
  const least = Math.min(...series.map((each) => Math.max(0, each.ys.findIndex((share) => share > 0))));
  drawChart("sizes", {
    about, series, whole: true,
    x: { kind: "linear", domain: [least - 0.6, top - 0.4], name: "devices in a round" },
    y: { kind: "linear", domain: [0, up[1] * 1.06], name: "share of rounds" },
    tipX: (x) => `${x} ${x === 1 ? "device" : "devices"}`, tipY: (value) => `${(100 * value).toFixed(1)} %`,
  });
}

/* ---- words and tables ---- */

function headline(answers) {
  const target = compact(state.target), strong = (text) => make("strong", {}, text);
  const visible = answers.visible.map((line) => ({ line, time: clock(line, state.c) })).sort((a, b) => a.time - b.time);
  let best = null;
  answers.gains.forEach((gain, k) => {
    if (gain && shown(k) && shown(groups[k].baseline) && answers.lines[k] && answers.lines[groups[k].baseline] && (!best || gain.ratio > best.gain.ratio)) best = { gain, k };
  });
  const parts = [], notes = [];
  if (!shownAny()) parts.push("Every configuration is hidden.");
  else if (!visible.length) parts.push("No configuration reaches ", strong(target), " with all its seeds.");
  else if (best) {
    const other = groups[best.k].baseline, ours = groups[best.k].label.split(" "), theirs = groups[other].label.split(" ");
    const common = ours.filter((word) => theirs.includes(word));
    const named = (words) => spaced(words.filter((word) => !common.includes(word)).join(" ") || words.join(" "));
    const sooner = best.gain.ratio >= 1;
    parts.push(`${named(ours)} reaches ${target} in `, strong(`${seconds(clock(answers.lines[best.k], state.c))} s`), `, ${named(theirs)} in `,
      strong(`${seconds(clock(answers.lines[other], state.c))} s`), ": ", strong(`${times(sooner ? best.gain.ratio : 1 / best.gain.ratio)} times ${sooner ? "sooner" : "later"}`),
      common.length ? ` (${spaced(common.join(", "))})` : "", ".");
    notes.push(best.gain.low === null ? "One seed, so no interval." : `95 % interval of the ratio: ${times(best.gain.low)} to ${times(best.gain.high)}, from ${best.gain.seeds} paired seeds.`);
  } else if (visible.length > 1) {
    const last = visible[visible.length - 1];
    parts.push(`${spaced(nameOf(visible[0].line.index))} reaches ${target} in `, strong(`${seconds(visible[0].time)} s`), `, the slowest to arrive, ${spaced(nameOf(last.line.index))}, in `, strong(`${seconds(last.time)} s`), ".");
  } else parts.push(`${visibleGroups().length > 1 ? "Only " : ""}${spaced(nameOf(visible[0].line.index))} reaches ${target}: in `, strong(`${seconds(visible[0].time)} s`), ".");
  if (visible.length > 1) notes.unshift(`With ${compact(state.c)} s of computation a round, ${spaced(nameOf(visible[0].line.index))} is the fastest of all: ${seconds(visible[0].time)} s.`);
  byId("headline").replaceChildren(...parts);
  byId("subline").textContent = notes.join(" ");
}

function bits(count) {
  const [unit, name] = [[1e9, "Gbit"], [1e6, "Mbit"], [1e3, "kbit"]].find(([size]) => count >= size) ?? [1, "bit"];
  return `${(count / unit).toPrecision(3)} ${name}`;
}
function cell(key, value, text, extra = {}) {
  return make("td", { "data-key": key, ...(value === null ? {} : { "data-value": String(value), title: String(value) }), ...extra }, ...[].concat(text));
}
function added(omega) {
  return omega === null ? [] : [" ", make("small", { "data-omega": omega }, `ω\u202f${omega.toPrecision(2)}`)];
}
function used(budgets) {
  return budgets.map((budget) => {
    const over = budget.worst_use > 1 + 1e-9, limit = `${budget.limit.toPrecision(3)} ${budget.unit} a ${budget.per}`;
    return make("span", { class: over ? "over" : "", title: `worst device: ${budget.worst_use.toPrecision(4)} of ${limit}`, "data-budget": budget.name }, `${budget.name} ${fixed(100 * budget.worst_use, 0)} %${over ? " !" : ""}`);
  });
}
function configurations(answers) {
  const packed = groups.some((group) => group.omega !== null), limited = groups.some((group) => group.budgets.length);
  byId("upload-head").hidden = !packed;
  byId("budgets-head").hidden = !limited;
  const rows = groups.map((group, k) => {
    if (!here(k)) return null;
    const line = answers.lines[k], gain = answers.gains[k], time = line && clock(line, state.c);
    const arrived = answers.reached[k].filter((each) => each !== null).length;
    const name = make("button", { class: "row-name", type: "button", "aria-pressed": String(shown(k)), "data-index": k }, swatch(colour(k), dash(k)), spaced(nameOf(k)));
    const never = arrived ? `${arrived} of ${group.runs.length} seeds` : "not reached";
    const row = make("tr", { "data-label": group.label }, make("th", { scope: "row" }, name),
      line ? cell("seconds_to_target", time, seconds(time)) : cell("seconds_to_target", null, never, { class: "never" }),
      line ? cell("rounds_to_target", line.rounds, fixed(line.rounds, 0)) : cell("rounds_to_target", null, "–", { class: "never" }),
      gain ? cell("speedup", gain.ratio, gain.low === null ? times(gain.ratio) : [`${times(gain.ratio)} `, make("small", { "data-low": gain.low, "data-high": gain.high }, `${times(gain.low)} to ${times(gain.high)}`)])
           : cell("speedup", null, groups.some((each) => each.baseline === k) ? "baseline" : "–", { class: "never" }),
      cell("airtime_s_per_round", group.airtime_s_per_round, `${group.airtime_s_per_round.toPrecision(3)} s${group.feedback_s_per_round ? ` (reports ${(1000 * group.feedback_s_per_round).toPrecision(2)} ms)` : ""}`),
      packed ? cell("upload_bits", group.upload_bits, group.upload_bits === null ? "–" : [bits(group.upload_bits), ...added(group.omega)]) : "",
      cell("devices_per_round", group.devices_per_round, group.devices_per_round.toFixed(2)),
      limited ? cell("budgets", null, group.budgets.length ? used(group.budgets) : "–") : "",
      cell("best_accuracy", group.best_accuracy, group.best_accuracy.toFixed(4)),
      cell("seeds", group.runs.length, String(group.runs.length)));
    const first = answers.visible.length && line && shown(k) && answers.visible.every((other) => clock(other, state.c) >= time);
    row.className = [first ? "first" : "", shown(k) ? "" : "hidden"].join(" ").trim();
    return row;
  });
  refill(document.querySelector("#configurations tbody"), rows.filter((row) => row !== null));
}
function ranges(answers) {
  const rows = answers.best.map((part) => {
    const line = answers.lines[part.index], forever = part.end === Infinity;
    const row = make("tr", { "data-label": groups[part.index].label },
      cell("begin_s", part.begin, part.begin === 0 ? "0" : breakpoint(part.begin)),
      forever ? cell("end_s", null, "∞") : cell("end_s", part.end, breakpoint(part.end)),
      make("td", {}, swatch(colour(part.index), dash(part.index)), make("span", {}, spaced(nameOf(part.index)))),
      make("td", { title: `${line.airtime} + ${line.rounds} c` }, `${seconds(line.airtime)} + ${fixed(line.rounds, 0)}\u202fc`));
    if (state.c >= part.begin && state.c < part.end) row.className = "now";
    return row;
  });
  if (!rows.length) rows.push(make("tr", {}, make("td", { class: "never", colspan: 4 }, "no configuration shown reaches the target")));
  refill(document.querySelector("#ranges tbody"), rows);
}

/** Put rows into a table; a button that had the focus keeps it. */
function refill(body, rows) {
  const focus = body.contains(document.activeElement) ? document.activeElement.dataset.index : undefined;
  body.replaceChildren(...rows);
  if (focus !== undefined) body.querySelector(`[data-index="${Number(focus)}"]`)?.focus();
}

/** What depends on the environment alone: the legend, and whose power can be looked at. */
function enterEnvironment() {
  const present = groups.map((_, k) => k).filter(here);
  byId("legend").replaceChildren(...present.map((k) => make("button", { type: "button", "data-index": k }, swatch(colour(k), dash(k)), spaced(nameOf(k)))));
  byId("power-of").replaceChildren(...present.map((k) => make("option", { value: k }, nameOf(k))));
  // Where selection is not uniform there is something to see.
  if (state.power === null || !here(state.power)) state.power = present.find((k) => groups[k].baseline !== null) ?? present[0];
  byId("power-of").value = state.power;
  byId("environment").value = state.environment === null ? "all" : environments.indexOf(state.environment);
}

function staticParts() {
  if (groups.length > 1) for (const kind of [null, ...(kinds.length > 1 ? kinds : [])]) {
    const button = make("button", { type: "button" }, kind === null ? "show all" : `only ${kind}`);
    button.addEventListener("click", () => { state.hidden = new Set(groups.flatMap((group, k) => kind === null || group.kind === kind ? [] : [k])); update(); });
    byId("quick").append(button);
  }
  const picker = byId("power-of");
  picker.addEventListener("change", () => { state.power = Number(picker.value); drawPower(); });
  const places = byId("environment");
  environments.forEach((name, place) => places.append(make("option", { value: place }, `${spaced(name)} (${groups.filter((group) => group.environment === name).length})`)));
  places.append(make("option", { value: "all" }, `all together (${groups.length})`));
  places.addEventListener("change", () => { state.environment = environments[places.value] ?? null; enterEnvironment(); update(); });
  places.closest(".control").hidden = environments.length < 2;

  if (data.left_out.length) {
    const n = data.left_out.length;
    byId("left-out").hidden = false;
    document.querySelector("#left-out summary").textContent = n === 1 ? "One folder was left out" : `${n} folders were left out`;
    document.querySelector("#left-out ul").append(...data.left_out.map((each) => make("li", {}, make("b", {}, each.name), `: ${each.reason}`)));
  }
  const list = (fields) => make("dl", {}, ...Object.entries(fields).map(([name, value]) => make("div", {}, make("dt", {}, name), make("dd", {}, value))));
  const scenarios = byId("scenarios");
  scenarios.append(make("h3", {}, groups.length > 1 ? "Common to all configurations" : groups[0].label), list(Object.fromEntries(data.common.map((name) => [name, groups[0].fields[name]]))));
  for (const group of groups) {
    const own = Object.fromEntries(Object.entries(group.fields).filter(([name]) => !data.common.includes(name)));
    const runs = group.runs.map((run) => `${run.name} (seed ${run.seed}, ${fixed(run.rounds, 0)} rounds${run.finished ? "" : ", unfinished"})`);
    const unfinished = group.runs.some((run) => !run.finished) ? " · unfinished" : "";
    scenarios.append(make("details", {}, make("summary", {}, `${spaced(group.label)} · ${group.runs.length} ${group.runs.length === 1 ? "seed" : "seeds"}${unfinished}`),
      list(own), make("p", { class: "small" }, runs.join("; ")), make("p", { class: "small" }, group.versions.join(" | "))));
  }
  const versions = [...new Set(groups.flatMap((group) => group.versions))];
  scenarios.append(make("h3", {}, versions.length > 1 ? "Package versions (they differ between runs)" : "Package versions"), ...versions.map((each) => make("p", { class: "small" }, each)));
  byId("method").textContent = `A target is reached ${data.protocol.in_words}. Simulated time is airtime plus computation time for every round, so one run answers for every computation time and the fastest configuration is the lower envelope of straight lines. Numbers come from every measurement; curves are thinned for drawing only.`;
}

/* ---- controls ---- */

const [toKnee, fromKnee] = WARP.knee;
const sliderOf = (c) => Math.round(1000 * Math.min(1, toKnee(c) / toKnee(COMPUTATION_TOP)));
const ofSlider = (place) => place >= 1000 ? COMPUTATION_TOP : Number(fromKnee(place / 1000 * toKnee(COMPUTATION_TOP)).toPrecision(place < 300 ? 2 : 3));

function setUpControls() {
  const values = groups.flatMap((group) => group.runs.map((run) => run.accuracy.each[2]));
  const [low, high] = extent(values);
  const target = byId("target");
  target.min = Math.max(0, Math.min(Math.floor(low * 100) / 100, data.target));
  target.max = Math.min(1, Math.max(Math.ceil(high * 100) / 100, data.target));
  target.addEventListener("input", () => { state.target = Number(target.value); update("target"); });
  byId("target-value").addEventListener("input", (event) => {
    const value = event.target.valueAsNumber;
    if (value >= 0 && value <= 1) { state.target = value; update("target-value"); }
  });
  byId("computation").addEventListener("input", (event) => { state.c = ofSlider(Number(event.target.value)); update("computation"); });
  byId("computation-value").addEventListener("input", (event) => {
    const value = event.target.valueAsNumber;
    if (value >= 0 && Number.isFinite(value)) { state.c = value; update("computation-value"); }
  });
  byId("log-time").addEventListener("change", (event) => { state.log = event.target.checked; update(); });
  byId("loss-of").addEventListener("change", (event) => { state.loss = event.target.value; update(); });
  byId("relative").addEventListener("change", (event) => { state.relative = event.target.checked; update(); });
  document.addEventListener("click", (event) => {
    const button = event.target.closest?.("button[data-index]");
    if (!button) return;
    const k = Number(button.dataset.index);
    if (!state.hidden.delete(k)) state.hidden.add(k);
    update();
  });
  window.addEventListener("hashchange", () => { readHash(); enterEnvironment(); render(); });
  let width = window.innerWidth;
  new ResizeObserver(() => { if (window.innerWidth !== width) { width = window.innerWidth; request(); } }).observe(document.body);
}

/** A link such as report.html#c=2&target=0.9&environment=1&hide=1,3 opens the page as it was left. */
function readHash() {
  const given = new URLSearchParams(location.hash.slice(1));
  const number = (name) => given.get(name) ? Number(given.get(name)) : NaN;
  if (number("c") >= 0 && Number.isFinite(number("c"))) state.c = number("c");
  if (number("target") >= 0 && number("target") <= 1) state.target = number("target");
  if (given.get("environment") === "all") state.environment = null;
  else if (environments[number("environment")] !== undefined) state.environment = environments[number("environment")];
  if (given.has("hide")) state.hidden = new Set(given.get("hide").split(",").filter(Boolean).map(Number).filter((k) => Number.isInteger(k) && k >= 0 && k < groups.length));
}
function writeHash() {
  const hidden = [...state.hidden].sort((a, b) => a - b).join(",");
  const place = environments.length > 1 ? `&environment=${byId("environment").value}` : "";
  const text = `#c=${state.c}&target=${state.target}${place}${hidden ? `&hide=${hidden}` : ""}`;
  try { history.replaceState(null, "", text); } catch { /* a page in a sandbox has no history */ }
}

let waiting = null, typing = null, linkTimer = null;
function request() { if (waiting === null) waiting = requestAnimationFrame(() => { waiting = null; render(); }); }
/** Redraw before the next frame; the field that is being typed in is left as it is. */
function update(source = null) {
  typing = source;
  // Browsers refuse a page that changes its address too often.
  clearTimeout(linkTimer);
  linkTimer = setTimeout(writeHash, 250);
  request();
}

function render() {
  const answers = computeAll();
  byId("target").value = state.target;
  byId("computation").value = sliderOf(state.c);
  if (typing !== "target-value") byId("target-value").value = state.target;
  if (typing !== "computation-value") byId("computation-value").value = state.c;
  byId("computation").setAttribute("aria-valuetext", `${compact(state.c)} seconds`);
  byId("target").setAttribute("aria-valuetext", compact(state.target));
  for (const button of document.querySelectorAll("#legend button")) button.setAttribute("aria-pressed", String(shown(Number(button.dataset.index))));
  headline(answers);
  configurations(answers);
  ranges(answers);
  drawCurves("accuracy", "accuracy", "test accuracy", answers);
  drawCurves("loss", state.loss, state.loss === "loss" ? "test loss" : "training loss", answers);
  drawTimes(answers);
  drawPower();
  drawSelection();
  drawSizes();
}

staticParts();
setUpControls();
readHash();
enterEnvironment();
render();
document.documentElement.dataset.drawnMs = (performance.now() - began).toFixed(1);
})();
