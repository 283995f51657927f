/* Charts. A plan says what to show, so that pictures, tips and files are made from one thing. */

const charts = new Map();

function chartOf(id, plan) {
  const box = byId(id), chart = charts.get(id) ?? { box, id, zoom: null };
  for (const old of [...box.children]) if (!old.matches(".reset")) old.remove();
  charts.set(id, Object.assign(chart, { plan, tip: null, x: null }));
  if (!chart.wired) wire(chart);
  box.setAttribute("role", "img");
  box.setAttribute("tabindex", "0");
  box.setAttribute("aria-label", plan.about);
  if (plan.empty) box.append(make("div", { class: "empty" }, plan.empty));
  chart.reset.hidden = chart.zoom === null || Boolean(plan.empty);
  return chart;
}
function axisBelow(picture, x, frame, plan, width) {
  picture.append(draw("line", { class: "axis", x1: frame.left, x2: frame.right, y1: frame.bottom, y2: frame.bottom }));
  for (const each of ticksOf(x, Math.floor(width / 64)).filter((tick) => !plan.whole || Number.isInteger(tick))) {
    const at = x.at(each);
    picture.append(draw("line", { class: "axis", x1: at, x2: at, y1: frame.bottom, y2: frame.bottom + 4 }));
    picture.append(draw("text", { x: at, y: frame.bottom + 17, "text-anchor": "middle" }, compact(each)));
  }
  picture.append(draw("text", { class: "name", x: frame.right, y: frame.bottom + 34, "text-anchor": "end" }, plan.x.name));
}
function clipped(id, { left, right, top, bottom }) {
  const mask = draw("clipPath", { id: `clip-${id}` });
  mask.append(draw("rect", { x: left - 1, y: top - 8, width: right - left + 8, height: bottom - top + 9 }));
  return [mask, draw("g", { "clip-path": `url(#clip-${id})` })];
}

/** Where the name of a line across hides the least of the curves: above or below it, on the left or further right. */
function clearest(name, at, { plan, frame, x, y }) {
  const wide = LETTER * name.length, found = [];
  for (const begin of [0, 0.25, 0.5, 0.75, 1].map((share) => frame.left + 5 + share * (frame.right - frame.left - wide - 10))) for (const [low, base] of [[at - 17, at - 6], [at + 4, at + 15]]) {
    if (low < frame.top - 8 || low + 13 > frame.bottom) continue;
    let hidden = 0;
    for (const each of plan.series) for (let px = begin; px <= begin + wide; px += 4) {
      const value = interpolate(each.xs, each.ys, x.back(px)), py = value === null ? NaN : y.at(value);
      if (py > low - 2 && py < low + 15) hidden++;
    }
    found.push({ hidden, place: { x: begin, y: base } });
  }
  return found.length ? found.reduce((best, each) => each.hidden < best.hidden ? each : best).place : { x: frame.left + 5, y: at - 6 };
}

/**
 * plan: { about, of, empty, x: {kind, domain, name}, y: {kind, domain, name}, series: [{k, name, colour, dash, marker, xs, ys, seeds, width}],
 * broad: [{colour, xs, ys}], rules: [{x | y, name}], dots: [{x, y, colour, ring}], tipX(x), tipY(y), whole, keepOrder }
 */
