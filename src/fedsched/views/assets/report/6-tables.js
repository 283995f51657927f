/* Words and tables. */

const strong = (text) => make("strong", {}, text);
const timeOf = (line) => clock(line, state.c);
const isUniform = (k) => groups[k].kind === "uniform";
const isBase = (k) => groups[k].is_base; // devices are drawn uniformly, and send all their bits
const hasDraws = (k) => groups[k].fields["policy.draws"] !== undefined;
const howMany = (ratio) => times(Math.max(ratio, 1 / ratio)) === "1.00" ? "equally soon" : ratio >= 1 ? `${times(ratio)} times sooner` : `${times(1 / ratio)} times later`;

/** The interval of a ratio in words, or of how many times later; over more than a hundredfold it says nothing. */
function interval({ low, high }, later = false) {
  if (low === null) return "one seed, no interval";
  const [from, to] = later ? [1 / high, 1 / low] : [low, high];
  return make("small", { "data-low": low, "data-high": high, title: `${from} to ${to}` }, high / low > 100 ? "too wide an interval" : `95${THIN}%: ${times(from)} to ${times(to)}`);
}

/** What the page cannot show as it was asked: a target that nothing reaches, a policy that has no run for such a time. */
function remarks() {
  const said = madeForOthers(visible(), state.c).map(({ name, nearest }) => `${name} plans with the computation time; there is no run of it made for about ${compact(state.c)} s, the nearest was made for ${compact(nearest)} s.`);
  const opened = data.environments.find((each) => each.name === state.environment)?.target ?? data.target, asked = data.asked_target;
  if (asked !== null && opened !== asked && state.target === opened) said.push(`No configuration reaches ${compact(asked)}, the target asked for, with all its seeds; this is ${compact(opened)}.`);
  return said;
}

/** Best against best: the fastest of all, and the fastest of the others: uniform, or what is not. */
function headline(answers) {
  const target = compact(state.target), [first] = answers.firsts, parts = [], notes = [];
  if (!visible().length) parts.push("Every configuration is hidden.");
  else if (!visible().some((k) => suits(k, state.c))) parts.push(unsuited());
  else if (!first) parts.push(answers.arrived.length ? "No configuration with the most seeds of its policy reaches " : "No configuration reaches ", strong(target), " with all its seeds.");
  else {
    const rivals = answers.firsts.filter((line) => isBase(line.index) !== isBase(first.index)), rival = rivals[0] ?? answers.arrived[answers.arrived.length - 1];
    parts.push(`${spaced(nameOf(first.index))} reaches ${target} in `, strong(`${seconds(timeOf(first))} s`));
    if (rival === first) parts.push(visible().length > 1 ? ", and nothing else reaches it." : ".");
    else {
      const gain = sooner(rival.index, first.index, answers.reached, state.c), ratio = gain?.ratio ?? timeOf(rival) / timeOf(first);
      const who = !rivals.length ? "the slowest to arrive" : isBase(rival.index) ? "the best uniform" : isUniform(rival.index) ? "the next policy" : "the best that is not uniform";
      parts.push(`, ${who}, ${spaced(nameOf(rival.index))}, in `, strong(`${seconds(timeOf(rival))} s`), ": ", strong(howMany(ratio)), ".");
      if (gain?.low && gain.high / gain.low <= 100) notes.push(`95 % interval of the ratio: ${times(gain.low)} to ${times(gain.high)}, from ${gain.seeds} paired seeds.`);
      else if (gain) notes.push(gain.seeds > 1 ? `${gain.seeds} paired seeds, too few for a useful interval.` : "One seed in common, so no interval.");
    }
    notes.unshift(`With ${compact(state.c)} s of computation a round.`);
  }
  byId("headline").replaceChildren(...parts);
  byId("subline").textContent = notes.join(" ");
  const said = remarks();
  byId("remarks").textContent = said.join(" ");
  byId("remarks").hidden = !said.length;
  byId("asked").textContent = `Target accuracy ${target}, computation ${compact(state.c)} s a round${state.environment ? `, ${spaced(state.environment)}` : ""}.`;
}

