// Draws the large chart of a coin page, on a canvas or as SVG: both get the same calls. What is
// drawn comes from chart.js; nothing here loads data or listens to the visitor.

const MINUTE = 60_000;
const HOUR = 60 * MINUTE;
const DAY = 24 * HOUR;
const TIME_STEPS = [1, 2, 5, 10, 15, 30].map((count) => count * MINUTE)
  .concat([1, 3, 6, 12].map((count) => count * HOUR), [1, 2, 7, 14, 28, 56, 91, 182, 364].map((count) => count * DAY));
const EVENTS_HEIGHT = 20;
const TIMES_HEIGHT = 24;
const PANE_GAP = 12;
const TITLE_HEIGHT = 18; // above the plot of each pane
const CLUSTER_PX = [12, 24, 48]; // closer events share a mark; wider if there would be a row of marks
const MARK_ROOM_PX = 36;
const HATCH_PX = 5;
const NARROW_PX = 560;
const FONT = 'ui-sans-serif, system-ui, -apple-system, "Segoe UI", Roboto, "Noto Sans", sans-serif';

// Numbers as the site writes them, never with an exponent

export function usd(value, decimals = 2) {
  const [size, sign] = [Math.abs(value), value < 0 ? "-" : ""];
  const [letter, unit] = [["T", 1e12], ["B", 1e9], ["M", 1e6], ["k", 1e3]].find((each) => size >= each[1] * 0.99995) ?? ["", 1];
  return `${sign}$${(size / unit).toFixed(unit === 1 ? 0 : decimals)}${letter}`;
}

export function price(value, step = Math.abs(value) >= 1 ? 0.01 : Math.abs(value) / 1e5) {
  const decimals = Math.min(12, Math.max(0, Math.ceil(-Math.log10(step || 1) - 1e-9)));
  const digits = { minimumFractionDigits: decimals, maximumFractionDigits: decimals };
  return `$${value.toLocaleString("en", digits)}`;
}

export function rate(value) {
  return `${signed(value, 4)} %`;
}

export function percent(value, decimals = 2) {
  return `${signed(value, decimals)} %`;
}

function signed(value, decimals) {
  const text = Math.abs(value).toFixed(decimals);
  return `${Number(text) === 0 ? "" : value > 0 ? "+" : "-"}${text}`;
}

export function moment(at) {
  return `${new Date(at).toISOString().slice(0, 16).replace("T", " ")} UTC`;
}

// Points become at most one column per pixel, with the first, lowest, highest and last value of each
// channel. That is done once per zoom: columns begin at multiples of their length, so panning only
// moves them. Lines bridge at most the time `bridged`.

export function prepare(points, columnMs, bridged, channels, isDashed) {
  const columns = { at: [], gap: [], dashed: [], channels: channels.map(() => ({ first: [], low: [], high: [], last: [] })) };
  let [key, index, before] = [NaN, -1, -Infinity];
  for (const point of points) {
    if (point.value === null) continue;
    const found = Math.floor(point.at / columnMs);
    if (found !== key) {
      [key, index] = [found, index + 1];
      columns.at.push(point.at);
      columns.gap.push(point.at - before > bridged);
      columns.dashed.push(false);
      for (const each of columns.channels) for (const list of Object.values(each)) list.push(NaN);
    }
    before = point.at;
    if (isDashed(point)) columns.dashed[index] = true;
    for (let number = 0; number < channels.length; number += 1) {
      addTo(columns.channels[number], index, channels[number](point));
    }
  }
  return Object.assign(columns, { isDense: points.length > 2 * columns.at.length });
}

function addTo({ first, low, high, last }, index, value) {
  if (!Number.isFinite(value)) return;
  if (Number.isNaN(first[index])) first[index] = low[index] = high[index] = value;
  else if (value < low[index]) low[index] = value;
  else if (value > high[index]) high[index] = value;
  last[index] = value;
}

// The columns from one before a period to one after it, so that lines reach both edges.
function visible(at, from, to) {
  return [Math.max(0, lowerBound(at, from) - 1), Math.min(at.length, lowerBound(at, to) + 2)];
}

export function lowerBound(list, wanted, of = (each) => each) {
  let [low, high] = [0, list.length];
  while (low < high) {
    const middle = (low + high) >> 1;
    if (of(list[middle]) < wanted) low = middle + 1;
    else high = middle;
  }
  return low;
}

