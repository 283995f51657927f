/* The pictures. */

const NOTHING = "Every configuration is hidden. Choose some in the legend.";
const unsuited = () => `Nothing shown was made for about ${compact(state.c)} s of computation.`;

/** Curves of the seeds of a group at computation time c, and their mean where every seed speaks. */
function curvesOf(group, which, c) {
  const known = group.runs.map((run) => run[which]).filter(({ each }) => each[0].length);
  if (!known.length) return null;
  const timed = ([rounds, airtime, value]) => [airtime.map((a, k) => a + c * rounds[k]), value];
  const seeds = known.length > 1 || known.some((run) => run.mean) ? known.map((run) => timed(run.each)) : [];
  const sources = known.map((run) => timed(run.mean ?? run.each));
  if (sources.length === 1) return { xs: sources[0][0], ys: sources[0][1], seeds };
  const begin = Math.max(...sources.map(([xs]) => xs[0])), end = Math.min(...sources.map(([xs]) => xs[xs.length - 1]));
  if (!(end > begin)) return { xs: [], ys: [], seeds };
  const points = 400, bend = state.log && begin > 0 ? Math.log(end / begin) : 0, xs = [];
  for (let k = 0; k < points; k++) {
    const share = k / (points - 1);
    xs.push(k === points - 1 ? end : bend ? begin * Math.exp(bend * share) : begin + (end - begin) * share);
  }
  return { xs, ys: xs.map((x) => mean(sources.map(([px, py]) => interpolate(px, py, x)))), seeds };
}

function drawCurves(id, which, name, answers) {
  const series = [];
  const drawn = visible().filter((k) => suits(k, state.c));
  for (const k of drawn) {
    const curves = curvesOf(groups[k], which, state.c);
    if (curves) series.push({ ...look(k), ...curves });
  }
  const all = (place) => series.flatMap((each) => [[each.xs, each.ys][place], ...each.seeds.map((seed) => seed[place])]);
  const along = extent(all(0), state.log ? positive : Number.isFinite), up = extent(all(1));
  const about = `${name} over time, ${series.length} configurations, computation ${compact(state.c)} s a round`;
  if (!along || !up) return drawChart(id, { about, empty: drawn.length ? `No ${name} was measured.` : visible().length ? unsuited() : NOTHING, series: [] });
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
    dots: targeted ? answers.arrived.map((line) => ({ x: clock(line, state.c), y: state.target, colour: look(line.index).colour })) : [],
    tipX: (x) => `${seconds(x)} s`, tipY: (y) => y.toFixed(4),
  });
}