/** Each policy against each uniform: with as many draws where it has draws, itself where it has none. */
function rivals(answers) {
  const bases = state.environment === null ? [] : visible().filter(isUniform), others = visible().filter((k) => !isUniform(k));
  const ordered = [...answers.arrived.map((line) => line.index).filter((k) => !isUniform(k)), ...others];
  const policies = [...new Set([...ordered.filter((k) => groups[k].kind === "auto"), ...ordered].map((k) => groups[k].policy))];
  byId("rivals-card").hidden = !bases.length || !policies.length;
  const fastest = (among) => quickest(answers.lines, among, state.c);
  const best = fastest(bases.filter(isBase));
  const heads = [make("th", { scope: "col" }, "Policy"), make("th", { scope: "col" }, "best against best"), ...bases.map((base) => {
    const line = answers.lines[base];
    return make("th", { scope: "col" }, spaced(`against ${nameOf(base)}`), make("small", {}, line ? `${seconds(timeOf(line))} s` : "not reached"));
  })];
  document.querySelector("#rivals thead tr").replaceChildren(...heads);
  const faced = (own, base) => {
    const line = fastest(own);
    if (!line) return make("td", { class: "never" }, own.some((k) => suits(k, state.c)) ? "not reached" : `none made for about ${compact(state.c)}${THIN}s`);
    const drawn = [swatch(look(line.index)), ` ${spaced(nameOf(line.index))}, ${seconds(timeOf(line))}${THIN}s`];
    if (base === undefined || !answers.lines[base]) return make("td", {}, "–", make("span", { class: "who" }, ...drawn));
    const gain = sooner(base, line.index, answers.reached, state.c);
    const ratio = gain?.ratio ?? timeOf(answers.lines[base]) / timeOf(line);
    return make("td", { "data-value": ratio, "data-row": line.index, "data-base": base, title: String(ratio) }, make("b", {}, howMany(ratio)),
      make("span", { class: "who" }, gain ? interval(gain, ratio < 1) : "no seed in common"), make("span", { class: "who" }, ...drawn));
  };
  const rows = policies.slice(0, 8).map((policy) => {
    const own = others.filter((k) => groups[k].policy === policy);
    return make("tr", { "data-policy": policy }, make("th", { scope: "row" }, spaced(policy)), faced(own, best?.index),
      ...bases.map((base) => {
        const alike = own.filter((k) => !hasDraws(k) || groups[k].baseline === base);
        return alike.length ? faced(alike, base) : make("td", { class: "never" }, "–");
      }));
  });
  document.querySelector("#rivals tbody").replaceChildren(...rows);
  byId("rivals-note").textContent = `How many times sooner, a mean over paired seeds. A policy with draws m is compared with uniform selection of as many draws, by its fastest setting; one without is compared with all. Of each, those with the most seeds take part.${policies.length > 8 ? ` ${policies.length - 8} more policies are in the table of configurations.` : ""}`;
}

function cell(key, value, text, extra = {}) {
  return make("td", { "data-key": key, ...(value === null ? {} : { "data-value": String(value), title: String(value) }), ...extra }, ...[].concat(text));
}
const never = (key, text = "–") => cell(key, null, text, { class: "never" });

