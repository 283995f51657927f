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

/** Whether a configuration was made for about that computation time, or for any. */
const suits = (k, c) => groups[k].suits_s === null || groups[k].suits_s[0] <= c && c <= groups[k].suits_s[1];

/** Only those of one environment are compared. */
const policyOf = (k) => JSON.stringify([groups[k].environment, groups[k].policy]);

/** As in fedsched.analysis.best: of each policy those take part that suit c and of these have the most seeds, if they arrive. */
function entrants(lines, among, c) {
  const policies = new Map();
  for (const k of among.filter((each) => suits(each, c))) policies.set(policyOf(k), [...(policies.get(policyOf(k)) ?? []), k]);
  return [...policies.values()].flatMap((own) => {
    const most = Math.max(...own.map((k) => groups[k].runs.length));
    return own.filter((k) => groups[k].runs.length === most && lines[k]).map((k) => lines[k]);
  });
}
/** By time, and of equals the one with fewer rounds, which is first a little later. */
const byTime = (c) => (a, b) => clock(a, c) - clock(b, c) || a.rounds - b.rounds;
const quickest = (lines, among, c) => entrants(lines, among, c).sort(byTime(c))[0];

/** The policies that have runs, but none that was made for about c: [{name, nearest}]. */
function madeForOthers(among, c) {
  const policies = new Map();
  for (const k of among) policies.set(policyOf(k), [...(policies.get(policyOf(k)) ?? []), k]);
  return [...policies.values()].filter((own) => !own.some((k) => suits(k, c))).map((own) => ({
    name: [state.environment === null ? groups[own[0]].environment : "", groups[own[0]].policy].filter(Boolean).join(": "),
    nearest: own.map((k) => groups[k].made_for_s).sort((a, b) => Math.abs(a - c) - Math.abs(b - c))[0],
  }));
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

/**
 * Who is best against best as a function of c: [{index, begin, end, open, closed}], whether without its begin and with its end.
 * Who takes part changes where the time is reached that a schedule was made for, or left: such places are looked at by themselves.
 */
function bestByTime(lines, among) {
  const edges = [...new Set([0, ...among.flatMap((k) => groups[k].suits_s ?? [])])].sort((a, b) => a - b), found = [];
  const add = (part) => {
    const last = found[found.length - 1];
    if (last?.index === part.index && last.end === part.begin && (last.closed || !part.open)) Object.assign(last, { end: part.end, closed: part.closed });
    else found.push(part);
  };
  edges.forEach((edge, place) => {
    const first = quickest(lines, among, edge), next = edges[place + 1] ?? Infinity;
    if (first) add({ index: first.index, begin: edge, end: edge, open: false, closed: true });
    for (const part of envelope(entrants(lines, among, next === Infinity ? edge + 1 : (edge + next) / 2))) if (part.end > edge && part.begin < next)
      add({ index: part.index, begin: Math.max(part.begin, edge), end: Math.min(part.end, next), open: part.begin <= edge, closed: false });
  });
  return found;
}
const within = (part, c) => (part.open ? c > part.begin : c >= part.begin) && (part.closed ? c <= part.end : c < part.end);

/* ---- state ---- */

const COMPUTATION_TOP = 30, COMPUTATION_KNEE = 0.1;
const environments = data.environments.map((each) => each.name);
const state = {
  c: data.computation_s, environment: data.environment, hidden: new Set(), log: true, relative: false, loss: "loss", power: null, sort: null,
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
  const present = lines.filter((line) => line && shown(line.index)), among = visible();
  const arrived = present.filter((line) => suits(line.index, state.c)).sort(byTime(state.c));
  // Best against best: the first of each policy.
  const policies = new Map();
  for (const line of entrants(lines, among, state.c).sort(byTime(state.c))) if (!policies.has(policyOf(line.index))) policies.set(policyOf(line.index), line);
  return { reached, lines, gains, present, arrived, firsts: [...policies.values()], best: bestByTime(lines, among) };
}