// The chart: events above, panes below each other, and the times

export function drawChart(c, chart) {
  const { width, height, view, colours } = chart;
  const isNarrow = width < NARROW_PX;
  const box = { left: 1, right: width - axisWidth(width), top: chart.head ? 44 : 0, bottom: height - (chart.foot ? 20 : 0) };
  const x = (at) => box.left + ((at - view.from) / (view.to - view.from)) * (box.right - box.left);
  c.fillStyle = colours.ground;
  c.fillRect(0, 0, width, height);
  if (chart.head) drawHead(c, chart);
  const marks = clustered(chart.events, x, box);
  const layout = { ...box, x, marks, panes: layOut(chart.panes, box, isNarrow) };
  drawTimes(c, chart, layout);
  for (const place of layout.panes) drawPane(c, chart, place, layout);
  for (const mark of marks) drawMark(c, mark, box.top, colours);
  if (chart.selected) drawSelected(c, chart.selected, layout, colours);
  if (chart.cross) drawCrosshair(c, chart, layout);
  if (chart.foot) text(c, chart.foot, box.left, height - 6, colours.quiet, { size: 10 });
  return layout;
}

export function axisWidth(width) {
  return width < NARROW_PX ? 68 : 76;
}

function layOut(panes, box, isNarrow) {
  const room = box.bottom - box.top - EVENTS_HEIGHT - TIMES_HEIGHT - PANE_GAP * (panes.length - 1);
  const shares = panes.reduce((sum, each) => sum + each.share, 0);
  let top = box.top + EVENTS_HEIGHT;
  return panes.map((pane) => {
    const height = (room * pane.share) / shares;
    const place = { pane, top: Math.round(top + TITLE_HEIGHT), bottom: Math.round(top + height), isNarrow }; // whole pixels are faster
    top += height + PANE_GAP;
    return place;
  });
}

function drawHead(c, { head, legend, colours }) {
  text(c, head, 1, 16, colours.text, { size: 13, weight: 600 });
  let left = 1;
  for (const { title, colour } of legend) {
    c.fillStyle = colour;
    c.fillRect(left, 26, 9, 9);
    text(c, title, left + 13, 35, colours.quiet, {});
    left += 26 + c.measureText(title).width;
  }
}

function drawTimes(c, { view, colours, panes }, { x, left, right, bottom, panes: places }) {
  const most = Math.max(2, Math.floor((right - left) / (right - left < NARROW_PX ? 56 : 84)));
  const step = TIME_STEPS.find((each) => (view.to - view.from) / each <= most) ?? 2 * TIME_STEPS.at(-1);
  for (let at = Math.ceil(view.from / step) * step; at <= view.to; at += step) {
    for (const { top, bottom: low } of panes.length ? places : []) line(c, [x(at), top, x(at), low], colours.grid);
    const half = 22;
    if (x(at) > left + half && x(at) < right - half) text(c, timeLabel(at, step), x(at), bottom - 7, colours.quiet, { align: "center" });
  }
  text(c, "UTC", right + 8, bottom - 7, colours.quiet, {});
}

function timeLabel(at, step) {
  const when = new Date(at).toUTCString(); // Thu, 19 Nov 2026 10:49:00 GMT
  if (step < DAY && at % DAY !== 0) return when.slice(17, 22);
  return step > 90 * DAY ? when.slice(8, 16) : `${Number(when.slice(5, 7))} ${when.slice(8, 11)}`;
}

function drawPane(c, chart, place, layout) {
  const { pane, top, bottom } = place;
  const { colours } = chart;
  const { left, right } = layout;
  place.scale = scaleOf(pane, chart.view, bottom - top);
  place.y = (value) => bottom - ((value - place.scale.low) / (place.scale.high - place.scale.low)) * (bottom - top);
  for (const mark of place.scale.marks) {
    line(c, [left, place.y(mark), right, place.y(mark)], mark === 0 && pane.zero ? colours.edge : colours.grid);
    text(c, pane.label(mark, place.scale.step), right + 8, place.y(mark) + 4, colours.quiet, {});
  }
  text(c, place.isNarrow ? pane.short : pane.title, left, top - 6, colours.text, { weight: 600 });
  c.save();
  c.beginPath();
  c.rect(left, top - 1, right - left, bottom - top + 2);
  c.clip();
  for (const each of pane.drawn) DRAW[each.kind](c, each, chart, place, layout);
  c.restore();
  if (!place.scale.isKnown) text(c, pane.nothing, (left + right) / 2, (top + bottom) / 2, colours.quiet, { align: "center" });
}

