// The large chart of a coin page: loads recorded series as the view needs them, and lets the visitor
// pan, zoom, compare, link and download. chart_drawing.js draws. The page is complete without it.

const tool = document.getElementById("chart-tool");
const { SvgContext, axisWidth, drawChart, lowerBound, moment, percent, prepare, price, rate, usd } = await import(tool.dataset.drawing);

const MINUTE = 60_000;
const HOUR = 60 * MINUTE;
const DAY = 24 * HOUR;
const RANGES = { "1h": HOUR, "6h": 6 * HOUR, "1d": DAY, "7d": 7 * DAY, "30d": 30 * DAY, "90d": 90 * DAY, all: Infinity };
const INTERVALS = { [MINUTE]: "minute", [HOUR]: "hour", [4 * HOUR]: "4h", [DAY]: "day" };
const KEPT = { minute: 30 * DAY, liquidations: 90 * DAY, hour: 730 * DAY };
const LOAD_MS = 120; // a view that lasts this long is loaded
const ADDRESS_MS = 300;
const LATE_MS = 20_000;
const BRIDGED_MS = 5.5 * MINUTE; // a reading counts for 5 minutes
const BAR_PX = 4;
const STEP_PX = 3; // from this distance of points on, bars of the venues' prices are legible
const EDGE = 0.02; // empty part of the view after the newest point
const KEYS = Object.keys(RANGES);

const { coin, symbol, venue, root, source } = tool.dataset;
const venues = JSON.parse(tool.dataset.venues);
const inside = venue === "all" ? venues : venues.filter(({ name }) => name === venue);
const indexes = new Map(inside.map(({ name }, index) => [name, index]));
const titles = Object.fromEntries(venues.map(({ name, title }) => [name, title]));
const canvas = tool.querySelector("canvas");
const field = tool.querySelector("input");
const [readout, state, note] = [".chart-readout", ".chart-state", ".chart-why"].map((each) => tool.querySelector(each));

let ahead = 0; // of the server's clock
let edge = Date.now(); // the newest time that was asked for
let view = { range: "7d", span: RANGES["7d"], end: null }; // an end of null follows the newest point
let compared = null; // { text, symbol, venue }
let cross = null; // the instant under the crosshair
let isPinned = false;
let selected = null;
let events = { since: Infinity, list: [] };
let colours = {};
let layout = null;
let request = new AbortController();
const timers = {};
const kept = new Map(); // series by measure, symbol, venue and step

const first = () => Number(tool.dataset.first) || edge - 60 * DAY;
const last = () => Number(tool.dataset.last) || edge;
const clamp = (value, low, high) => Math.min(high, Math.max(low, value));

// The view

function period() {
  const span = Math.min(view.span, longest());
  const to = view.end ?? last() + span * EDGE;
  return { from: to - span, to };
}

function longest() {
  return Math.max(DAY, (last() - first()) * (1 + 2 * EDGE));
}

function look(from, span, range = "") {
  const length = clamp(span, tool.dataset.minutes ? HOUR / 2 : 6 * HOUR, longest());
  const to = clamp(from + length, first() + length / 2, last() + length * EDGE);
  view = { range, span: range === "all" ? Infinity : length, end: to >= last() ? null : to };
  changed();
}

function zoom(factor, anchor) {
  const { from, to } = period();
  const span = clamp((to - from) * factor, tool.dataset.minutes ? HOUR / 2 : 6 * HOUR, longest());
  look(anchor - ((anchor - from) * span) / (to - from), span);
}

function pan(share) {
  const { from, to } = period();
  look(from + share * (to - from), to - from);
}

function choose(range) {
  view = { range, span: RANGES[range], end: null };
  changed();
}

function changed() {
  for (const button of tool.querySelectorAll("[data-range]")) button.ariaPressed = String(button.dataset.range === view.range);
  later("load", LOAD_MS, load);
  later("address", ADDRESS_MS, writeAddress);
  redraw();
}

function later(name, after, work) {
  clearTimeout(timers[name]);
  timers[name] = setTimeout(work, after);
}

// The address: #chart=7d, or #chart=2026-11-01T00:00Z_2026-11-03T00:00Z&compare=ETH

function writeAddress() {
  const { from, to } = period();
  const short = (at) => `${new Date(at).toISOString().slice(0, 16)}Z`;
  const span = view.range || (view.end === null ? `${Math.round(view.span / MINUTE)}m` : `${short(from)}_${short(to)}`);
  const more = `${compared ? `&compare=${encodeURIComponent(compared.text)}` : ""}${showsVenues() ? "&venues=1" : ""}`;
  history.replaceState(history.state, "", `#chart=${span}${more}`);
  for (const link of document.querySelectorAll("a[rel=prev], a[rel=next], [aria-label=Venues] a")) link.hash = `chart=${span}${more}`;
}