function drawChart(id, plan) {
  const chart = chartOf(id, plan);
  if (plan.empty) return;
  const { box } = chart, width = box.clientWidth, height = box.clientHeight;
  const [xs, ys] = chart.zoom ?? [plan.x.domain, plan.y.domain];
  const yLabels = ticksOf(scaleOf(plan.y.kind, ys, 1, 0), Math.floor(height / 52));
  const left = Math.max(30, 10 + 6.8 * Math.max(...yLabels.map((each) => compact(each).length)));
  const frame = { left, right: width - 12, top: 24, bottom: height - 38 };
  const x = scaleOf(plan.x.kind, xs, frame.left, frame.right), y = scaleOf(plan.y.kind, ys, frame.bottom, frame.top);
  Object.assign(chart, { x, y, frame });
  const picture = draw("svg", { class: "plot", viewBox: `0 0 ${width} ${height}`, "aria-hidden": "true" });
  for (const each of yLabels) {
    const at = y.at(each);
    picture.append(draw("line", { class: "gridline", x1: frame.left, x2: frame.right, y1: at, y2: at }));
    picture.append(draw("text", { x: frame.left - 7, y: at + 4, "text-anchor": "end" }, compact(each)));
  }
  axisBelow(picture, x, frame, plan, width);
  picture.append(draw("text", { class: "name", x: 0, y: 12 }, plan.y.name));
  const [mask, inner] = clipped(id, frame);
  const line = (its, attributes, { colour, k }) => {
    const path = draw("path", { d: pathOf(its[0], its[1], x, y), "stroke-width": 2, ...attributes, ...(k === undefined ? {} : { "data-k": k }) });
    path.style.stroke = colour;
    inner.append(path);
  };
  for (const each of plan.broad ?? []) line([each.xs, each.ys], { class: "broad" }, each);
  for (const each of plan.series) for (const seed of each.seeds ?? []) line(seed, { class: "seed" }, each);
  for (const each of plan.series) {
    line([each.xs, each.ys], { "stroke-dasharray": each.dash ?? "", "data-series": each.name, "data-marker": each.marker ?? "", "stroke-width": each.width ?? 2 }, each);
    if (each.marker) for (let part = 1; part < 9; part++) {
      const place = Math.round(part / 9 * (each.xs.length - 1)), at = [x.at(each.xs[place]), y.at(each.ys[place])];
      if (at.every(Number.isFinite)) inner.append(markAt(...at, each));
    }
  }
  picture.append(mask, inner);
  for (const each of plan.rules ?? []) {
    const across = each.y !== undefined, at = across ? y.at(each.y) : x.at(each.x);
    const inside = across ? at >= frame.top - 1 && at <= frame.bottom + 1 : at >= frame.left - 1 && at <= frame.right + 1;
    if (!Number.isFinite(at) || !inside) continue;
    picture.append(draw("line", { class: "rule", ...(across ? { x1: frame.left, x2: frame.right, y1: at, y2: at } : { x1: at, x2: at, y1: frame.top, y2: frame.bottom }) }));
    const end = !across && at > (frame.left + frame.right) / 2;
    const place = across ? clearest(each.name, at, chart) : { x: at + (end ? -6 : 6), y: frame.top + 8, "text-anchor": end ? "end" : "start" };
    picture.append(draw("text", { class: "rule-name", ...place }, each.name));
  }
  for (const each of plan.dots ?? []) {
    const px = x.at(each.x), py = y.at(each.y);
    if (!(px >= frame.left - 1 && px <= frame.right + 1 && py >= frame.top - 9 && py <= frame.bottom + 1)) continue;
    const dot = draw("circle", { cx: px, cy: py, r: each.ring ? 4.5 : 4, "stroke-width": 2 });
    dot.style.fill = each.ring ? "var(--card)" : each.colour;
    dot.style.stroke = each.ring ? each.colour : "var(--card)";
    picture.append(dot);
  }
  chart.cursor = draw("g");
  picture.append(chart.cursor);
  box.append(picture);
}

const ROW = 46, ROW_NAME = 17, LETTER = 6.8; // pixels: of a row, of its name, of a letter at most
/** A row for each series, on a scale of its own: shapes are compared, and ``note`` says how high it goes. */
function drawRows(id, plan) {
  // Where a name and its note do not fit beside each other, the note has a line of its own.
  const room = byId(id).clientWidth - 12, needed = ({ name, note }) => 44 + LETTER * (spaced(name).length + note.length);
  const more = plan.series.some((each) => needed(each) > room) ? 15 : 0, tall = ROW + more;
  byId(id).style.height = plan.empty ? "" : `${plan.series.length * tall + 44}px`;
  const chart = chartOf(id, plan);
  if (plan.empty) return;
  const { box } = chart, width = box.clientWidth, height = box.clientHeight;
  const frame = { left: 1, right: width - 12, top: 2, bottom: plan.series.length * tall + 2 };
  const x = scaleOf("linear", chart.zoom?.[0] ?? plan.x.domain, frame.left, frame.right);
  Object.assign(chart, { x, y: null, frame });
  const picture = draw("svg", { class: "plot", viewBox: `0 0 ${width} ${height}`, "aria-hidden": "true" });
  const [mask, inner] = clipped(id, frame);
  plan.series.forEach((each, row) => {
    const bottom = frame.top + (row + 1) * tall - 4, most = Math.max(...each.ys) || 1;
    const y = scaleOf("linear", [0, most], bottom, bottom - tall + more + ROW_NAME + 5), outline = [[], []];
    each.xs.forEach((at, k) => {
      const half = (k ? at - each.xs[k - 1] : (each.xs[1] ?? at + 1) - at) / 2;
      outline[0].push(at - half, at - half, at + half, at + half);
      outline[1].push(0, each.ys[k], each.ys[k], 0);
    });
    const area = draw("path", { class: "area", d: pathOf(outline[0], outline[1], x, y), "data-k": each.k, "data-row": each.name });
    area.style.fill = area.style.stroke = each.colour;
    inner.append(area);
    picture.append(draw("line", { class: "gridline", x1: frame.left, x2: frame.right, y1: bottom, y2: bottom }));
    const sample = draw("g", { transform: `translate(0 ${bottom - tall + 14})` });
    sample.append(...lineSample(each, 0));
    picture.append(sample, draw("text", { class: "row", x: 34, y: bottom - tall + 18 }, spaced(each.name)));
    picture.append(draw("text", { class: "name", x: frame.right, y: bottom - tall + 18 + more, "text-anchor": "end" }, each.note));
  });
  axisBelow(picture, x, frame, plan, width);
  chart.cursor = draw("g");
  picture.append(mask, inner, chart.cursor);
  box.append(picture);
  for (const name of picture.querySelectorAll(".row")) // a name that is wider than the picture is pressed together
    if (name.getComputedTextLength() > frame.right - 34) for (const [key, value] of [["textLength", frame.right - 34], ["lengthAdjust", "spacingAndGlyphs"]]) name.setAttribute(key, value);
}

