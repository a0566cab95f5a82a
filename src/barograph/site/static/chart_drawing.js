// Draws the large chart of a coin page, on a canvas or as SVG: both get the same calls. What is drawn
// comes from chart.js; nothing here loads data or listens to the visitor.

export const MINUTE = 60_000;
export const HOUR = 60 * MINUTE;
export const DAY = 24 * HOUR;
const TIME_STEPS = [...[1, 2, 5, 10, 15, 30].map((count) => count * MINUTE), ...[1, 3, 6, 12].map((count) => count * HOUR),
  ...[1, 2, 7, 14, 28, 56, 91, 182, 364].map((count) => count * DAY)];
const HEIGHTS = { events: 20, times: 24, title: 18, gap: 12, note: 14, head: 44 };
const CLUSTER_PX = [12, 24, 48]; // closer events share a mark; the wider ones if there would be a row of marks
const NOTE_PX = 10;
const FONT = 'ui-sans-serif, system-ui, -apple-system, "Segoe UI", Roboto, "Noto Sans", sans-serif';
const UNITS = [["T", 1e12], ["B", 1e9], ["M", 1e6], ["k", 1e3]];

// Numbers as the site writes them, never with an exponent

export function percent(value, decimals = 2) {
  const text = value.toFixed(decimals);
  return `${Number(text) === 0 ? text.replace("-", "") : value > 0 ? `+${text}` : text} %`;
}

export const rate = (value) => percent(value, 4);
export const moment = (at) => `${new Date(at).toISOString().slice(0, 16).replace("T", " ")} UTC`;

export function usd(value, decimals = 2) {
  const [letter, unit] = UNITS.find(([, least]) => Math.abs(value) >= least * 0.99995) ?? ["", 1];
  return `${value < 0 ? "-" : ""}$${(Math.abs(value) / unit).toFixed(unit === 1 ? 0 : decimals)}${letter}`;
}

// With as many decimals as a step has; without one, six digits
export function price(value, step = Math.abs(value) >= 1 ? 0.01 : Math.abs(value) / 1e5) {
  const decimals = Math.min(12, Math.max(0, Math.ceil(-Math.log10(step || 1) - 1e-9)));
  return value.toLocaleString("en", { minimumFractionDigits: decimals, maximumFractionDigits: decimals });
}

// The first place in a sorted list that is not before what is wanted
export function lowerBound(list, wanted, of = (item) => item) {
  let [low, high] = [0, list.length];
  while (low < high) {
    const middle = (low + high) >> 1;
    if (of(list[middle]) < wanted) low = middle + 1;
    else high = middle;
  }
  return low;
}

// Points become at most one column per pixel, with the lowest, highest and last value of each channel. Columns
// begin at multiples of their length, so panning only moves them. Lines bridge at most the time `bridged`.
export function prepare(points, columnMs, bridged, channels, isDashed) {
  const columns = { at: [], gap: [], dashed: [], channels: channels.map(() => ({ low: [], high: [], last: [] })) };
  let [key, index, before] = [NaN, -1, -Infinity];
  const known = points.filter(({ value }) => value !== null);
  for (const point of known) {
    const column = Math.floor(point.at / columnMs);
    if (column !== key) {
      [key, index] = [column, index + 1];
      columns.at.push(point.at);
      columns.gap.push(point.at - before > bridged);
      columns.dashed.push(false);
    }
    before = point.at;
    if (isDashed(point)) columns.dashed[index] = true;
    for (let number = 0; number < channels.length; number += 1) add(columns.channels[number], index, channels[number](point));
  }
  return { ...columns, isDense: known.length > 1.2 * columns.at.length };
}

function add({ low, high, last }, index, value) {
  if (low.length === index) for (const list of [low, high, last]) list.push(NaN);
  if (!Number.isFinite(value)) return;
  if (!(low[index] <= value)) low[index] = value; // also if it is not a number
  if (!(high[index] >= value)) high[index] = value;
  last[index] = value;
}