/** Columns of the table of configurations: what heads them, whether they are there, and a cell. */
const COLUMNS = [
  { key: "seconds_to_target", head: "Seconds to target", cell: ({ line, k }, answers) => {
    if (line) return cell("seconds_to_target", timeOf(line), seconds(timeOf(line)));
    const arrived = answers.reached[k].filter((each) => each !== null).length;
    return never("seconds_to_target", arrived ? `${arrived} of ${groups[k].runs.length} seeds` : "not reached");
  } },
  { key: "speedup", head: "Times sooner than its uniform", cell: ({ gain, k }) => gain
    ? cell("speedup", gain.ratio, [times(gain.ratio), " ", gain.low === null ? "" : interval(gain)])
    : never("speedup", groups.some((each) => each.baseline === k) ? "baseline" : "–") },
  { key: "rounds_to_target", head: "Rounds to target", cell: ({ line }) => line ? cell("rounds_to_target", line.rounds, fixed(line.rounds, 0)) : never("rounds_to_target") },
  { key: "wall_s_to_target", head: "On the wall, to target", there: (group) => group.wall_s_per_round !== null,
    cell: ({ line }) => line && line.wall !== null ? cell("wall_s_to_target", line.wall, `${seconds(line.wall)} s`) : never("wall_s_to_target") },
  { key: "wall_s_per_round", head: "On the wall, a round", there: (group) => group.wall_s_per_round !== null, cell: ({ group }) => group.wall_s_per_round === null ? never("wall_s_per_round")
    : cell("wall_s_per_round", group.wall_s_per_round, [`${seconds(group.wall_s_per_round)} s`, group.exchange_s_per_round === null ? "" : make("small", {}, ` ${seconds(group.exchange_s_per_round)} s exchange`)]) },
  { key: "airtime_s_per_round", head: "Airtime a round", cell: ({ group }) => cell("airtime_s_per_round", group.airtime_s_per_round,
    [`${group.airtime_s_per_round.toPrecision(3)}${THIN}s`, group.feedback_s_per_round ? make("small", {}, ` ${(1000 * group.feedback_s_per_round).toPrecision(2)} ms reports`) : ""]) },
  { key: "upload_bits", head: "An upload", title: "ω is what compression adds to the second moment of an update", there: (group) => group.omega !== null,
    cell: ({ group }) => cell("upload_bits", group.upload_bits, group.upload_bits === null ? "–" : [bits(group.upload_bits), group.omega === null ? "" : make("small", { "data-omega": group.omega }, ` ω\u202f${group.omega.toPrecision(2)}`)]) },
  { key: "devices_per_round", head: "Devices a round", cell: ({ group }) => cell("devices_per_round", group.devices_per_round, group.devices_per_round.toFixed(2)) },
  { key: "best_accuracy", head: "Best accuracy", cell: ({ group }) => cell("best_accuracy", group.best_accuracy, group.best_accuracy.toFixed(4)) },
  { key: "seeds", head: "Seeds", cell: ({ group }) => cell("seeds", group.runs.length, String(group.runs.length)) },
].filter((column) => !column.there || groups.some(column.there));

/** Rows by a column, or as they come; whatever has no value is last, either way. */
function sorted(rows) {
  const { key, down } = state.sort ?? {};
  if (!key) return rows;
  const of = (row) => key === "name" ? row.dataset.label : Number(row.querySelector(`[data-key="${key}"]`)?.dataset.value ?? NaN);
  const missing = (value) => Number.isNaN(value);
  return [...rows].sort((a, b) => {
    const [x, y] = [of(a), of(b)];
    if (missing(x) || missing(y)) return missing(x) - missing(y);
    return (x < y ? -1 : x > y ? 1 : 0) * (down ? -1 : 1);
  });
}
function heads() {
  const headOf = (key, text, title) => {
    const button = make("button", { type: "button", class: "sort", ...(title ? { title } : {}) }, text);
    button.addEventListener("click", () => { state.sort = state.sort?.key !== key ? { key, down: false } : state.sort.down ? null : { key, down: true }; update(); });
    return make("th", { scope: "col", "data-sort": key }, button);
  };
  document.querySelector("#configurations thead tr").replaceChildren(headOf("name", "Configuration"), ...COLUMNS.map(({ key, head, title }) => headOf(key, head, title)));
}
function configurations(answers) {
  const rows = groups.map((group, k) => {
    if (!here(k)) return null;
    const line = answers.lines[k];
    const name = make("button", { class: "row-name", type: "button", "aria-pressed": String(shown(k)), "data-index": k }, swatch(look(k)), spaced(nameOf(k)));
    const made = suits(k, state.c) ? [] : [make("span", { class: "who" }, `made for ${compact(group.made_for_s)}${THIN}s`)];
    const row = make("tr", { "data-label": group.label }, make("th", { scope: "row", "data-value": nameOf(k) }, name, ...made), ...COLUMNS.map((column) => column.cell({ group, k, line, gain: answers.gains[k] }, answers)));
    row.className = [answers.firsts[0]?.index === k ? "first" : "", shown(k) ? "" : "hidden"].join(" ").trim();
    return row;
  });
  for (const head of document.querySelectorAll("#configurations [data-sort]"))
    head.setAttribute("aria-sort", head.dataset.sort !== state.sort?.key ? "none" : state.sort.down ? "descending" : "ascending");
  refill(document.querySelector("#configurations tbody"), sorted(rows.filter((row) => row !== null)));
}