/* ---- pointing and zooming ---- */

function hideTip(chart) {
  chart.tip?.remove();
  chart.tip = null;
  chart.cursor?.replaceChildren();
}
function showTip(chart, position) {
  hideTip(chart);
  if (!chart.x) return;
  const { plan, frame, x, y, box } = chart;
  chart.at = Math.max(frame.left, Math.min(frame.right, position));
  const at = plan.whole ? Math.round(x.back(chart.at)) : x.back(chart.at), line = x.at(at);
  const rows = plan.series.map((each) => ({ each, value: interpolate(each.xs, each.ys, at) })).filter(({ value }) => value !== null && Number.isFinite(value));
  if (!rows.length) return;
  chart.cursor.append(draw("line", { class: "cursor", x1: line, x2: line, y1: frame.top, y2: frame.bottom }));
  for (const { each, value } of y ? rows : []) {
    const py = y.at(value);
    if (!Number.isFinite(py)) continue;
    const dot = draw("circle", { cx: line, cy: Math.max(frame.top - 8, Math.min(frame.bottom, py)), r: 3.5 });
    dot.style.fill = each.colour;
    chart.cursor.append(dot);
  }
  if (!plan.keepOrder) rows.sort((a, b) => b.value - a.value);
  const tip = chart.tip = make("div", { class: "tip" }, make("b", {}, plan.tipX(at)));
  for (const { each, value } of rows.slice(0, 12)) tip.append(make("div", {}, swatch(each), make("span", {}, spaced(each.name)), make("i", {}, plan.tipY(value))));
  if (rows.length > 12) tip.append(`and ${rows.length - 12} more`);
  box.append(tip);
  const room = box.clientWidth - tip.offsetWidth, beside = line + 14;
  tip.style.left = `${Math.max(0, beside <= room ? beside : Math.min(room, line - 14 - tip.offsetWidth))}px`;
  tip.style.top = `${Math.max(0, Math.min(frame.top + 2, box.clientHeight - tip.offsetHeight))}px`;
}
function wire(chart) {
  const { box } = chart;
  chart.wired = true;
  chart.reset = make("button", { type: "button", class: "reset", hidden: "" }, "whole picture");
  box.append(chart.reset);
  const zoom = (to) => { chart.zoom = to; request(); };
  chart.reset.addEventListener("click", () => zoom(null));
  box.addEventListener("dblclick", () => zoom(null));
  const place = (event) => { const { left, top } = box.getBoundingClientRect(); return [event.clientX - left, event.clientY - top]; };
  let from = null, drawn = null;
  const end = () => { drawn?.remove(); from = drawn = null; };
  box.addEventListener("pointerdown", (event) => {
    showTip(chart, place(event)[0]);
    if (event.pointerType !== "mouse" || event.button !== 0 || !chart.x || event.target === chart.reset) return;
    event.preventDefault();
    box.focus({ preventScroll: true });
    from = place(event);
    box.setPointerCapture(event.pointerId);
  });
  box.addEventListener("pointermove", (event) => {
    const to = place(event);
    if (from === null || Math.abs(to[0] - from[0]) < 6) { showTip(chart, to[0]); return; }
    hideTip(chart);
    const [a, b] = picked(chart, from, to);
    drawn?.remove();
    drawn = draw("rect", { class: "picked", x: a[0], width: b[0] - a[0], y: a[1], height: b[1] - a[1] });
    chart.cursor.append(drawn);
  });
  box.addEventListener("pointerup", (event) => {
    if (from !== null && drawn !== null) {
      const [a, b] = picked(chart, from, place(event)), { x, y } = chart;
      if (b[0] - a[0] >= 6) zoom([[x.back(a[0]), x.back(b[0])], y ? [y.back(b[1]), y.back(a[1])] : null]);
    }
    end();
  });
  box.addEventListener("pointercancel", end);
  box.addEventListener("pointerleave", () => hideTip(chart));
  box.addEventListener("blur", () => hideTip(chart));
  box.addEventListener("keydown", (event) => {
    if (event.key === "Escape") { hideTip(chart); if (chart.zoom) zoom(null); return; }
    const step = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
    if (!step || !chart.x) return;
    event.preventDefault();
    const { left, right } = chart.frame;
    showTip(chart, (chart.tip ? chart.at : (left + right) / 2) + step * Math.max(4, (right - left) / 60));
  });
}
/** The corners of what is picked: of a flat drag, over the whole height. */
function picked({ frame, y }, from, to) {
  const within = (value, low, high) => Math.max(low, Math.min(high, value));
  const xs = [from[0], to[0]].map((each) => within(each, frame.left, frame.right)).sort((a, b) => a - b);
  const flat = !y || Math.abs(to[1] - from[1]) < 20;
  const ys = flat ? [frame.top, frame.bottom] : [from[1], to[1]].map((each) => within(each, frame.top, frame.bottom)).sort((a, b) => a - b);
  return [[xs[0], ys[0]], [xs[1], ys[1]]];
}