// The columns from one before a period to one after it, so that lines reach both edges
const visible = ({ at }, { from, to }) => [Math.max(0, lowerBound(at, from) - 1), Math.min(at.length, lowerBound(at, to) + 2)];

// The chart: events above, panes below each other, and the times

const isNarrow = (width) => width < 560;
export const axisWidth = (width) => (isNarrow(width) ? 68 : 76);

export function drawChart(c, chart) {
  const { width, height, view, colours, head, notes = [] } = chart;
  const box = { left: 1, right: width - axisWidth(width), top: head ? HEIGHTS.head : 0, bottom: height - HEIGHTS.note * notes.length - (head ? 6 : 0) };
  const x = (at) => box.left + ((at - view.from) / (view.to - view.from)) * (box.right - box.left);
  const layout = { ...box, x, isNarrow: isNarrow(width), marks: cluster(chart.events, x, box), panes: layOut(chart.panes, box) };
  fill(c, colours.ground, 0, 0, width, height);
  if (head) drawHead(c, chart);
  drawTimes(c, chart, layout);
  for (const place of layout.panes) drawPane(c, chart, place, layout);
  for (const mark of layout.marks) drawMark(c, mark, box.top, colours);
  if (chart.selected) drawSelected(c, chart.selected, layout, colours);
  if (chart.cross) drawCrosshair(c, chart, layout);
  for (const [index, note] of notes.entries()) text(c, note, box.left, box.bottom + HEIGHTS.note * (index + 1), colours.quiet, { size: NOTE_PX });
  return layout;
}

// Words in lines that fit a width
export function wrapped(c, words, width) {
  c.font = `400 ${NOTE_PX}px ${FONT}`;
  const lines = [];
  for (const word of words.split(" ")) {
    const longer = `${lines.at(-1) ?? ""} ${word}`.trim();
    if (lines.length > 0 && c.measureText(longer).width < width - 2) lines[lines.length - 1] = longer;
    else lines.push(word);
  }
  return lines;
}

// On whole pixels, which are drawn faster
function layOut(panes, { top: start, bottom }) {
  const room = bottom - start - HEIGHTS.events - HEIGHTS.times - HEIGHTS.gap * (panes.length - 1);
  const shares = panes.reduce((sum, { share }) => sum + share, 0);
  let end = start + HEIGHTS.events - HEIGHTS.gap;
  return panes.map((pane) => {
    const top = end + HEIGHTS.gap;
    end = top + (room * pane.share) / shares;
    return { pane, top: Math.round(top + HEIGHTS.title), bottom: Math.round(end) };
  });
}

function drawHead(c, { head, legend, colours }) {
  text(c, head, 1, 16, colours.text, { size: 13, weight: 600 });
  let left = 1;
  for (const { title, colour } of legend) {
    fill(c, colour, left, 26, 9, 9);
    text(c, title, left + 13, 35, colours.quiet);
    left += 26 + c.measureText(title).width;
  }
}

function drawTimes(c, { view, colours }, { x, left, right, bottom, panes, isNarrow: isSmall }) {
  const most = Math.ceil((right - left) / (isSmall ? 48 : 84));
  const step = TIME_STEPS.find((length) => (view.to - view.from) / length <= most) ?? 2 * TIME_STEPS.at(-1);
  for (let at = Math.ceil(view.from / step) * step; at <= view.to; at += step) {
    for (const place of panes) line(c, [x(at), place.top, x(at), place.bottom], colours.grid);
    if (x(at) > left + 22 && x(at) < right - 22) text(c, timeLabel(at, step), x(at), bottom - 7, colours.quiet, { align: "center" });
  }
  text(c, "UTC", right + 8, bottom - 7, colours.quiet);
}

function timeLabel(at, step) {
  const when = new Date(at).toUTCString(); // Thu, 19 Nov 2026 10:49:00 GMT
  if (step < DAY && at % DAY !== 0) return when.slice(17, 22);
  return step > 90 * DAY ? when.slice(8, 16) : `${Number(when.slice(5, 7))} ${when.slice(8, 11)}`;
}

