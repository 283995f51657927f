/* Scales, ticks and what is between points. */

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
function ticksOf({ kind, low, high }, room) {
  if (kind === "knee") {
    const whole = [0, 0.1, 0.3, 1, 3, 10, 30, 100, 300, 1000].filter((x) => x >= low * 0.9999 && x <= high * 1.0001);
    return whole.length > 2 ? whole : ticksOf({ kind: "linear", low, high }, room);
  }
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
    if (found.length < 2) return ticksOf({ kind: "linear", low, high }, room);
    const skip = Math.ceil(found.length / Math.max(room, 2));
    return found.filter((_, k) => k % skip === 0);
  }
  const rough = (high - low) / Math.max(room, 1), power = 10 ** Math.floor(Math.log10(rough || 1));
  const step = [1, 2, 5, 10].map((s) => s * power).find((s) => s >= rough * 0.999) || power * 10;
  const found = [];
  for (let k = Math.ceil(low / step - 1e-9); k * step <= high + step * 1e-9; k++) found.push(Number((k * step).toPrecision(12)));
  return found;
}
function extent(lists, keep = Number.isFinite) {
  let low = Infinity, high = -Infinity;
  for (const list of lists) for (const each of list) if (keep(each)) { if (each < low) low = each; if (each > high) high = each; }
  return low <= high ? [low, high] : null;
}
const positive = (x) => Number.isFinite(x) && x > 0;
const widen = ([low, high], share) => [low - (high - low || 1) * share, high + (high - low || 1) * share];

function interpolate(xs, ys, x) {
  if (!xs.length || x < xs[0] || x > xs[xs.length - 1]) return null;
  let low = 0, high = xs.length - 1;
  while (high - low > 1) { const middle = (low + high) >> 1; if (xs[middle] <= x) low = middle; else high = middle; }
  if (xs[high] === xs[low]) return ys[low];
  return ys[low] + (ys[high] - ys[low]) * Math.max(0, Math.min(1, (x - xs[low]) / (xs[high] - xs[low])));
}
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