function readAddress() {
  const asked = new URLSearchParams(location.hash.slice(1));
  const span = asked.get("chart");
  if (span === null) return false;
  const [from, to] = span.split("_").map(Date.parse);
  if (span in RANGES) view = { range: span, span: RANGES[span], end: null };
  else if (/^\d+m$/.test(span)) view = { range: "", span: Math.max(HOUR / 2, Number.parseInt(span) * MINUTE), end: null };
  else if (to > from) view = { range: "", span: to - from, end: to };
  field.value = asked.get("compare") ?? "";
  compared = comparison(field.value);
  tool.querySelector("[data-shows]").ariaPressed = String(asked.get("venues") === "1");
  return true;
}

// Series, as far as they are loaded

class Series {
  constructor(measure, of, at, step) {
    Object.assign(this, { measure, of, at, step, points: [], covered: [], version: 0, prepared: null });
  }

  address(from, to) {
    const end = to < last() ? `&to=${new Date(to).toISOString()}` : "";
    const query = `symbol=${encodeURIComponent(this.of)}&venue=${this.at}&interval=${INTERVALS[this.step]}`;
    return `${root}/api/v1/series/${this.measure}?${query}&from=${new Date(from).toISOString()}${end}&limit=5000`;
  }

  // What of a period is not loaded, from the first to the last such instant
  missing(from, to) {
    const days = this.measure === "liquidations" ? KEPT.liquidations : KEPT[INTERVALS[this.step]] ?? KEPT.hour;
    let [start, end] = [Math.max(from, edge - days + 2 * HOUR), Math.min(to, last())];
    start = Math.floor(start / this.step) * this.step;
    for (const [begin, until] of this.covered) if (begin <= start && start < until) start = until;
    for (const [begin, until] of this.covered.toReversed()) if (begin < end && end <= until) end = begin;
    return start < end ? [start, end] : null;
  }

  add(points, from, to) {
    for (const point of points) decode(point, this.at);
    const after = this.index(Math.max(to, (points.at(-1)?.at ?? 0) + 1));
    this.points = this.points.slice(0, this.index(from)).concat(points, this.points.slice(after));
    this.covered = joined([...this.covered, [from, to]]);
    this.version += 1;
  }

  // Forget what may have changed since.
  reopen(at) {
    const open = Math.floor(at / this.step) * this.step;
    this.covered = this.covered.map(([from, to]) => [from, Math.min(to, open)]).filter(([from, to]) => from < to);
  }

  within({ from, to }) {
    return this.points.slice(this.index(from), this.index(to + 1));
  }

  has({ from, to }) {
    return this.index(from) < this.index(to + 1);
  }

  index(wanted) {
    return lowerBound(this.points, wanted, (each) => each.at);
  }

  nearest(wanted) {
    const index = this.index(wanted);
    const [before, after] = [this.points[index - 1], this.points[index]];
    const found = !after || (before && wanted - before.at < after.at - wanted) ? before : after;
    return found && Math.abs(found.at - wanted) <= this.step ? found : null;
  }
}

function joined(spans) {
  const list = spans.sort(([one], [other]) => one - other);
  const found = [];
  for (const [from, to] of list) {
    if (found.length > 0 && from <= found.at(-1)[1]) found.at(-1)[1] = Math.max(found.at(-1)[1], to);
    else found.push([from, to]);
  }
  return found;
}

// A point of one venue gets the members of one of all venues.
function decode(point, at) {
  point.at = Date.parse(point.at);
  point.by = inside.map(() => NaN);
  if (at !== "all") {
    const reason = point.disputed && !("long_usd" in point) ? "disputed" : point.value === null ? "no value" : "";
    if (reason) point.value = null;
    [point.venues, point.by_venue] = reason ? [[], []] : [[at], [point.value]];
    point.missing = reason ? [{ venue: at, reason, last: null }] : [];
  }
  for (const [place, name] of point.venues.entries()) point.by[indexes.get(name)] = point.by_venue[place];
  point.last = point.missing.reduce((sum, each) => sum + (each.last ?? 0), 0);
}

function seriesOf(measure, step, of = symbol, at = venue) {
  const key = `${measure} ${of} ${at} ${step}`;
  if (!kept.has(key)) kept.set(key, new Series(measure, of, at, step));
  return kept.get(key);
}