function drawPane(c, { view, colours, isLoading }, place, { left, right, x, isNarrow: isSmall }) {
  const { pane, top, bottom } = place;
  const { low, high, marks, step, isKnown } = (place.scale = scaleOf(pane, view, bottom - top));
  place.y = (value) => bottom - ((value - low) / (high - low)) * (bottom - top);
  for (const mark of marks) {
    line(c, [left, place.y(mark), right, place.y(mark)], mark === 0 && pane.hasZero ? colours.edge : colours.grid);
    text(c, pane.label(mark, step), right + 8, place.y(mark) + 4, colours.quiet);
  }
  text(c, isSmall ? pane.short ?? pane.title : pane.title, left, top - 6, colours.text, { weight: 600 });
  c.save();
  c.beginPath();
  c.rect(left, top - 1, right - left, bottom - top + 2);
  c.clip();
  for (const shape of pane.drawn) KINDS[shape.kind].draw(c, shape, { view, colours, right, x, y: place.y });
  c.restore();
  if (!isKnown && !isLoading) text(c, "Nothing recorded for this period", (left + right) / 2, (top + bottom) / 2, colours.quiet, { align: "center" });
}

// From the lowest to the highest value in view, with round marks inside
function scaleOf({ drawn, hasZero }, view, height) {
  const ranges = drawn.map((shape) => KINDS[shape.kind].range(shape, view)).filter(([least, most]) => least <= most);
  if (ranges.length === 0) return { low: 0, high: 1, marks: [], step: 1, isKnown: false };
  let [low, high] = [Math.min(...ranges.flat(), hasZero ? 0 : Infinity), Math.max(...ranges.flat(), hasZero ? 0 : -Infinity)];
  const room = (high - low) * 0.06 || Math.abs(high) * 0.01 || 1;
  [low, high] = [hasZero && low === 0 ? 0 : low - room, hasZero && high === 0 ? 0 : high + room];
  const least = (high - low) / Math.max(3, Math.floor(height / (height < 120 ? 20 : 34)));
  const ends = (round) => [Math.ceil(low / round - 1e-9), Math.floor(high / round + 1e-9)];
  const rounds = [0.5, 1, 2, 5, 10].map((count) => count * 10 ** Math.floor(Math.log10(least)));
  const widest = rounds.findIndex((round) => round >= least * (1 - 1e-9));
  const step = rounds.slice(0, widest + 1).findLast((round) => ends(round)[1] > ends(round)[0]); // one mark is no scale
  const [first, last] = ends(step);
  return { low, high, step, isKnown: true, marks: Array.from({ length: last - first + 1 }, (_, index) => (first + index) * step || 0) };
}

// Shapes: lines, stacks and bars. A kind knows the range of its values and how to draw them.

const KINDS = {
  line: { range: lineRange, draw: drawLine },
  stack: { range: (shape, view) => [0, lineRange({ ...shape, channel: 0 }, view)[1]], draw: drawStack },
  bars: { range: ({ bars }) => [Math.min(0, ...bars.map(({ short }) => -short)), Math.max(...bars.map(({ long, total }) => total ?? long))], draw: drawBars },
};

function lineRange({ columns, channel, value = (known) => known }, view) {
  let [least, most] = [Infinity, -Infinity];
  const { low, high } = columns.channels[channel];
  const [begin, end] = visible(columns, view);
  for (let index = begin; index < end; index += 1) {
    if (low[index] < least) least = low[index];
    if (high[index] > most) most = high[index];
  }
  return least > most ? [least, most] : [value(least), value(most)];
}

function drawLine(c, { columns, channel, colour, name, width = 1.5, value = (known) => known }, { view, right, x, y }) {
  const values = columns.channels[channel];
  const height = (known) => y(value(known));
  if (columns.isDense) drawDense(c, columns, values, { view, colour, x, height });
  else for (const isDashed of [false, true]) {
    c.beginPath();
    trace(c, columns, values, isDashed, { view, x, height });
    stroke(c, colour, width, isDashed);
  }
  const last = name ? values.last[Math.min(values.last.length, lowerBound(columns.at, view.to)) - 1] : NaN;
  if (Number.isFinite(last)) text(c, name, right - 4, height(last) - 6, colour, { align: "right", weight: 600 });
}