// From the lowest to the highest value in view, with round marks inside

function scaleOf(pane, view, height) {
  let [low, high] = pane.zero ? [0, 0] : [Infinity, -Infinity];
  let isKnown = false;
  for (const each of pane.drawn) {
    const [least, most] = RANGE[each.kind](each, view);
    if (least > most) continue;
    [low, high, isKnown] = [Math.min(low, least), Math.max(high, most), true];
  }
  if (!isKnown) return { low: 0, high: 1, marks: [], step: 1, isKnown };
  const room = (high - low) * 0.06 || Math.abs(high) * 0.01 || 1;
  [low, high] = [pane.zero && low === 0 ? 0 : low - room, pane.zero && high === 0 ? 0 : high + room];
  const step = roundStep((high - low) / Math.max(2, Math.floor(height / (height < 120 ? 20 : 34))));
  const count = Math.floor(high / step + 1e-9) - Math.ceil(low / step - 1e-9) + 1;
  const first = Math.ceil(low / step - 1e-9);
  return { low, high, step, isKnown, marks: Array.from({ length: count }, (_, index) => (first + index) * step || 0) };
}

function roundStep(least) {
  const power = 10 ** Math.floor(Math.log10(least));
  return [1, 2, 2.5, 5, 10].map((each) => each * power).find((each) => each >= least * (1 - 1e-9));
}

const RANGE = {
  line: ({ columns, channel, value = (each) => each }, { from, to }) => {
    let [low, high] = [Infinity, -Infinity];
    const [begin, end] = visible(columns.at, from, to);
    const { low: lows, high: highs } = columns.channels[channel];
    for (let index = begin; index < end; index += 1) {
      if (lows[index] < low) low = lows[index];
      if (highs[index] > high) high = highs[index];
    }
    return low > high ? [low, high] : [value(low), value(high)];
  },
  range: ({ columns, channel }, view) => {
    const [lows, highs] = [channel, channel + 1].map((each) => RANGE.line({ columns, channel: each }, view));
    return [lows[0], highs[1]];
  },
  stack: ({ columns, venues }, { from, to }) => {
    const [begin, end] = visible(columns.at, from, to);
    let most = -Infinity;
    for (let index = begin; index < end; index += 1) most = Math.max(most, stackTop(columns, venues.length, index) || 0);
    return [0, most];
  },
  bars: ({ bars }) => [Math.min(0, ...bars.map((bar) => -(bar.short ?? 0))), Math.max(...bars.map((bar) => bar.long ?? bar.total ?? 0))],
};

// The sum of the known venues with the last values of the missing ones; NaN if no venue is known.
function stackTop({ channels }, count, index, above = true) {
  let [sum, isKnown] = [0, false];
  for (let venue = 0; venue < count; venue += 1) {
    const value = channels[venue].last[index];
    if (value === value) [sum, isKnown] = [sum + value, true];
  }
  return isKnown ? sum + (above ? channels[count].last[index] || 0 : 0) : NaN;
}

const DRAW = { line: drawLine, range: drawRange, stack: drawStack, bars: drawBars };

function drawLine(c, drawn, { view }, { y }, { x, right }) {
  const { columns, channel, colour, name, width = 1.5, value = (each) => each } = drawn;
  const height = (each) => y(value(each));
  const values = columns.channels[channel];
  if (columns.isDense) drawDense(c, columns, values, { view, x, y: height, colour });
  for (const dashed of columns.isDense ? [] : [false, true]) {
    c.beginPath();
    trace(c, columns, values, dashed, view, x, height);
    c.strokeStyle = colour;
    c.lineWidth = width;
    c.setLineDash(dashed ? [4, 3] : []);
    c.stroke();
  }
  c.setLineDash([]);
  const last = name ? values.last.findLast((_, index) => columns.at[index] <= view.to) : NaN;
  if (Number.isFinite(last)) text(c, name, right - 4, height(last) - 6, colour, { align: "right", weight: 600 });
}