function stepsFor(measure) {
  const { from, to } = period();
  const hasMinutes = tool.dataset.minutes && measure !== "liquidations" && from > edge - KEPT.minute;
  if (to - from <= 26 * HOUR && hasMinutes) return [MINUTE, HOUR];
  return to - from <= 14 * DAY ? [HOUR] : to - from <= 200 * DAY ? [4 * HOUR] : [DAY];
}

// The series for the view: minutes only where there are enough of them, and of most venues.
function wanted(measure, of, at) {
  const [step, coarser] = stepsFor(measure);
  const found = seriesOf(measure, step, of, at);
  return coarser && isSparse(found) ? seriesOf(measure, coarser, of, at) : found;
}

function isSparse(series) {
  const { from, to } = period();
  if (series.missing(from, to) !== null) return false;
  const isKnown = ({ value, missing, venues: known }) => value !== null && missing.length <= known.length;
  return series.within({ from, to }).filter(isKnown).length < (4 * (Math.min(to, last()) - from)) / HOUR;
}

// What is drawn: until the series for the view is there, one with other steps.
function shown(measure, of = symbol, at = venue) {
  const now = period();
  const best = wanted(measure, of, at);
  const others = [...kept.values()].filter((each) => each.measure === measure && each.of === of && each.at === at);
  return [best, ...others.sort((one, other) => one.step - other.step)].find((each) => each.has(now)) ?? best;
}

function needed() {
  const found = MEASURES.filter(({ isPublished }) => isPublished).map(({ key }) => wanted(key, symbol, venue));
  if (compared) found.push(wanted("price", compared.symbol, compared.venue));
  return found;
}

// Loading: a newer view ends the requests of an older one.

async function load() {
  request.abort();
  const mine = (request = new AbortController());
  const { from, to } = period();
  try {
    for (let again = true; again; ) { // minutes may turn out to be sparse
      const open = needed().map((series) => [series, series.missing(from, to)]).filter(([, span]) => span !== null);
      again = open.length > 0;
      if (again) say("Loading…");
      await Promise.all([...open.map(([series, span]) => loadSeries(series, span, mine.signal)), loadEvents(from, mine.signal)]);
    }
    say("");
  } catch (problem) {
    if (request === mine && problem.name !== "AbortError") fail(problem);
    else return;
  }
  redraw();
}

async function loadSeries(series, [from, to], signal) {
  let address = series.address(from, to);
  for (let begin = from; address !== null; ) {
    const { points, next } = await get(address, signal, { points: [], next: null });
    const end = next === null ? to : Date.parse(points.at(-1).at) + series.step;
    series.add(points, begin, end);
    [begin, address] = [end, next === null ? null : local(next)];
    redraw();
  }
}

async function loadEvents(from, signal) {
  if (from >= events.since) return;
  const since = Math.min(from, edge - 90 * DAY);
  const about = tool.dataset.listed ? `&symbol=${encodeURIComponent(tool.dataset.listed)}` : ""; // others are unknown there
  const query = `type=regime.changed,brief.published${about}&limit=1000&since=${new Date(since).toISOString()}`;
  const list = [];
  for (let address = `${root}/api/v1/events?${query}`; address !== null; ) {
    const page = await get(address, signal, { events: [], next: null });
    list.push(...page.events.filter(isAbout));
    address = page.next === null ? null : local(page.next);
  }
  const written = new Set(list.filter(({ slug }) => slug).map(({ at }) => at));
  const marked = list.filter(({ slug, at }) => slug || !written.has(at));
  events = { since, list: marked.map((each) => ({ ...each, at: Date.parse(each.at) })) };
}

function isAbout({ type, symbol: of, symbols, venue: at }) {
  if (type === "regime.changed") return of === coin && at === (venue === "all" ? venues[0].name : venue);
  return symbols.some((each) => [coin, symbol, tool.dataset.listed].includes(each));
}

function local(address) {
  const { pathname, search } = new URL(address);
  return pathname + search;
}

// An unknown symbol has no points, which is no error.
async function get(address, signal, nothing) {
  const answer = await fetch(address, { signal: AbortSignal.any([signal, AbortSignal.timeout(LATE_MS)]) });
  const off = Date.parse(answer.headers.get("Date")) - Date.now();
  if (Math.abs(off - ahead) > 2_000) ahead = Math.abs(off) < 2_000 ? 0 : off;
  if (answer.status === 404) return nothing;
  const body = await answer.json().catch(() => ({}));
  if (!answer.ok) throw Object.assign(new Error(body.error ?? `status ${answer.status}`), { wait: Number(answer.headers.get("Retry-After")) });
  performance.mark("chart-data"); // for the benchmark
  return body;
}