// Segments that are all dashed or all solid; a value without neighbours becomes a dot.
function trace(c, columns, { last }, wanted, { view, x, height }) {
  const { at, gap, dashed } = columns;
  const [begin, end] = visible(columns, view);
  const isLinked = (index) => index > begin && index < end && !gap[index] && Number.isFinite(last[index] + last[index - 1]);
  for (let index = begin; index < end; index += 1) {
    if (Number.isNaN(last[index]) || dashed[index] !== wanted) continue;
    const isDot = !isLinked(index) && !isLinked(index + 1);
    if (isLinked(index) && dashed[index - 1] !== wanted) c.moveTo(x(at[index - 1]), height(last[index - 1]));
    if (isLinked(index)) c.lineTo(x(at[index]), height(last[index]));
    else c.moveTo(x(at[index]) - (isDot ? 1.5 : 0), height(last[index]));
    if (isDot) c.lineTo(x(at[index]) + 1.5, height(last[index]));
  }
}

// With several points per pixel, one rectangle per column: browsers draw a long jagged line slowly.
function drawDense(c, columns, { low, high, last }, { view, colour, x, height }) {
  const [begin, end] = visible(columns, view);
  for (let index = begin; index < end; index += 1) {
    if (Number.isNaN(last[index]) || (columns.dashed[index] && index % 7 > 3)) continue;
    const before = columns.gap[index] || index === begin || Number.isNaN(last[index - 1]) ? last[index] : last[index - 1];
    const [top, bottom] = [Math.max(high[index], before), Math.min(low[index], before)].map((value) => Math.round(height(value)));
    fill(c, colour, Math.round(x(columns.at[index])), top, 1, Math.max(1, bottom - top));
  }
}

// One area per venue, hatched where it is missing and had this last. Partial sums have a dashed edge.
// The channels are the sum, the venues, and what missing venues last had.
function drawStack(c, { columns, venues }, { view, colours, x, y }) {
  const { at, channels, dashed } = columns;
  for (const indexes of connected(columns, view)) {
    const across = indexes.map((index) => x(at[index]));
    const heights = indexes.map(() => 0);
    let below = indexes.map(() => y(0));
    for (const [number, colour] of venues.entries()) {
      const above = indexes.map((index, place) => y((heights[place] += channels[1 + number].last[index] || 0)));
      c.globalAlpha = 0.75;
      c.fillStyle = colour;
      fillArea(c, across, below, above);
      c.globalAlpha = 1;
      for (const [place, index] of indexes.entries()) { // in each fifth pixel
        if (!(channels[1 + venues.length + number].last[index] > 0) || across[place] % 5 > across[place - 1] % 5) continue;
        fill(c, colours.ground, Math.round(across[place]), above[place], 1, below[place] - above[place]);
      }
      below = above;
    }
    c.beginPath();
    for (const [place, index] of indexes.entries()) {
      if (dashed[index]) c[dashed[index - 1] && place > 0 ? "lineTo" : "moveTo"](across[place], below[place]);
    }
    stroke(c, colours.text, 1, true);
  }
}

// The indexes of neighbouring columns in which a venue is known
function connected(columns, view) {
  const [begin, end] = visible(columns, view);
  const runs = [];
  for (let index = begin; index < end; index += 1) {
    if (Number.isNaN(columns.channels[0].last[index])) continue;
    if (runs.at(-1)?.at(-1) === index - 1 && !columns.gap[index]) runs.at(-1).push(index);
    else runs.push([index]);
  }
  return runs;
}

function fillArea(c, across, below, above) {
  if (across.length === 1) return fillArea(c, [across[0] - 1.5, across[0] + 1.5], [below[0], below[0]], [above[0], above[0]]);
  c.beginPath();
  for (const [place, left] of across.entries()) c.lineTo(left, above[place]);
  for (let place = across.length - 1; place >= 0; place -= 1) c.lineTo(across[place], below[place]);
  c.closePath();
  c.fill();
}