// With many points per pixel, one rectangle per column: browsers draw a long jagged line slowly.
function drawDense(c, { at, gap, dashed }, { low, high, last }, { view, x, y, colour }) {
  c.fillStyle = colour;
  const [begin, end] = visible(at, view.from, view.to);
  for (let index = begin; index < end; index += 1) {
    if (low[index] !== low[index] || (dashed[index] && index % 7 > 3)) continue;
    const before = gap[index] || index === begin || last[index - 1] !== last[index - 1] ? low[index] : last[index - 1];
    const [top, bottom] = [Math.max(high[index], before), Math.min(low[index], before)].map((each) => Math.round(y(each)));
    c.fillRect(Math.round(x(at[index])), top, 1, Math.max(1, bottom - top));
  }
}

// Segments that are all dashed or all solid; a value without neighbours becomes a dot.
function trace(c, { at, gap, dashed }, { first, low, high, last }, wanted, view, x, y) {
  const [begin, end] = visible(at, view.from, view.to);
  const isLinked = (index) => index > begin && index < end && !gap[index] && first[index] === first[index] && last[index - 1] === last[index - 1];
  let isOpen = false;
  for (let index = begin; index < end; index += 1) {
    if (first[index] !== first[index] || dashed[index] !== wanted) {
      isOpen = false;
      continue;
    }
    const across = x(at[index]);
    if (isLinked(index)) {
      if (!isOpen) c.moveTo(x(at[index - 1]), y(last[index - 1]));
      c.lineTo(across, y(first[index]));
    } else {
      c.moveTo(across - (isLinked(index + 1) ? 0 : 1.5), y(first[index]));
      if (!isLinked(index + 1)) c.lineTo(across + 1.5, y(first[index]));
    }
    if (low[index] !== high[index]) for (const each of [low, high, last]) c.lineTo(across, y(each[index]));
    isOpen = true;
  }
}

// From the lowest to the highest venue, with a tick at the value of the point
function drawRange(c, { columns, channel, colour }, { view }, { y }, { x }) {
  const [begin, end] = visible(columns.at, view.from, view.to);
  const [{ last }, { low }, { high }] = [channel - 1, channel, channel + 1].map((each) => columns.channels[each]);
  c.beginPath();
  for (let index = begin; index < end; index += 1) {
    if (low[index] !== low[index]) continue;
    const across = x(columns.at[index]);
    c.moveTo(across, y(low[index]));
    c.lineTo(across, y(high[index]));
    c.moveTo(across, y(last[index]));
    c.lineTo(across + 3, y(last[index]));
  }
  c.strokeStyle = colour;
  c.lineWidth = 1.5;
  c.stroke();
}

// One area per venue; above them, hatched, what the missing ones last had. Partial sums have a dashed edge.
function drawStack(c, { columns, venues }, { view, colours }, { y }, { x }) {
  for (const [begin, end] of runs(columns, venues.length, view)) {
    const indexes = Array.from({ length: end - begin }, (_, index) => begin + index);
    let below = indexes.map(() => 0);
    for (const [number, { colour }] of venues.entries()) {
      const above = indexes.map((index, place) => below[place] + (columns.channels[number].last[index] || 0));
      c.fillStyle = colour;
      c.globalAlpha = 0.75;
      fillArea(c, indexes, below, above, columns, x, y);
      c.globalAlpha = 1;
      below = above;
    }
    const top = indexes.map((index, place) => below[place] + (columns.channels[venues.length].last[index] || 0));
    if (indexes.some((index) => columns.dashed[index])) hatch(c, indexes, below, top, columns, { x, y, colour: colours.text });
  }
}

// The indexes of connected columns in which a venue is known
function runs(columns, count, view) {
  const found = [];
  const [begin, end] = visible(columns.at, view.from, view.to);
  for (let index = begin; index < end; index += 1) {
    if (Number.isNaN(stackTop(columns, count, index))) continue;
    if (found.at(-1)?.[1] === index && !columns.gap[index]) found.at(-1)[1] = index + 1;
    else found.push([index, index + 1]);
  }
  return found;
}

function fillArea(c, indexes, below, above, { at, isDense }, x, y) {
  const alone = indexes.length === 1 ? 1.5 : 0;
  if (isDense) {
    const edges = indexes.map((index) => Math.round(x(at[index])));
    for (const [place, left] of edges.entries()) {
      const [top, bottom] = [y(above[place]), y(below[place])].map(Math.round);
      c.fillRect(left, top, (edges[place + 1] ?? left + 1) - left, bottom - top);
    }
    return;
  }
  c.beginPath();
  c.moveTo(x(at[indexes[0]]) - alone, y(below[0]));
  for (const [place, index] of indexes.entries()) c.lineTo(x(at[index]) - alone, y(above[place]));
  for (let place = indexes.length - 1; place >= 0; place -= 1) c.lineTo(x(at[indexes[place]]) + alone, y(below[place]));
  c.closePath();
  c.fill();
}