function say(text) {
  state.hidden = text === "";
  state.replaceChildren(text);
}

function fail({ message, name, wait = 0 }) {
  const why = name === "TimeoutError" ? "the server did not answer in time" : name === "TypeError" ? "no connection" : message;
  say(`The data could not be loaded: ${why.replace(/\.$/, "")}. `);
  const button = Object.assign(document.createElement("button"), { type: "button", className: "copy", textContent: wait ? `Retry in ${wait} s` : "Retry" });
  button.disabled = wait > 0;
  button.addEventListener("click", load);
  state.append(button);
  if (wait) later("load", wait * 1_000, load);
}

// While the newest point is in view, it is renewed at most once a minute.
function renew() {
  const now = Date.now() + ahead;
  if (view.end !== null || tool.dataset.last || now - edge < MINUTE) return;
  for (const series of kept.values()) series.reopen(edge);
  edge = now;
  events.since = Infinity;
  later("load", 0, load);
}

// Panes

const isPartial = (point) => point.missing.length > 0 || point.origin === "backfilled";
const MEASURES = [
  { key: "price", share: 4, isPublished: true, channels: [(each) => each.value, (each) => each.low, (each) => each.high], isDashed: ({ origin }) => origin === "backfilled" },
  { key: "open-interest", share: 2.2, isPublished: true, channels: [...inside.map((_, index) => ({ by }) => by[index]), (each) => each.last], isDashed: isPartial },
  { key: "funding", share: 1.8, isPublished: true, channels: [(each) => each.value, ...inside.map((_, index) => ({ by }) => by[index])], isDashed: isPartial },
  { key: "liquidations", share: 1.5, isPublished: inside.some(({ liquidations }) => liquidations !== "none"), channels: [], isDashed: isPartial },
];

function columnsOf(series) {
  const { from, to } = period();
  const columnMs = (to - from) / Math.max(1, canvas.clientWidth - axisWidth(canvas.clientWidth));
  const { prepared, version, step, points } = series;
  if (prepared?.version === version && Math.abs(prepared.columnMs / columnMs - 1) < 1e-9) return prepared.columns;
  const { channels, isDashed } = MEASURES.find(({ key }) => key === series.measure);
  series.prepared = { version, columnMs, columns: prepare(points, columnMs, Math.max(1.5 * step, BRIDGED_MS), channels, isDashed) };
  return series.prepared.columns;
}

function panes() {
  return MEASURES.filter(({ key }) => key !== "liquidations" || liquidationsMissing() === "").map(({ key, share }) => ({ key, share, nothing: "Nothing is recorded of this time", ...PANES[key]() }));
}

const PANES = {
  price: () => {
    const columns = columnsOf(shown("price"));
    const bars = showsVenues() && columns.at.length > 1 && canvas.clientWidth / shown("price").within(period()).length > STEP_PX;
    const drawn = bars ? [{ kind: "range", columns, channel: 1, colour: colours.trace }] : [{ kind: "line", columns, channel: 0, colour: colours.trace }];
    const kind = venue === "all" ? "Price at the venue with the largest open interest" : `Price at ${titles[venue]}`;
    if (!compared) return { title: `${kind}${bars ? ", lowest to highest venue" : ""}`, short: bars ? "Price, lowest to highest venue" : "Price", drawn, label: price };
    const other = shown("price", compared.symbol, compared.venue);
    const lines = [[shown("price"), colours.trace, coin], [other, colours.text, compared.text]].map(([series, colour, name]) => ({ kind: "line", columns: columnsOf(series), channel: 0, colour, name, value: change(series) }));
    return { title: "Change of price from the left edge", short: "Change of price from the left edge", drawn: lines, label: (value, step) => percent(value, step < 1 ? 2 : 0) };
  },
  "open-interest": () => {
    const columns = columnsOf(shown("open-interest"));
    const isOne = inside.length === 1;
    const drawn = [isOne ? { kind: "line", columns, channel: 0, colour: colours.venues[0] } : { kind: "stack", columns, venues: inside.map((_, index) => ({ colour: colours.venues[index] })) }];
    return { title: isOne ? "Open interest" : "Open interest by venue", short: "Open interest", drawn, zero: !isOne, label: (value, step) => (value === 0 ? "0" : usd(value, decimals(value, step))) };
  },
  funding: () => {
    const columns = columnsOf(shown("funding"));
    const each = inside.length === 1 ? [] : inside.map((_, index) => ({ kind: "line", columns, channel: index + 1, colour: colours.venues[index], width: 0.75 }));
    const main = { kind: "line", columns, channel: 0, colour: inside.length === 1 ? colours.trace : colours.text };
    return { title: inside.length === 1 ? "Funding per 8 h" : "Funding per 8 h, weighted by open interest; thin: each venue", short: "Funding per 8 h", drawn: [...each, main], zero: true, label: (value) => (value === 0 ? "0 %" : rate(value)) };
  },
  liquidations: () => ({ title: "Liquidations: longs up, shorts down", short: "Liquidations: longs up, shorts down", drawn: [{ kind: "bars", bars: bars() }], zero: true, label: (value, step) => (value === 0 ? "0" : usd(Math.abs(value), decimals(value, step))) }),
};