// Longs above zero, shorts below it; hatched where a venue was not watched all the time
function drawBars(c, { bars }, { colours, x, y }) {
  for (const { from, to, long, short, total, isPartial } of bars) {
    const left = Math.round(x(from)) + 1;
    const right = Math.max(left + 1, Math.round(x(to)));
    const sides = total === null ? [[long, colours.long], [-short, colours.short]] : [[total, colours.trace]];
    for (const [value, colour] of sides) {
      const [top, bottom] = [Math.min(y(value), y(0)), Math.max(y(value), y(0))];
      fill(c, colour, left, top, right - left, bottom - top);
      if (isPartial) for (let level = bottom - 3; level > top; level -= 5) fill(c, colours.ground, left, level, right - left, 1);
    }
  }
}

// Events close to each other share a mark with their number, so that marks never become a row.
function cluster(events, x, { left, right }) {
  const places = events.map((event) => [x(event.at), event]).filter(([at]) => at >= left && at <= right);
  let marks = [];
  for (const distance of CLUSTER_PX) {
    marks = [];
    for (const [at, event] of places) {
      const mark = marks.at(-1);
      if (at - mark?.to < distance && at - mark.from < 3 * distance) Object.assign(mark, { to: at, events: [...mark.events, event] });
      else marks.push({ from: at, to: at, events: [event] });
    }
    if (marks.length <= (right - left) / 36) break;
  }
  return marks.map((mark) => ({ ...mark, x: (mark.from + mark.to) / 2 }));
}

function drawMark(c, { x, events }, top, colours) {
  const count = events.length > 1 ? String(events.length) : "";
  const half = 4 + 3 * count.length;
  const level = top + (count ? 12 : 8);
  if (count) fill(c, colours.ink, x - half, top + 1, 2 * half, 12);
  c.fillStyle = colours.ink;
  fillArea(c, [x - 4, x, x + 4], [level, level, level], [level, level + 6, level]);
  text(c, count, x, top + 11, colours.ground, { align: "center", size: 10, weight: 600 });
}

function drawSelected(c, [from, to], { panes }, colours) {
  c.globalAlpha = 0.2;
  fill(c, colours.trace, Math.min(from, to), panes[0].top, Math.abs(to - from), panes.at(-1).bottom - panes[0].top);
  c.globalAlpha = 1;
}

function drawCrosshair(c, { cross, colours }, { x, left, right, bottom, panes }) {
  const across = x(cross.at);
  line(c, [across, panes[0].top, across, panes.at(-1).bottom], colours.text);
  for (const { pane, y, scale } of panes) {
    for (const { value, colour } of cross.dots[pane.key] ?? []) {
      if (scale.isKnown && Number.isFinite(value)) fill(c, colour, across - 3, y(value) - 3, 6, 6);
    }
  }
  c.font = `400 11px ${FONT}`;
  const half = c.measureText(moment(cross.at)).width / 2 + 6;
  const middle = Math.min(Math.max(across, left + half), right - half);
  fill(c, colours.ink, middle - half, bottom - 20, 2 * half, 18);
  text(c, moment(cross.at), middle, bottom - 7, colours.ground, { align: "center" });
}

function line(c, places, colour) {
  const [fromX, fromY, toX, toY] = places.map((value) => Math.round(value) + 0.5);
  c.beginPath();
  c.moveTo(fromX, fromY);
  c.lineTo(toX, toY);
  stroke(c, colour, 1);
}

function fill(c, colour, ...rectangle) {
  c.fillStyle = colour;
  c.fillRect(...rectangle);
}

function stroke(c, colour, width, isDashed = false) {
  Object.assign(c, { strokeStyle: colour, lineWidth: width });
  c.setLineDash(isDashed ? [4, 3] : []);
  c.stroke();
}

function text(c, words, x, y, colour, { align = "left", size = 11, weight = 400 } = {}) {
  Object.assign(c, { font: `${weight} ${size}px ${FONT}`, textAlign: align, fillStyle: colour });
  c.fillText(words, x, y);
}