function hatch(c, indexes, below, top, { at, dashed }, { x, y, colour }) {
  c.strokeStyle = colour;
  c.lineWidth = 1;
  c.beginPath();
  let drawnAt = -Infinity;
  for (const [place, index] of indexes.entries()) {
    const across = x(at[index]);
    if (top[place] <= below[place] || across - drawnAt < HATCH_PX) continue;
    drawnAt = across;
    c.moveTo(across, y(below[place]));
    c.lineTo(across + 3, y(top[place]));
  }
  c.stroke();
  c.setLineDash([4, 3]);
  c.beginPath();
  for (const [place, index] of indexes.entries()) {
    if (dashed[index] && dashed[index - 1]) c.lineTo(x(at[index]), y(top[place]));
    else if (dashed[index]) c.moveTo(x(at[index]), y(top[place]));
  }
  c.stroke();
  c.setLineDash([]);
}

// Longs above zero, shorts below it; hatched where a venue was not watched all the time
function drawBars(c, { bars }, { colours }, { y }, { x }) {
  for (const bar of bars) {
    const [left, right] = [x(bar.from) + 0.5, Math.max(x(bar.from) + 1.5, x(bar.to) - 0.5)];
    const sides = bar.total === null ? [[bar.long, colours.long], [-bar.short, colours.short]] : [[bar.total, colours.trace]];
    for (const [value, colour] of sides) {
      const [top, bottom] = [Math.min(y(value), y(0)), Math.max(y(value), y(0))];
      c.fillStyle = colour;
      c.fillRect(left, top, right - left, bottom - top);
      if (bar.isPartial) hatchRect(c, left, top, right, bottom, colours.ground);
    }
  }
}

function hatchRect(c, left, top, right, bottom, colour) {
  const height = bottom - top;
  c.beginPath();
  for (let from = left - height + HATCH_PX / 2; from < right; from += HATCH_PX) { // 45 degrees, from below
    c.moveTo(Math.max(from, left), bottom - Math.max(0, left - from));
    c.lineTo(Math.min(from + height, right), bottom - Math.min(height, right - from));
  }
  c.strokeStyle = colour;
  c.lineWidth = 1.5;
  c.stroke();
}

// Events close to each other share a mark with their number, so that marks never become a row.

function clustered(events, x, { left, right }) {
  const shown = events.filter(({ at }) => x(at) >= left && x(at) <= right);
  let marks = [];
  for (const distance of CLUSTER_PX) {
    marks = [];
    for (const event of shown) {
      if (marks.length > 0 && x(event.at) - marks.at(-1).from < distance) marks.at(-1).events.push(event);
      else marks.push({ from: x(event.at), events: [event] });
    }
    if (marks.length <= (right - left) / MARK_ROOM_PX) break;
  }
  return marks.map((mark) => ({ ...mark, x: (mark.from + x(mark.events.at(-1).at)) / 2 }));
}

function drawMark(c, { x, events }, top, colours) {
  const count = events.length > 1 ? String(events.length) : "";
  const half = count ? 4 + 3 * count.length : 4;
  c.fillStyle = colours.ink;
  if (count) c.fillRect(x - half, top + 1, 2 * half, 12);
  const level = top + (count ? 12 : 8);
  c.beginPath();
  c.moveTo(x - 4, level);
  c.lineTo(x + 4, level);
  c.lineTo(x, level + 6);
  c.closePath();
  c.fill();
  if (count) text(c, count, x, top + 11, colours.ground, { align: "center", size: 10, weight: 600 });
}

function drawSelected(c, [from, to], { panes }, colours) {
  c.globalAlpha = 0.2;
  c.fillStyle = colours.trace;
  c.fillRect(Math.min(from, to), panes[0].top, Math.abs(to - from), panes.at(-1).bottom - panes[0].top);
  c.globalAlpha = 1;
}