// Decimals after the letter that distinguish multiples of a step
function decimals(value, step) {
  const unit = 1_000 ** Math.floor(Math.log10(Math.abs(value) * 1.00005) / 3);
  return clamp(Math.ceil(-Math.log10(step / unit) - 1e-9), 0, 2);
}

// The change since the first known price in view, in percent
function change(series) {
  const base = series.within(period()).find(({ value }) => value !== null)?.value;
  return (value) => (value / base - 1) * 100;
}

function bars() {
  const { from, to } = period();
  const series = shown("liquidations");
  const pixel = (to - from) / canvas.clientWidth;
  const length = series.step * Math.ceil((BAR_PX * pixel) / series.step);
  const found = new Map();
  for (const point of series.within({ from: Math.floor(from / length) * length, to })) {
    if (point.value === null) continue;
    const begin = Math.floor(point.at / length) * length;
    const bar = found.get(begin) ?? { from: begin, to: begin + length, long: 0, short: 0, total: null, sum: 0, isPartial: false };
    found.set(begin, { ...bar, long: bar.long + point.long_usd, short: bar.short + point.short_usd, sum: bar.sum + point.value, total: point.disputed || bar.total !== null ? bar.sum + point.value : null, isPartial: bar.isPartial || point.missing.length > 0 || point.watched < 0.999 });
  }
  return [...found.values()];
}

// Why there is no pane of liquidations; empty if there is one.
function liquidationsMissing() {
  if (!MEASURES.at(-1).isPublished) return `${inside.map(({ title }) => title).join(" and ")} publishes no liquidations.`;
  const points = shown("liquidations").within(period());
  if (points.some(({ value }) => value > 0) || !state.hidden) return "";
  return points.some(({ value }) => value === 0) ? `We saw no liquidations of ${coin} in this time.` : "We have no liquidations of this time: they are not published afterwards, and kept for 90 days.";
}

function showsVenues() {
  return tool.querySelector("[data-shows]").ariaPressed === "true" && !compared;
}

// Drawing, at most once per frame

let isAsked = false;

function redraw() {
  if (isAsked) return;
  isAsked = true;
  requestAnimationFrame(draw);
}

function draw() {
  isAsked = false;
  const [width, height, ratio] = [canvas.clientWidth, canvas.clientHeight, devicePixelRatio];
  if (width === 0) return;
  if (canvas.width !== Math.round(width * ratio) || canvas.height !== Math.round(height * ratio)) {
    [canvas.width, canvas.height] = [Math.round(width * ratio), Math.round(height * ratio)];
  }
  const c = canvas.getContext("2d", { alpha: false });
  c.setTransform(ratio, 0, 0, ratio, 0, 0);
  layout = drawChart(c, content(width, height));
  note.textContent = liquidationsMissing();
  if (state.hidden && !tool.dataset.drawn) {
    tool.dataset.drawn = "";
    performance.mark("chart-drawn");
  }
  showReadout();
}

function content(width, height) {
  return { width, height, view: period(), panes: panes(), events: events.list, selected, colours, cross: cross === null ? null : { at: cross, dots: dots() } };
}

function dots() {
  const one = (measure, colour) => [{ value: shown(measure).nearest(cross)?.value ?? NaN, colour }];
  if (!compared) return { price: one("price", colours.trace), funding: one("funding", colours.text), ...(inside.length === 1 ? { "open-interest": one("open-interest", colours.venues[0]) } : {}) };
  const lines = [[shown("price"), colours.trace], [shown("price", compared.symbol, compared.venue), colours.text]];
  return { price: lines.map(([series, colour]) => ({ value: change(series)(series.nearest(cross)?.value ?? NaN), colour })), funding: one("funding", colours.text) };
}