function ranges(answers) {
  const rows = answers.best.map((part) => {
    const line = answers.lines[part.index], forever = part.end === Infinity;
    const row = make("tr", { "data-label": groups[part.index].label },
      cell("begin_s", part.begin, part.begin === 0 ? "0" : breakpoint(part.begin)),
      forever ? cell("end_s", null, "∞") : cell("end_s", part.end, breakpoint(part.end)),
      make("td", {}, swatch(look(part.index)), make("span", {}, spaced(nameOf(part.index)))),
      make("td", { title: `${line.airtime} + ${line.rounds} c` }, `${seconds(line.airtime)} + ${fixed(line.rounds, 0)}\u202fc`));
    if (within(part, state.c)) row.className = "now";
    return row;
  });
  if (!rows.length) rows.push(make("tr", {}, make("td", { class: "never", colspan: 4 }, "no configuration that takes part reaches the target")));
  refill(document.querySelector("#ranges tbody"), rows);
}

/** Every budget of every configuration shown: its limit, the device that is worst off, and how far that is. */
function budgets() {
  const rows = visible().flatMap((k) => groups[k].budgets.map((budget) => {
    const over = budget.worst_use > 1 + 1e-9, device = budget.worst_device;
    return make("tr", { "data-label": groups[k].label, "data-budget": budget.name },
      make("th", { scope: "row" }, swatch(look(k)), ` ${spaced(nameOf(k))}`), make("td", {}, budget.name),
      cell("limit", budget.limit, `${compact(budget.limit)} ${budget.unit} a ${budget.per}`),
      device === null ? never("worst_device", "not logged") : cell("worst_device", device, `device ${device}`),
      cell("used", budget.worst_use * budget.limit, `${compact(Number((budget.worst_use * budget.limit).toPrecision(4)))} ${budget.unit}`),
      cell("worst_use", budget.worst_use, over ? `${percent(budget.worst_use)}, ${percent(budget.worst_use - 1)} above` : percent(budget.worst_use), { class: over ? "over" : "" }));
  }));
  byId("budgets-card").hidden = !groups.some((group) => group.budgets.length);
  document.querySelector("#budgets tbody").replaceChildren(...rows);
}

/** Put rows into a table; a button that had the focus keeps it. */
function refill(body, rows) {
  const focus = body.contains(document.activeElement) ? document.activeElement.dataset.index : undefined;
  body.replaceChildren(...rows);
  if (focus !== undefined) body.querySelector(`[data-index="${Number(focus)}"]`)?.focus();
}

function scenarios() {
  const list = (fields) => make("dl", {}, ...Object.entries(fields).map(([name, value]) => make("div", {}, make("dt", {}, name), make("dd", {}, value))));
  const box = byId("scenarios");
  box.append(make("h3", {}, groups.length > 1 ? "Common to all configurations" : groups[0].label), list(Object.fromEntries(data.common.map((name) => [name, groups[0].fields[name]]))));
  for (const group of groups) {
    const own = Object.fromEntries(Object.entries(group.fields).filter(([name]) => !data.common.includes(name)));
    const runs = group.runs.map((run) => `${run.name} (seed ${run.seed}, ${fixed(run.rounds, 0)} rounds, ${run.ended})`);
    const ends = [...new Set(group.runs.map((run) => run.ended))].filter((end) => end !== "finished");
    box.append(make("details", {}, make("summary", {}, [spaced(group.label), `${group.runs.length} ${group.runs.length === 1 ? "seed" : "seeds"}`, ...ends].join(" · ")),
      list(own), make("p", { class: "small" }, runs.join("; ")), make("p", { class: "small" }, group.versions.join(" | "))));
  }
  const versions = [...new Set(groups.flatMap((group) => group.versions))];
  box.append(make("h3", {}, versions.length > 1 ? "Package versions (they differ between runs)" : "Package versions"), ...versions.map((each) => make("p", { class: "small" }, each)));
  byId("method").textContent = `A target is reached ${data.protocol.in_words}. Simulated time is airtime plus computation time for every round. So one run answers for every computation time, but not of a policy that plans with it, such as auto: each of its runs was made for one time, and takes part from half of that to twice that. The fastest configuration is the lower envelope of straight lines. ${data.scenario_times_s.length > 1 ? `The scenarios have ${data.scenario_times_s.map(compact).join(", ")} s of computation a round, and the page opens with what most have. ` : ""}Curves are thinned for drawing only.`;
  if (!data.left_out.length) return;
  const n = data.left_out.length;
  byId("left-out").hidden = false;
  document.querySelector("#left-out summary").textContent = n === 1 ? "One folder was left out" : `${n} folders were left out`;
  document.querySelector("#left-out ul").append(...data.left_out.map((each) => make("li", {}, make("b", {}, each.name), `: ${each.reason}`)));
}
