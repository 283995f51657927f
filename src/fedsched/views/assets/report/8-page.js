/* Controls, links and drawing it all. */

const [toKnee, fromKnee] = WARP.knee;
const sliderOf = (c) => Math.round(1000 * Math.min(1, toKnee(c) / toKnee(COMPUTATION_TOP)));
const ofSlider = (place) => place >= 1000 ? COMPUTATION_TOP : Number(fromKnee(place / 1000 * toKnee(COMPUTATION_TOP)).toPrecision(place < 300 ? 2 : 3));

/** What depends on the environment alone: the legend, the range of targets, whose power can be looked at. */
function enterEnvironment() {
  const present = groups.map((_, k) => k).filter(here);
  byId("legend").replaceChildren(...present.map((k) => make("button", { type: "button", "data-index": k }, swatch(look(k)), spaced(nameOf(k)))));
  byId("power-of").replaceChildren(...present.map((k) => make("option", { value: k }, nameOf(k))));
  // Where selection is not uniform there is something to see.
  if (state.power === null || !here(state.power)) state.power = present.find((k) => !isUniform(k) && suits(k, state.c)) ?? present.find((k) => !isUniform(k)) ?? present[0];
  byId("power-of").value = state.power;
  byId("environment").value = state.environment === null ? "all" : environments.indexOf(state.environment);
  const [low, high] = extent(present.flatMap((k) => groups[k].runs.map((run) => run.accuracy.each[2])));
  byId("target").min = Math.max(0, Math.min(Math.floor(low * 100) / 100, state.target));
  byId("target").max = Math.min(1, Math.max(Math.ceil(high * 100) / 100, state.target));
  for (const chart of charts.values()) chart.zoom = null;
}

function setUp() {
  const kinds = [...new Set(groups.map((group) => group.kind))];
  if (groups.length > 1) for (const kind of [null, ...(kinds.length > 1 ? kinds : [])]) {
    const button = make("button", { type: "button" }, kind === null ? "show all" : `only ${kind}`);
    button.addEventListener("click", () => { state.hidden = new Set(groups.flatMap((group, k) => kind === null || group.kind === kind ? [] : [k])); update(); });
    byId("quick").append(button);
  }
  const places = byId("environment");
  environments.forEach((name, place) => places.append(make("option", { value: place }, `${spaced(name)} (${groups.filter((group) => group.environment === name).length})`)));
  places.append(make("option", { value: "all" }, `all together (${groups.length})`));
  places.addEventListener("change", () => { state.environment = environments[places.value] ?? null; enterEnvironment(); update(); });
  places.closest(".control").hidden = environments.length < 2;
  byId("power-of").addEventListener("change", (event) => { state.power = Number(event.target.value); charts.get("power").zoom = null; drawPower(); });
  byId("target").addEventListener("input", (event) => { state.target = Number(event.target.value); update("target"); });
  byId("target-value").addEventListener("input", (event) => {
    const value = event.target.valueAsNumber;
    if (value >= 0 && value <= 1) { state.target = value; update("target-value"); }
  });
  byId("computation").addEventListener("input", (event) => { state.c = ofSlider(Number(event.target.value)); update("computation"); });
  byId("computation-value").addEventListener("input", (event) => {
    const value = event.target.valueAsNumber;
    if (value >= 0 && Number.isFinite(value)) { state.c = value; update("computation-value"); }
  });
  const redraw = (id, set, ...ids) => byId(id).addEventListener("change", (event) => {
    set(event.target);
    for (const each of ids) charts.get(each).zoom = null;
    update();
  });
  redraw("log-time", (field) => { state.log = field.checked; }, "accuracy", "loss");
  redraw("loss-of", (field) => { state.loss = field.value; }, "loss");
  redraw("relative", (field) => { state.relative = field.checked; }, "times");
  document.addEventListener("click", (event) => {
    const button = event.target.closest?.("button[data-index]");
    if (!button) return;
    const k = Number(button.dataset.index);
    if (!state.hidden.delete(k)) state.hidden.add(k);
    update();
  });
  // Whoever points at a name sees its lines alone.
  const alone = (event) => {
    const k = event.target.closest?.("button[data-index]")?.dataset.index;
    for (const line of document.querySelectorAll(".chart [data-k]")) line.classList.toggle("dim", k !== undefined && line.dataset.k !== k);
  };
  for (const name of ["pointerover", "focusin"]) document.addEventListener(name, alone);
  window.addEventListener("hashchange", () => { readHash(); enterEnvironment(); render(); });
  let width = window.innerWidth;
  new ResizeObserver(() => { if (window.innerWidth !== width) { width = window.innerWidth; request(); } }).observe(document.body);
}

/** A link such as report.html#c=2&target=0.9&environment=1&hide=1,3&sort=seeds opens the page as it was left. */
function readHash() {
  const given = new URLSearchParams(location.hash.slice(1));
  const number = (name) => given.get(name) ? Number(given.get(name)) : NaN;
  if (given.get("environment") === "all") state.environment = null;
  else if (environments[number("environment")] !== undefined) state.environment = environments[number("environment")];
  if (number("c") >= 0 && Number.isFinite(number("c"))) state.c = number("c");
  if (number("target") >= 0 && number("target") <= 1) state.target = number("target");
  if (given.has("hide")) state.hidden = new Set(given.get("hide").split(",").filter(Boolean).map(Number).filter((k) => Number.isInteger(k) && k >= 0 && k < groups.length));
  const key = given.get("sort")?.replace(/^-/, "");
  if (key === "name" || COLUMNS.some((column) => column.key === key)) state.sort = { key, down: given.get("sort").startsWith("-") };
}
function writeHash() {
  const hidden = [...state.hidden].sort((a, b) => a - b).join(",");
  const place = environments.length > 1 ? `&environment=${byId("environment").value}` : "";
  const sort = state.sort ? `&sort=${state.sort.down ? "-" : ""}${state.sort.key}` : "";
  const text = `#c=${state.c}&target=${state.target}${place}${hidden ? `&hide=${hidden}` : ""}${sort}`;
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
  const elsewhere = visible().filter((k) => !suits(k, state.c));
  for (const button of document.querySelectorAll("#legend button")) button.classList.toggle("elsewhere", elsewhere.includes(Number(button.dataset.index)));
  for (const id of ["elsewhere", "elsewhere-note"]) byId(id).hidden = !elsewhere.length;
  headline(answers);
  rivals(answers);
  configurations(answers);
  ranges(answers);
  budgets();
  drawCurves("accuracy", "accuracy", "test accuracy", answers);
  drawCurves("loss", state.loss, state.loss === "loss" ? "test loss" : "training loss", answers);
  drawTimes(answers);
  drawPower();
  drawSelection();
  drawSizes();
}

const began = performance.now();
heads();
scenarios();
setUp();
saveButtons();
readHash();
enterEnvironment();
render();
document.documentElement.dataset.drawnMs = (performance.now() - began).toFixed(1);