function readColours() {
  const probe = tool.querySelector(".chart-probe");
  const read = (name) => {
    probe.style.color = `var(--${name})`;
    return getComputedStyle(probe).color;
  };
  colours = Object.fromEntries(["ground", "text", "quiet", "grid", "edge", "ink", "trace", "long", "short"].map((name) => [name, read(name)]));
  colours.venues = inside.map(({ name }) => getComputedStyle(tool.querySelector(`.of-${name}`)).fill);
  redraw();
}

// The readout: the values at the crosshair, or the newest ones in view, in words

function showReadout() {
  const now = period();
  const at = cross ?? shown("price").within(now).findLast(({ value }) => value !== null)?.at ?? Math.min(now.to, last());
  const rows = [["", moment(at), cross === null ? "newest in view" : isPinned ? "fixed; click to release" : ""], ...MEASURES.filter(({ isPublished }) => isPublished).map(({ key }) => READ[key](at))];
  const near = cross === null ? null : layout.marks.find((mark) => Math.abs(mark.x - layout.x(cross)) < 9);
  const text = JSON.stringify([rows, near?.events]);
  if (text === readout.dataset.text) return;
  readout.dataset.text = text;
  readout.replaceChildren(...rows.map(([name, value, more]) => element("p", {}, element("b", {}, `${name} ${value}`.trim()), more ? ` ${more}` : "")));
  if (near) readout.append(element("p", {}, element("b", {}, "Events "), ...near.events.slice(-3).flatMap(eventLink), near.events.length > 3 ? `and ${near.events.length - 3} earlier` : ""));
}

function eventLink({ at, slug, headline, label }) {
  const href = slug ? `${root}/briefs/${slug}` : `${root}/signals/btc-funding-regime`;
  return [element("a", { href }, headline ?? `regime ${label}`), ` (${moment(at).slice(5, 16)}) `];
}

function element(name, members, ...children) {
  const made = Object.assign(document.createElement(name), members);
  made.append(...children);
  return made;
}

const READ = {
  price: (at) => {
    const point = shown("price").nearest(at);
    if (compared) return ["Change", compareText(at), "from the left edge"];
    if (!point || point.value === null) return ["Price", "no value", without(point)];
    const among = venue === "all" ? `at ${titles[point.price_venue]}; ${price(point.low)} to ${price(point.high)} at ${count(point)}` : "";
    return ["Price", price(point.value), `${among}${without(point)}${origin(point)}`];
  },
  "open-interest": (at) => {
    const point = shown("open-interest").nearest(at);
    if (!point || point.value === null) return ["Open interest", "no value", without(point)];
    return ["Open interest", usd(point.value), `${each(point, usd)}${without(point, usd)}${origin(point)}`];
  },
  funding: (at) => {
    const point = shown("funding").nearest(at);
    if (!point || point.value === null) return ["Funding", "no value", without(point)];
    return ["Funding", `${rate(point.value)} per 8 h`, `${each(point, rate)}${without(point)}${origin(point)}`];
  },
  liquidations: (at) => {
    const series = shown("liquidations");
    const point = series.nearest(Math.floor(at / series.step) * series.step);
    if (!point || point.value === null) return ["Liquidations", "not watched", ""];
    const sides = point.disputed ? `${usd(point.value)}, sides disputed` : `longs ${usd(point.long_usd)}, shorts ${usd(point.short_usd)}`;
    const watched = point.watched < 0.999 ? `; ${Math.floor(1_000 * point.watched) / 10} % of the time watched` : "";
    return ["Liquidations", sides, `${moment(point.at).slice(11, 16)}–${moment(point.at + series.step).slice(11, 16)}, ${names(point.venues)}${watched}${without(point)}`];
  },
};

const names = (list) => list.map((name) => titles[name]).join(", ");
const count = ({ venues: found }) => (found.length === 1 ? titles[found[0]] : `${found.length} venues`);
const origin = (point) => (point.origin === "backfilled" ? "; from the exchange's own history" : "");

function each(point, write) {
  return venue === "all" ? point.venues.map((name, place) => `${titles[name]} ${write(point.by_venue[place])}`).join(", ") : "";
}

function without(point, write = null) {
  if (!point || point.missing.length === 0) return "";
  const list = point.missing.map(({ venue: name, reason, last: value }) => `${titles[name]} (${reason}${write && value !== null ? `, last ${write(value)}` : ""})`);
  return `; without ${list.join(", ")}`;
}

function compareText(at) {
  const pairs = [[coin, shown("price")], [compared.text, shown("price", compared.symbol, compared.venue)]];
  return pairs.map(([name, series]) => `${name} ${series.nearest(at)?.value ? percent(change(series)(series.nearest(at).value)) : "no value"}`).join(", ");
}

