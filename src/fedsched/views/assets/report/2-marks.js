/* Numbers as text, elements, and how a configuration is drawn. */

const SVG = "http://www.w3.org/2000/svg";
const byId = (id) => document.getElementById(id);
const THIN = "\u202f"; // narrow, and no line ends at it
function fixed(value, digits) {
  const [whole, part] = value.toFixed(digits).split(".");
  const spaced = whole.replace(/\B(?=(\d{3})+$)/g, THIN);
  return part === undefined ? spaced : `${spaced}.${part}`;
}
const seconds = (value) => fixed(value, value < 10 ? 2 : value < 1000 ? 1 : 0);
const breakpoint = (value) => value >= 1000 ? fixed(value, 0) : String(Number(value.toPrecision(3)));
const times = (value) => value < 0.1 ? value.toPrecision(2) : fixed(value, value < 10 ? 2 : value < 100 ? 1 : 0);
function compact(value) {
  if (value === 0) return "0";
  const size = Math.abs(value);
  if (size >= 1e6 || size < 1e-4) return value.toExponential(size === 10 ** Math.round(Math.log10(size)) ? 0 : 2).replace("e+", "e");
  return size >= 1000 ? fixed(value, 0) : String(Number(value.toPrecision(4)));
}
const percent = (share) => `${compact(Number((100 * share).toPrecision(3)))}${THIN}%`;
function bits(count) {
  const [unit, name] = [[1e9, "Gbit"], [1e6, "Mbit"], [1e3, "kbit"]].find(([size]) => count >= size) ?? [1, "bit"];
  return `${(count / unit).toPrecision(3)}${THIN}${name}`;
}
const spaced = (label) => label.replace(/=/g, `${THIN}=${THIN}`);

function make(tag, attributes = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
  element.append(...children);
  return element;
}
function draw(tag, attributes = {}, text = null) {
  const element = document.createElementNS(SVG, tag);
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
  if (text !== null) element.textContent = text;
  return element;
}

/** Hue is m, dash the policy, shade lambda, as in the figures of fedsched plot; what else differs has a marker. */
function look(k) {
  const { hue, white, dash, marker } = groups[k].looks[state.environment === null ? 1 : 0];
  const colour = white ? `color-mix(in srgb, var(--s${hue}), var(--card) ${(100 * white).toFixed(1)}%)` : `var(--s${hue})`;
  return { k, name: nameOf(k), colour, dash, marker };
}
const MARKERS = {
  o: "M4 0A4 4 0 1 1-4 0A4 4 0 1 1 4 0Z", s: "M-3.5-3.5H3.5V3.5H-3.5Z", "^": "M0-4.5L4.5 3.5H-4.5Z", D: "M0-5L5 0L0 5L-5 0Z",
  v: "M0 4.5L4.5-3.5H-4.5Z", P: "M-1.5-4.5H1.5V-1.5H4.5V1.5H1.5V4.5H-1.5V1.5H-4.5V-1.5H-1.5Z", X: "M-4-4L4 4M4-4L-4 4",
  "*": "M0-5L1.5-1.5L5-1.2L2.3 1.1L3.2 4.7L0 2.7L-3.2 4.7L-2.3 1.1L-5-1.2L-1.5-1.5Z",
};
function markAt(x, y, { colour, marker }) {
  const mark = draw("path", { d: MARKERS[marker] ?? MARKERS.o, transform: `translate(${x.toFixed(1)} ${y.toFixed(1)})`, class: "mark" });
  mark.style.fill = mark.style.stroke = colour;
  return mark;
}
function lineSample({ colour, dash, marker }, y = 5) {
  const line = draw("line", { x1: 1, x2: 27, y1: y, y2: y, "stroke-width": 2.4, "stroke-dasharray": dash ?? "" });
  line.style.stroke = colour;
  return marker ? [line, markAt(14, y, { colour, marker })] : [line];
}
function swatch(of) {
  const picture = draw("svg", { class: "swatch", viewBox: "0 0 28 10", "aria-hidden": "true" });
  picture.append(...lineSample(of));
  return picture;
}
