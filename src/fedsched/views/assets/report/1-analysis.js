/* The same answers as fedsched.analysis.arrival, speedup, envelope and groups. Sliders ask for any target and any
   computation time, so they are given here, from the steps that Python has found and with its quantiles. */

const data = JSON.parse(document.getElementById("data").textContent);
const groups = data.groups;

/** First step at or above a target: {rounds, airtime, wall}, or null. Steps rise, so halve. */
function reach(run, target) {
  const [rounds, airtime, value, wall] = run.steps;
  let low = 0, high = value.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (value[middle] >= target) high = middle; else low = middle + 1;
  }
  return low < value.length ? { rounds: rounds[low], airtime: airtime[low], wall: wall ? wall[low] : null } : null;
}
const mean = (values) => values.reduce((sum, each) => sum + each, 0) / values.length;
const clock = (line, c) => line.airtime + c * line.rounds;

function meanReach(reached) {
  if (reached.some((each) => each === null)) return null;
  const of = (name) => mean(reached.map((each) => each[name]));
  return { rounds: of("rounds"), airtime: of("airtime"), wall: reached.some((each) => each.wall === null) ? null : of("wall") };
}

/** How many times sooner, over the seeds that both have; null if one of these runs has not arrived. */
function sooner(base, ours, reached, c) {
  const logs = [];
  groups[ours].runs.forEach((mine, i) => groups[base].runs.forEach((theirs, j) => {
    if (mine.seed !== theirs.seed) return;
    const [a, b] = [reached[base][j], reached[ours][i]];
    logs.push(a && b ? Math.log(clock(a, c) / clock(b, c)) : NaN);
  }));
  const centre = mean(logs), n = logs.length;
  if (!n || !Number.isFinite(centre)) return null;
  if (n < 2) return { ratio: Math.exp(centre), low: null, high: null, seeds: n };
  const deviation = Math.sqrt(logs.reduce((sum, each) => sum + (each - centre) ** 2, 0) / (n - 1));
  const half = data.quantiles[n - 2] * deviation / Math.sqrt(n);
  return { ratio: Math.exp(centre), low: Math.exp(centre - half), high: Math.exp(centre + half), seeds: n };
}

/** Who is first as a function of c: [{index, begin, end}], by indices of groups. */
function envelope(lines) {
  if (!lines.length) return [];
  const before = (a, b) => { for (let k = 0; k < a.length; k++) if (a[k] !== b[k]) return a[k] < b[k]; return false; };
  let now = lines[0], from = 0;
  for (const line of lines) if (before([line.airtime, line.rounds], [now.airtime, now.rounds])) now = line;
  const segments = [];
  for (;;) {
    let next = null, key = null;
    for (const line of lines) {
      if (line.rounds >= now.rounds) continue;
      const its = [(line.airtime - now.airtime) / (now.rounds - line.rounds), line.rounds, groups[line.index].label];
      if (key === null || before(its, key)) { key = its; next = line; }
    }
    if (next === null) return [...segments, { index: now.index, begin: from, end: Infinity }];
    if (key[0] > from) { segments.push({ index: now.index, begin: from, end: key[0] }); from = key[0]; }
    now = next;
  }
}

/* ---- state ---- */

const COMPUTATION_TOP = 30, COMPUTATION_KNEE = 0.1;
const environments = data.environments.map((each) => each.name);
const state = {
  c: 0, environment: data.environment, hidden: new Set(), log: true, relative: false, loss: "loss", power: null, sort: null,
  targets: new Map([...data.environments.map((each) => [each.name, each.target]), [null, data.target]]),
  /** Each environment has a target of its own: what is easy in one is out of reach in another. */
  get target() { return this.targets.get(this.environment); },
  set target(value) { this.targets.set(this.environment, value); },
};
/** Times are compared within one environment, unless all are asked for (null). */
const here = (k) => state.environment === null || groups[k].environment === state.environment;
const shown = (k) => here(k) && !state.hidden.has(k);
const visible = () => groups.map((_, k) => k).filter(shown);
const nameOf = (k) => state.environment === null ? groups[k].label : groups[k].choice;

function computeAll() {
  const reached = groups.map((group) => group.runs.map((run) => reach(run, state.target)));
  const lines = reached.map((each, index) => { const at = meanReach(each); return at && { ...at, index }; });
  const gains = groups.map((group, k) => group.baseline === null ? null : sooner(group.baseline, k, reached, state.c));
  const arrived = lines.filter((line) => line && shown(line.index)).sort((a, b) => clock(a, state.c) - clock(b, state.c));
  return { reached, lines, gains, arrived, best: envelope(arrived) };
}