// Comparison with another coin or venue: "ETH", "Bybit" or "ETH at Bybit"

function comparison(text) {
  const [, name, place] = /^\s*(.*?)(?:\s*(?:\bat\b|@)\s*(\S+))?\s*$/i.exec(text);
  const venueOf = (words) => venues.find(({ name: key, title }) => [key, title.toLowerCase()].includes(words?.toLowerCase()))?.name;
  if (name === "") return null;
  if (!place && venueOf(name)) return { text: `${coin} at ${titles[venueOf(name)]}`, symbol: coin, venue: venueOf(name) };
  return { text: text.trim(), symbol: name, venue: venueOf(place) ?? venue };
}

async function offerNames() {
  const list = tool.querySelector("datalist");
  if (list.childElementCount > 0) return;
  list.append(...venues.map(({ title }) => new Option(title)));
  const answer = await fetch(document.querySelector("[data-find]").href);
  const page = new DOMParser().parseFromString(await answer.text(), "text/html");
  const rows = [...page.querySelectorAll(".finds li")].filter((row) => row.lastElementChild.textContent === "Coin");
  list.append(...rows.map((row) => new Option(row.firstElementChild.textContent)));
}

// Downloads of what is shown

function download(kind) {
  const name = `barograph-${coin}-${venue}-${view.range || "period"}.${kind}`;
  if (kind === "csv") return save(name, new Blob([table()], { type: "text/csv" }));
  const [width, height] = [Math.max(640, canvas.clientWidth), canvas.clientHeight + 64];
  const { from, to } = period();
  const head = `${coin} at ${venue === "all" ? "all venues" : titles[venue]}, ${moment(from)} to ${moment(Math.min(to, last()))}`;
  const legend = inside.map(({ title }, index) => ({ title, colour: colours.venues[index] }));
  const chart = { ...content(width, height), cross: null, selected: null, head, legend, foot: `Barograph. Source: ${source}` };
  const sheet = Object.assign(document.createElement("canvas"), { width: 2 * width, height: 2 * height });
  const c = sheet.getContext("2d");
  if (kind === "svg") {
    const svg = new SvgContext(width, height, c);
    drawChart(svg, chart);
    return save(name, new Blob([svg.toString()], { type: "image/svg+xml" }));
  }
  c.scale(2, 2);
  drawChart(c, chart);
  sheet.toBlob((blob) => save(name, blob));
}

function save(name, blob) {
  const href = URL.createObjectURL(blob);
  element("a", { href, download: name }).click();
  setTimeout(() => URL.revokeObjectURL(href), MINUTE);
}

