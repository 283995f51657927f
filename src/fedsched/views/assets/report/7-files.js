/* Pictures and tables as files: SVG and PNG as they are seen, CSV with all digits. */

const LOOKS = ["fill", "stroke", "stroke-width", "stroke-dasharray", "stroke-linecap", "stroke-linejoin", "stroke-opacity", "fill-opacity", "opacity", "paint-order", "text-anchor", "font-size", "font-family"];
const PIXELS = 3; // of a PNG for each of the page: 300 dpi and more in a column of a paper

/** A colour as every program reads it, however the browser names it. */
function plainColour(text) {
  if (!/[a-z]+\(/.test(text) || text.startsWith("rgb(")) return text;
  const canvas = document.createElement("canvas"), brush = canvas.getContext("2d", { willReadFrequently: true });
  canvas.width = canvas.height = 1;
  brush.fillStyle = text;
  brush.fillRect(0, 0, 1, 1);
  const [r, g, b, a] = brush.getImageData(0, 0, 1, 1).data;
  return a === 0 ? "none" : `rgb(${r}, ${g}, ${b})`;
}
function dressed(live, copy) {
  const style = getComputedStyle(live);
  for (const name of LOOKS) {
    const value = style.getPropertyValue(name);
    if (value) copy.setAttribute(name, name === "fill" || name === "stroke" ? plainColour(value) : value);
  }
  copy.removeAttribute("style");
  copy.removeAttribute("class");
  [...live.children].forEach((child, k) => dressed(child, copy.children[k]));
}
/** The picture on white with its title and its legend, as a file of its own. */
function pictureFile(chart, title) {
  const live = chart.box.querySelector("svg.plot"), [, , width, height] = live.getAttribute("viewBox").split(" ").map(Number);
  hideTip(chart);
  document.documentElement.dataset.scheme = "light";
  const legend = draw("g", { class: "legend" }), named = chart.y ? chart.plan.series : [];
  const column = 44 + 7 * Math.max(0, ...named.map((each) => each.name.length)), across = Math.max(1, Math.floor(width / column));
  named.forEach((each, k) => {
    const entry = draw("g", { transform: `translate(${(k % across) * column} ${height + 14 + 18 * Math.floor(k / across)})` });
    entry.append(...lineSample(each, -4), draw("text", { class: "row", x: 34 }, spaced(each.name)));
    legend.append(entry);
  });
  live.append(legend);
  const copy = live.cloneNode(true), tall = height + 18 * Math.ceil(named.length / across) + 4;
  dressed(live, copy);
  legend.remove();
  delete document.documentElement.dataset.scheme;
  copy.setAttribute("viewBox", `-10 -24 ${width + 20} ${tall + 34}`);
  copy.setAttribute("width", width + 20);
  copy.setAttribute("height", tall + 34);
  copy.setAttribute("xmlns", SVG);
  copy.prepend(draw("title", {}, title), draw("rect", { x: -10, y: -24, width: width + 20, height: tall + 34, fill: "white" }),
    draw("text", { x: 0, y: -8, "font-size": 13, "font-weight": 600, "font-family": "sans-serif", fill: "black" }, title),
    draw("text", { x: width, y: -8, "font-size": 12, "font-family": "sans-serif", fill: "black", "text-anchor": "end" }, spaced(chart.plan.of ?? "")));
  return { text: new XMLSerializer().serializeToString(copy), width: width + 20, height: tall + 34 };
}
function save(name, content, type) {
  const link = make("a", { download: name, href: URL.createObjectURL(content instanceof Blob ? content : new Blob([content], { type })) });
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 10_000);
}
function savePng(name, { text, width, height }) {
  const picture = new Image(), canvas = make("canvas", { width: Math.round(PIXELS * width), height: Math.round(PIXELS * height) });
  picture.onload = () => {
    canvas.getContext("2d").drawImage(picture, 0, 0, canvas.width, canvas.height);
    canvas.toBlob((blob) => save(name, blob));
  };
  picture.src = `data:image/svg+xml;charset=utf-8,${encodeURIComponent(text)}`;
}
const quoted = (value) => /[",\n\r]/.test(value) ? `"${String(value).replaceAll('"', '""')}"` : String(value);
const csv = (rows) => rows.map((row) => row.map(quoted).join(",")).join("\n") + "\n";

/** A row for each point that is drawn. */
function chartRows({ plan }) {
  const points = plan.series.flatMap((each) => each.xs.map((x, k) => [each.name, x, each.ys[k]]));
  return [["series", plan.x.name, plan.y.name], ...points.filter(([, x, y]) => Number.isFinite(x) && Number.isFinite(y))];
}
/** A row for each row; numbers with all their digits. */
function tableRows(table) {
  return [...table.rows].map((row) => [...row.cells].map((each) => (each.dataset.value ?? each.textContent).replaceAll(THIN, "").trim()));
}

function saveButtons() {
  const offer = (bar, title, ways) => {
    const menu = make("details", { class: "save" }, make("summary", { "aria-label": `Save ${title}` }, "save"));
    const choices = make("div", {});
    for (const [kind, go] of ways) {
      const button = make("button", { type: "button", "data-save": kind }, kind);
      button.addEventListener("click", () => { go(`${title.toLowerCase().replace(/[^a-z0-9]+/g, "-")}.${kind}`); menu.open = false; });
      choices.append(button);
    }
    menu.append(choices);
    bar.append(menu);
  };
  for (const box of document.querySelectorAll(".chart")) {
    const bar = box.closest(".card").querySelector(".bar"), title = bar.querySelector("h2").textContent, chart = () => charts.get(box.id);
    const drawn = (go) => (name) => { if (!chart().plan.empty) go(name); };
    offer(bar, title, [
      ["png", drawn((name) => savePng(name, pictureFile(chart(), title)))],
      ["svg", drawn((name) => save(name, pictureFile(chart(), title).text, "image/svg+xml"))],
      ["csv", drawn((name) => save(name, csv(chartRows(chart())), "text/csv"))],
    ]);
  }
  for (const table of document.querySelectorAll("main table")) {
    const bar = table.closest(".card").querySelector(".bar"), title = bar.querySelector("h2").textContent;
    offer(bar, title, [["csv", (name) => save(name, csv(tableRows(table)), "text/csv")]]);
  }
}