function drawTimes(answers) {
  const about = `seconds to accuracy ${compact(state.target)} against computation time a round`;
  const top = Math.max(COMPUTATION_TOP, state.c * 1.05), lines = answers.present;
  if (!lines.length) return drawChart("times", { about, series: [], empty: visible().length ? `No configuration shown reaches ${compact(state.target)}.` : NOTHING });
  const [go, back] = WARP.knee, among = visible(), changes = answers.best.slice(1).map((part) => part.begin);
  const edges = lines.flatMap((line) => groups[line.index].suits_s ?? []);
  const grid = [...new Set([...changes, ...edges])].filter((c) => c < top).concat(top);
  for (let k = 0; k < 120; k++) grid.push(back(go(top) * k / 120));
  grid.sort((a, b) => a - b);
  const first = new Map(grid.map((c) => [c, clock(quickest(answers.lines, among, c) ?? { airtime: NaN, rounds: NaN }, c)]));
  const height = (line, c) => state.relative ? clock(line, c) / first.get(c) : clock(line, c);
  const series = lines.map((line) => {
    const xs = grid.filter((c) => suits(line.index, c));
    return { ...look(line.index), xs, ys: xs.map((c) => height(line, c)), width: 1.8 };
  }).filter(({ xs }) => xs.length);
  const winner = (part) => lines.find((line) => line.index === part.index);
  const broad = answers.best.filter((part) => part.begin < top).map((part) => {
    const xs = grid.filter((c) => c >= part.begin && c <= part.end);
    return { colour: look(part.index).colour, xs, ys: xs.map((c) => height(winner(part), c)) };
  });
  const dots = answers.best.slice(1).filter((part) => part.begin <= top)
    .map((part) => ({ x: part.begin, y: height(winner(part), part.begin), colour: "var(--ink)", ring: true }));
  // Of what was made for no computation at all there is one point.
  for (const each of series) if (each.xs.length === 1) dots.push({ x: each.xs[0], y: each.ys[0], colour: each.colour });
  const up = extent(series.map((each) => each.ys), positive) ?? [1, 10];
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
  const mix = (k) => names.length < 2 ? "var(--s0)" : `color-mix(in srgb, var(--s1) ${Math.round(100 * (1 - k / (names.length - 1)))}%, var(--s0))`;
  const series = names.map((name, k) => ({ name, colour: mix(k), xs: rounds, ys: averages[k], width: 1.6 }));
  const up = extent(averages, positive), budget = group.budget_w;
  const about = `running average of transmit power of ${names.length} device groups over rounds, ${group.label}`;
  const ramp = make("span", { class: "ramp" });
  byId("power-ramp").replaceChildren(`${spaced(nameOf(state.power))}: `, ...(names.length > 1 ? [names[0], ramp, names[names.length - 1]] : names), names.length ? ". Power times probability, averaged from the first round on." : "");
  if (!up) return drawChart("power", { about, series: [], empty: names.length ? "No power was spent." : "Nobody knows the powers: the link is described by its rates alone." });
  drawChart("power", {
    about, series, keepOrder: true, of: nameOf(state.power),
    x: { kind: "log", domain: [1, Math.max(2, rounds[rounds.length - 1])], name: "round" },
    y: { kind: "log", domain: [Math.min(up[0], budget || up[0]) * 0.7, Math.max(up[1], budget || up[1]) * 1.4], name: "average power so far (W)" },
    rules: budget ? [{ y: budget, name: `budget ${compact(budget)} W` }] : [],
    tipX: (x) => `after ${fixed(Math.max(1, x), 0)} rounds`, tipY: (value) => `${compact(value)} W`,
  });
}

function drawSelection() {
  const series = visible().map((k) => {
    const { device: xs, share: ys } = groups[k].selection, [low, high] = extent([ys]);
    return { ...look(k), xs, ys, note: low === high ? percent(low) : `${percent(low)} to ${percent(high)}` };
  });
  const along = extent(series.map((each) => each.xs)), bin = Math.max(1, ...series.map(({ xs }) => xs.length > 1 ? xs[1] - xs[0] : 1));
  const about = "share of rounds each device takes part in";
  if (!along) return drawRows("selection", { about, series: [], empty: NOTHING });
  drawRows("selection", { about, series, whole: true, keepOrder: true, x: { domain: [along[0] - bin / 2, along[1] + bin / 2], name: "device" },
    y: { name: "share of rounds" }, tipX: (x) => `device ${x}`, tipY: percent });
}

function drawSizes() {
  const series = visible().map((k) => {
    const ys = groups[k].sizes, xs = ys.map((_, size) => size);
    return { ...look(k), xs, ys, note: `mean ${groups[k].devices_per_round.toFixed(2)}` };
  });
  const about = "distribution of the number of devices in a round";
  if (!series.length) return drawRows("sizes", { about, series, empty: NOTHING });
  const top = Math.max(...series.map((each) => each.xs.length));
  const least = Math.min(...series.map((each) => Math.max(0, each.ys.findIndex((share) => share > 0))));
  drawRows("sizes", { about, series, whole: true, keepOrder: true, x: { domain: [least - 0.6, top - 0.4], name: "devices in a round" },
    y: { name: "share of rounds" }, tipX: (x) => `${x} ${x === 1 ? "device" : "devices"}`, tipY: percent });
}