function drawCrosshair(c, { cross, colours }, { x, left, right, bottom, panes }) {
  const across = x(cross.at);
  line(c, [across, panes[0].top, across, panes.at(-1).bottom], colours.text);
  for (const { pane, y, scale } of panes) {
    for (const { value, colour } of cross.dots[pane.key] ?? []) {
      if (!scale.isKnown || !Number.isFinite(value)) continue;
      c.fillStyle = colour;
      c.fillRect(across - 3, y(value) - 3, 6, 6);
    }
  }
  const half = 58;
  const middle = Math.min(Math.max(across, left + half), right - half);
  c.fillStyle = colours.ink;
  c.fillRect(middle - half, bottom - 20, 2 * half, 18);
  text(c, moment(cross.at), middle, bottom - 7, colours.ground, { align: "center" });
}

function line(c, [fromX, fromY, toX, toY], colour) {
  const sharp = (value) => Math.round(value) + 0.5;
  c.strokeStyle = colour;
  c.lineWidth = 1;
  c.beginPath();
  c.moveTo(sharp(fromX), sharp(fromY));
  c.lineTo(sharp(toX), sharp(toY));
  c.stroke();
}

function text(c, words, x, y, colour, { align = "left", size = 11, weight = 400 }) {
  c.font = `${weight} ${size}px ${FONT}`;
  c.textAlign = align;
  c.fillStyle = colour;
  c.fillText(words, x, y);
}

// The part of a canvas context that is used above, as SVG

export class SvgContext {
  constructor(width, height, ruler) {
    Object.assign(this, { width, height, ruler, parts: [], path: [], dash: [], groups: [], clips: 0, globalAlpha: 1 });
  }

  save() { this.groups.push(0); }
  beginPath() { this.path = []; }
  closePath() { this.path.push("Z"); }
  moveTo(x, y) { this.path.push(`M${short(x)} ${short(y)}`); }
  lineTo(x, y) { this.path.push(`${this.path.length ? "L" : "M"}${short(x)} ${short(y)}`); }
  rect(x, y, width, height) { this.path.push(`M${short(x)} ${short(y)}h${short(width)}v${short(height)}h${short(-width)}Z`); }
  setLineDash(dash) { this.dash = dash; }
  fill() { this.add("path", { d: this.path.join(""), fill: this.fillStyle, ...this.opacity() }); }
  opacity() { return this.globalAlpha < 1 ? { opacity: this.globalAlpha } : {}; }

  stroke() {
    if (this.path.length === 0) return;
    const dash = this.dash.length ? { "stroke-dasharray": this.dash.join(" ") } : {};
    this.add("path", { d: this.path.join(""), fill: "none", stroke: this.strokeStyle, "stroke-width": this.lineWidth, "stroke-linejoin": "round", ...dash });
  }

  fillRect(x, y, width, height) {
    this.add("rect", { x: short(x), y: short(y), width: short(width), height: short(height), fill: this.fillStyle, ...this.opacity() });
  }

  fillText(words, x, y) {
    const [, weight, size] = /^(\d+) ([\d.]+)px/.exec(this.font);
    const anchor = { left: "start", center: "middle", right: "end" }[this.textAlign];
    this.add("text", { x: short(x), y: short(y), fill: this.fillStyle, "font-family": FONT, "font-size": size, "font-weight": weight, "text-anchor": anchor }, words);
  }

  measureText(words) {
    this.ruler.font = this.font;
    return this.ruler.measureText(words);
  }

  clip() {
    const id = `clip-${(this.clips += 1)}`;
    this.parts.push(`<clipPath id="${id}"><path d="${this.path.join("")}"/></clipPath><g clip-path="url(#${id})">`);
    this.groups.push(this.groups.pop() + 1);
  }

  restore() { this.parts.push("</g>".repeat(this.groups.pop())); }

  add(name, members, words = null) {
    const written = Object.entries(members).map(([key, value]) => ` ${key}="${escaped(value)}"`).join("");
    this.parts.push(words === null ? `<${name}${written}/>` : `<${name}${written}>${escaped(words)}</${name}>`);
  }

  toString() {
    const size = `width="${this.width}" height="${this.height}" viewBox="0 0 ${this.width} ${this.height}"`;
    return `<svg xmlns="http://www.w3.org/2000/svg" ${size}>${this.parts.join("")}</svg>\n`;
  }
}

function short(number) {
  return Number(number.toFixed(2));
}

function escaped(value) {
  return String(value).replace(/[&<>"]/g, (sign) => `&#${sign.charCodeAt(0)};`);
}
