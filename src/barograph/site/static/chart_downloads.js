// Saves what the large chart of a coin page shows as PNG, SVG or CSV; chart.js loads this on first use.

const MARGIN = 12;
const COLUMNS = ["time", "pane", "venue", "value", "unit", "missing"];
const UNITS = { "open-interest": "USD", funding: "% per 8 h", liquidations: "USD" };

const short = (number) => Number(number.toFixed(2));
const escaped = (value) => String(value).replace(/[&<>"]/g, (sign) => `&#${sign.charCodeAt(0)};`);

function save(name, blob) {
  const href = URL.createObjectURL(blob);
  Object.assign(document.createElement("a"), { href, download: name }).click();
  setTimeout(() => URL.revokeObjectURL(href), 60_000);
}

// Points by measure, with the name of their pane and their venue
export function saveTable(name, found, quotes) {
  const rows = found.flatMap(([key, pane, venue, points]) => points.flatMap((point) => rowsOf(key, pane, venue, point, quotes)));
  const cell = (value) => (/[",\n]/.test(value) ? `"${value.replaceAll('"', '""')}"` : value);
  const lines = [COLUMNS, ...rows].map((row) => `${row.map((value) => cell(String(value ?? ""))).join(",")}\r\n`);
  save(name, new Blob(lines, { type: "text/csv" }));
}

function rowsOf(key, pane, venue, point, quotes) {
  const missing = point.missing.map(({ venue: name, reason }) => `${name} (${reason})`).join("; ");
  const row = (of, value, title = pane) => [new Date(point.at).toISOString(), title, of, value, UNITS[key] ?? quotes[of], missing];
  if (key === "liquidations") return [row(venue, point.long_usd, "liquidations of longs"), row(venue, point.short_usd, "liquidations of shorts")];
  if (key === "price") return [row(point.price_venue ?? venue, point.value)];
  return [row(venue, point.value), ...(venue === "all" ? point.venues.map((name, index) => row(name, point.by_venue[index])) : [])];
}

export function saveImage(name, drawChart, chart) {
  const [width, height] = [chart.width + 2 * MARGIN, chart.height + 2 * MARGIN];
  const sheet = Object.assign(document.createElement("canvas"), { width: 2 * width, height: 2 * height });
  const c = sheet.getContext("2d");
  c.setTransform(2, 0, 0, 2, 2 * MARGIN, 2 * MARGIN);
  const target = name.endsWith(".svg") ? new SvgContext(width, height, c) : c;
  target.fillStyle = chart.colours.ground;
  target.fillRect(-MARGIN, -MARGIN, width, height);
  drawChart(target, chart);
  if (target === c) sheet.toBlob((blob) => save(name, blob));
  else save(name, new Blob([target.toString()], { type: "image/svg+xml" }));
}

// The part of a canvas context that chart_drawing.js uses, as SVG
class SvgContext {
  constructor(width, height, ruler) { Object.assign(this, { width, height, ruler, parts: [], path: [], open: 0, globalAlpha: 1 }); }
  beginPath() { this.path = []; }
  closePath() { this.path.push("Z"); }
  moveTo(x, y) { this.path.push(`M${short(x)} ${short(y)}`); }
  lineTo(x, y) { this.path.push(`${this.path.length ? "L" : "M"}${short(x)} ${short(y)}`); }
  rect(x, y, width, height) { this.path.push(`M${short(x)} ${short(y)}h${short(width)}v${short(height)}h${short(-width)}Z`); }
  setLineDash(dash) { this.dash = dash.length ? { "stroke-dasharray": dash.join(" ") } : {}; }
  fill() { this.add("path", { d: this.path.join(""), fill: this.fillStyle, opacity: this.globalAlpha }); }
  stroke() { this.add("path", { d: this.path.join(""), fill: "none", stroke: this.strokeStyle, "stroke-width": this.lineWidth, ...this.dash }); }

  fillRect(x, y, width, height) {
    this.add("rect", { x: short(x), y: short(y), width: short(width), height: short(height), fill: this.fillStyle, opacity: this.globalAlpha });
  }

  fillText(words, x, y) {
    const [, weight, size, family] = /^(\d+) ([\d.]+)px (.*)/.exec(this.font);
    const anchor = { left: "start", center: "middle", right: "end" }[this.textAlign];
    const font = { "font-family": family, "font-size": size, "font-weight": weight, "text-anchor": anchor };
    this.add("text", { x: short(x), y: short(y), fill: this.fillStyle, ...font }, words);
  }

  measureText(words) { return Object.assign(this.ruler, { font: this.font }).measureText(words); }
  save() { this.open += 1; }
  restore() { this.parts.push("</g>"); }
  clip() { this.parts.push(`<clipPath id="clip-${this.open}"><path d="${this.path.join("")}"/></clipPath><g clip-path="url(#clip-${this.open})">`); }

  add(name, members, words = "") {
    const written = Object.entries(members).map(([key, value]) => ` ${key}="${escaped(value)}"`).join("");
    this.parts.push(`<${name}${written}>${escaped(words)}</${name}>`);
  }

  toString() {
    const size = `width="${this.width}" height="${this.height}" viewBox="${-MARGIN} ${-MARGIN} ${this.width} ${this.height}"`;
    return `<svg xmlns="http://www.w3.org/2000/svg" ${size}>${this.parts.join("")}</svg>\n`;
  }
}