function table() {
  const rows = [["time", "pane", "venue", "value", "unit", "missing"]];
  for (const { key, isPublished } of MEASURES) {
    if (isPublished) for (const point of shown(key).within(period())) rows.push(...rowsOf(key, point, venue));
  }
  if (compared) {
    const { text, symbol: of, venue: at } = compared;
    for (const point of shown("price", of, at).within(period())) rows.push(...rowsOf("price", point, at, `price of ${text}`));
  }
  const cell = (value) => (/[",\n]/.test(value) ? `"${value.replaceAll('"', '""')}"` : value);
  return rows.map((row) => `${row.map((value) => cell(String(value ?? ""))).join(",")}\r\n`).join("");
}

const UNITS = { price: "USD or USDT", "open-interest": "USD", funding: "% per 8 h", liquidations: "USD" };

function rowsOf(key, point, at, pane = key) {
  const missing = point.missing.map(({ venue: name, reason }) => `${name} (${reason})`).join("; ");
  const row = (of, value, kind = pane) => [new Date(point.at).toISOString(), kind, of, value, UNITS[key], missing];
  if (key === "liquidations") return [row(at, point.long_usd, "liquidations of longs"), row(at, point.short_usd, "liquidations of shorts")];
  if (key === "price") return [row(point.price_venue ?? at, point.value)];
  return [row(at, point.value), ...(at === "all" ? point.venues.map((name, place) => row(name, point.by_venue[place])) : [])];
}

// Pointers: one pans, or selects a period with Shift; two zoom

const pointers = new Map();
let drag = null;

const timeAt = (x) => {
  const { from, to } = period();
  return from + ((x - layout.left) / (layout.right - layout.left)) * (to - from);
};

function placeCross(at) {
  const { from, to } = period();
  const point = shown("price").nearest(clamp(at, from, Math.min(to, last())));
  cross = point?.at ?? clamp(at, from, to);
  redraw();
}

function press(event) {
  canvas.setPointerCapture(event.pointerId);
  pointers.set(event.pointerId, event.offsetX);
  const [one, other] = pointers.values();
  drag = { x: event.offsetX, ...period(), isMoved: pointers.size > 1, selects: event.shiftKey, pinched: pointers.size > 1 ? [timeAt(one), timeAt(other)] : null };
}

function move(event) {
  if (pointers.size === 0) {
    if (!isPinned) placeCross(timeAt(event.offsetX));
    return;
  }
  pointers.set(event.pointerId, event.offsetX);
  const room = layout.right - layout.left;
  if (drag.pinched) {
    const [[one, other], [oneAt, otherAt]] = [[...pointers.values()], drag.pinched];
    const span = Math.abs(((otherAt - oneAt) * room) / (other - one || 1));
    return look(oneAt - ((one - layout.left) * span) / room, span);
  }
  const moved = event.offsetX - drag.x;
  if (!drag.isMoved && Math.abs(moved) < 4) return;
  drag.isMoved = true;
  if (drag.selects) selected = [drag.x, event.offsetX];
  else look(drag.from - (moved / room) * (drag.to - drag.from), drag.to - drag.from, view.range === "all" ? "all" : "");
  redraw();
}

function release(event) {
  pointers.delete(event.pointerId);
  if (pointers.size > 0 || drag === null) return;
  if (selected !== null) {
    const [from, to] = selected.map(timeAt).sort((one, other) => one - other);
    selected = null;
    look(from, to - from);
  } else if (!drag.isMoved && event.type === "pointerup") {
    isPinned = !isPinned;
    placeCross(timeAt(event.offsetX));
  }
  drag = null;
}

function turn(event) {
  if (document.activeElement !== canvas && !event.ctrlKey) return; // the wheel scrolls the page
  event.preventDefault();
  if (Math.abs(event.deltaX) > Math.abs(event.deltaY)) pan(event.deltaX / canvas.clientWidth);
  else zoom(1.002 ** clamp(event.deltaY * (event.deltaMode === 1 ? 30 : 1), -300, 300), timeAt(event.offsetX));
}

function type(event) {
  if (event.ctrlKey || event.metaKey || event.altKey) return;
  const { from, to } = period();
  const middle = cross ?? (view.end === null ? last() : (from + to) / 2);
  const step = shown("price").step;
  const away = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
  const work = {
    ...(away && { [event.key]: () => (event.shiftKey ? placeCross((cross ?? Math.min(to, last())) + away * step) : pan(away / 10)) }),
    "+": () => zoom(1 / 1.5, middle),
    "=": () => zoom(1 / 1.5, middle),
    "-": () => zoom(1.5, middle),
    Home: () => look(first(), to - from),
    End: () => look(last() - (to - from), to - from, view.range),
    Escape: () => canvas.blur(),
    ...Object.fromEntries(KEYS.map((range, index) => [index + 1, () => choose(range)])),
  }[event.key];
  if (!work) return;
  event.preventDefault();
  readout.ariaLive = "polite"; // for screen readers, only while the keyboard is used
  work();
}

function hide() {
  if (isPinned) return;
  cross = null;
  redraw();
}

function act({ target }) {
  const { range, zoom: factor, download: kind } = target.closest("button")?.dataset ?? {};
  if (range) choose(range);
  if (factor) zoom(Number(factor), view.end === null ? last() : (period().from + period().to) / 2);
  if (kind) download(kind);
  if (target.dataset.shows === undefined) return;
  target.ariaPressed = String(target.ariaPressed !== "true");
  changed();
}

function compare() {
  compared = comparison(field.value);
  changed();
}

function start() {
  for (const [kind, work] of Object.entries({ pointerdown: press, pointermove: move, pointerup: release, pointercancel: release, pointerleave: hide, keydown: type, blur: () => readout.removeAttribute("aria-live") })) canvas.addEventListener(kind, work);
  canvas.addEventListener("wheel", turn, { passive: false });
  tool.addEventListener("click", act);
  tool.querySelector("form").addEventListener("submit", (event) => event.preventDefault());
  field.addEventListener("change", compare);
  field.addEventListener("focus", () => offerNames().catch(() => {}));
  addEventListener("hashchange", () => readAddress() && changed());
  document.addEventListener("renewed", renew);
  new ResizeObserver(redraw).observe(canvas);
  new MutationObserver(readColours).observe(document.documentElement, { attributeFilter: ["data-theme"] });
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", readColours);
  for (const each of tool.querySelectorAll(":disabled")) each.disabled = each.dataset.range === "1h" && !tool.dataset.minutes;
  if (readAddress()) tool.scrollIntoView();
  readColours();
  changed();
}

start();
