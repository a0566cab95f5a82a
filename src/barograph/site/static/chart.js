// The large chart of a coin page: loads recorded series as the view needs them, and lets the visitor
// pan, zoom, compare, link and download. chart_drawing.js draws. The page is complete without it.

const tool = document.getElementById("chart-tool");
const { DAY, HOUR, MINUTE, axisWidth, drawChart, lowerBound, moment, percent, prepare, price, rate, usd, wrapped } = await import(tool.dataset.drawing);

const RANGES = { "1h": HOUR, "6h": 6 * HOUR, "1d": DAY, "7d": 7 * DAY, "30d": 30 * DAY, "90d": 90 * DAY, all: Infinity };
const INTERVALS = { [MINUTE]: "minute", [HOUR]: "hour", [4 * HOUR]: "4h", [DAY]: "day" };
const KEPT = { minute: 30 * DAY, liquidations: 90 * DAY, hour: 730 * DAY };
const AFTER = { load: 120, address: 200, readout: 60 }; // ms without a change; a readout in each frame would drop frames
const BRIDGED_MS = 5.5 * MINUTE; // a reading counts for 5 minutes
const EDGE = 0.02; // the empty part of the view after the newest point

const { coin, symbol, venue, root, source, listed } = tool.dataset;
const [started, ended] = [Number(tool.dataset.first), Number(tool.dataset.last)]; // 0 if unknown, or still listed
const shortest = tool.dataset.minutes ? HOUR / 2 : 6 * HOUR;
const venues = JSON.parse(tool.dataset.venues);
const inside = venue === "all" ? venues : venues.filter(({ name }) => name === venue);
const isOne = inside.length === 1;
const [titles, quotes] = ["title", "quote"].map((key) => Object.fromEntries(venues.map((each) => [each.name, each[key]])));
const [canvas, field, readout, state, why] = ["canvas", "input", ".chart-readout", ".chart-state", ".chart-why"].map((name) => tool.querySelector(name));

let ahead = 0; // of the server's clock
let edge = Date.now(); // until when data was asked for
let view = { range: "7d", span: RANGES["7d"], end: null }; // an end of null follows the newest point
let compared = null; // { text, symbol, venue }
let problem = ""; // why the wanted comparison, or the largest hour, can't be shown
let cross = null; // the instant under the crosshair
let isPinned = false;
let isSearching = false; // for the hour with the most liquidations
let largest = null; // that hour, and since when liquidations were watched
let selected = null; // from one pixel to another
let events = { since: Infinity, after: 0, isFresh: false, list: [] };
let colours = {};
let layout = null;
let size = { width: 0, height: 0 }; // of the canvas; reading it would lay out the page
let request = new AbortController();
let blockedUntil = 0; // the server's Retry-After
let isAsked = false; // for a frame
const timers = {};
const kept = new Map(); // series by measure, symbol, venue and step

const first = () => started || edge - 60 * DAY;
const last = () => ended || edge;
const longest = () => Math.max(DAY, (last() - first()) * (1 + 2 * EDGE));
const clamp = (value, low, high) => Math.min(high, Math.max(low, value));
const iso = (at) => new Date(at).toISOString();
const isoMinute = (at) => `${iso(at).slice(0, 16)}Z`;

function element(name, members, ...children) {
  const made = Object.assign(document.createElement(name), members);
  made.append(...children);
  return made;
}

function later(name, work, after = AFTER[name]) {
  clearTimeout(timers[name]);
  timers[name] = setTimeout(work, after);
}

// The view
function period() {
  const span = clamp(view.span, shortest, longest());
  const to = view.end ?? last() + span * EDGE;
  return { from: to - span, to, span };
}

function look(from, span, range = "") {
  const length = clamp(span, shortest, longest());
  const to = clamp(from + length, first() + length / 2, last() + length * EDGE);
  changed({ range, span: length, end: to >= last() ? null : to });
}

const seen = () => (cross !== null && cross >= period().from && cross <= period().to ? cross : null);

// Around the crosshair, if it is in view
function zoom(factor, at = seen()) {
  const { from, to, span } = period();
  const anchor = at ?? (view.end === null ? last() : (from + to) / 2);
  const length = clamp(span * factor, shortest, longest());
  look(anchor - ((anchor - from) * length) / span, length);
}

const pan = (share) => look(period().from + share * period().span, period().span);
const choose = (range) => changed({ range, span: RANGES[range], end: null });

function changed(next = view) {
  [view, isSearching] = [next, false];
  later("load", load);
  later("address", writeAddress);
  redraw();
}

// The address: #chart=7d, or #chart=2026-11-01T00:00Z_2026-11-03T00:00Z&compare=ETH&read=2026-11-02T14:00Z
function writeAddress() {
  for (const button of tool.querySelectorAll("[data-range]")) button.ariaPressed = String(button.dataset.range === view.range);
  const { from, to } = period();
  const shown = view.range || (view.end === null ? `${Math.round(view.span / MINUTE)}m` : `${isoMinute(from)}_${isoMinute(to)}`);
  const hash = `#chart=${shown}${compared ? `&compare=${encodeURIComponent(compared.text)}` : ""}${isPinned ? `&read=${isoMinute(cross)}` : ""}`;
  history.replaceState(history.state, "", hash);
  for (const link of document.querySelectorAll("a[rel=prev], a[rel=next], [aria-label=Venues] a")) link.hash = hash;
}

function readAddress() {
  const asked = new URLSearchParams(location.hash.slice(1));
  const shown = asked.get("chart");
  if (shown === null) return;
  const [from, to] = shown.split("_").map(Date.parse);
  if (Object.hasOwn(RANGES, shown)) view = { range: shown, span: RANGES[shown], end: null };
  else if (/^\d+m$/.test(shown)) view = { range: "", span: Number.parseInt(shown) * MINUTE, end: null };
  else if (to > from) view = { range: "", span: to - from, end: to };
  field.value = asked.get("compare") ?? "";
  cross = Date.parse(asked.get("read")) || null;
  isPinned = cross !== null;
  compare();
}

// A series, loaded from one instant to another
class Series {
  constructor(measure, of, at, step) {
    Object.assign(this, { measure, of, at, step, points: [], loaded: null, version: 0, made: {} });
  }

  // The span to load next for a view, if any. The loaded span grows, unless the view is far away.
  missing({ from, to, span }) {
    const days = this.measure === "liquidations" ? KEPT.liquidations : KEPT[INTERVALS[this.step]] ?? KEPT.hour;
    const [start, end] = [Math.floor(Math.max(from, edge - days + 2 * HOUR) / this.step) * this.step, Math.min(to, last())];
    if (start >= end) return null;
    if (!this.loaded || start > this.loaded[1] + 2 * span || end < this.loaded[0] - 2 * span) return [start, end];
    if (start < this.loaded[0]) return [start, this.loaded[0]];
    return end > this.loaded[1] ? [this.loaded[1], end] : null;
  }

  async load([from, to], signal) {
    const query = new URLSearchParams({ symbol: this.of, venue: this.at, interval: INTERVALS[this.step], from: iso(from), limit: 5000 });
    if (to < edge) query.set("to", iso(to));
    const points = [];
    for await (const page of pages(`${root}/api/v1/series/${this.measure}?${query}`, signal)) points.push(...page.points.map((point) => decode(point, this)));
    const isNext = this.loaded && from <= this.loaded[1] && to >= this.loaded[0];
    const [before, after] = isNext ? [this.points.slice(0, this.index(from)), this.points.slice(this.index(to))] : [[], []];
    this.points = before.concat(points, after.filter(({ at }) => at > (points.at(-1)?.at ?? 0)));
    this.loaded = isNext ? [Math.min(from, this.loaded[0]), Math.max(to, this.loaded[1])] : [from, to];
    this.version += 1;
    redraw();
  }

  index(wanted) { return lowerBound(this.points, wanted, ({ at }) => at); }
  within({ from, to }) { return this.points.slice(this.index(from), this.index(to + 1)); }
  has({ from, to }) { return this.index(from) < this.index(to + 1); }

  nearest(wanted) {
    const index = this.index(wanted);
    const [before, after] = [this.points[index - 1], this.points[index]];
    const point = !after || (before && wanted - before.at < after.at - wanted) ? before : after;
    return point && Math.abs(point.at - wanted) <= this.step ? point : null;
  }

  // What to draw of its points, made once per version and scale, so that panning only moves it
  once(scale, make) {
    const { version, made } = this;
    if (made.version !== version || !(Math.abs(made.scale / scale - 1) < 1e-9)) this.made = { version, scale, value: make() };
    return this.made.value;
  }
}

// A point of one venue gets the members of one of all venues. Where a venue is missing, what it last had
// is drawn; where most are missing without that, nothing: such a sum would be a step that no market made.
function decode(point, { measure, at }) {
  point.at = Date.parse(point.at);
  if (at !== "all") {
    const reason = point.disputed && !("long_usd" in point) ? "disputed" : point.value === null ? "no value" : "";
    if (reason) point.value = null;
    Object.assign(point, reason ? { venues: [], by_venue: [] } : { venues: [at], by_venue: [point.value] });
    point.missing = reason ? [{ venue: at, reason, last: null }] : [];
  }
  if (measure !== "funding" && measure !== "open-interest") return point;
  const last = ({ name }) => point.missing.find((each) => each.venue === name)?.last ?? NaN;
  point.held = inside.map(last);
  point.by = inside.map((each) => point.by_venue[point.venues.indexOf(each.name)] ?? last(each));
  if (point.missing.filter(({ last: value }) => value === null).length > point.venues.length) point.value = null;
  return point;
}

function seriesOf(measure, step, of, at) {
  const key = `${measure} ${of} ${at} ${step}`;
  if (!kept.has(key)) kept.set(key, new Series(measure, of, at, step));
  return kept.get(key);
}

// The series for the view: minutes only where there are enough of them, and of most venues
function wanted(measure, of = symbol, at = venue) {
  const { from, to, span } = period();
  const hours = seriesOf(measure, span <= 14 * DAY ? HOUR : span <= 200 * DAY ? 4 * HOUR : DAY, of, at);
  if (!tool.dataset.minutes || measure === "liquidations" || span > 26 * HOUR || from < edge - KEPT.minute) return hours;
  const minutes = seriesOf(measure, MINUTE, of, at);
  if (minutes.missing(period()) !== null) return minutes;
  const known = minutes.within(period()).filter(({ value }) => value !== null);
  return known.length < (4 * (Math.min(to, last()) - from)) / HOUR ? hours : minutes;
}

// What is drawn: until the series for the view is there, one with other steps
function shown(measure, of = symbol, at = venue) {
  const best = wanted(measure, of, at);
  const others = [...kept.values()].filter((series) => series.measure === measure && series.of === of && series.at === at);
  return [best, ...others.sort((one, two) => one.step - two.step)].find((series) => series.has(period())) ?? best;
}

const other = (which) => which("price", compared.symbol, compared.venue);

// Loading: a newer view ends the requests of an older one. A range may have gaps on both sides of what is kept.
async function load() {
  if (Date.now() < blockedUntil) return later("load", load, blockedUntil - Date.now());
  request.abort();
  const mine = (request = new AbortController());
  try {
    for (let isOpen = true; isOpen; ) {
      const all = [...MEASURES.map(({ key }) => wanted(key)), ...(compared ? [other(wanted)] : [])].map((each) => [each, each.missing(period())]);
      if (isSearching) all.splice(0, all.length, [hourly(), hourly().missing({ from: edge - KEPT.liquidations, to: last(), span: KEPT.liquidations })]);
      const open = all.filter(([, span]) => span !== null);
      isOpen = open.length > 0;
      if (isOpen) say("Loading…");
      await Promise.all([...open.map(([each, span]) => each.load(span, mine.signal)), loadEvents(mine.signal)]);
    }
    say("");
    if (isSearching) pinLargest();
  } catch (error) {
    if (request === mine) fail(error);
  }
  redraw();
}

async function loadEvents(signal) {
  const isOlder = period().from < events.since;
  if (!isOlder && events.isFresh) return;
  const since = isOlder ? Math.min(period().from, edge - 90 * DAY) : events.since;
  const about = listed ? `&symbol=${encodeURIComponent(listed)}` : ""; // other symbols are unknown there
  const start = isOlder ? `since=${iso(since)}` : `after=${events.after}`;
  const list = isOlder ? [] : [...events.list];
  let after = 0;
  for await (const page of pages(`${root}/api/v1/events?type=regime.changed,brief.published${about}&limit=1000&${start}`, signal)) {
    list.push(...page.events.filter(isAbout).map((event) => ({ ...event, at: Date.parse(event.at) })));
    after = page.last_id;
  }
  const written = new Set(list.filter(({ slug }) => slug).map(({ at }) => at)); // a regime with a brief is marked once
  events = { since, after, isFresh: true, list: list.filter(({ slug, at }) => slug || !written.has(at)) };
}

function isAbout({ type, symbol: of, symbols, venue: at }) {
  if (type === "regime.changed") return of === coin && at === (venue === "all" ? venues[0].name : venue);
  return symbols.some((name) => [coin, symbol, listed].includes(name));
}

// The pages of an answer; an unknown symbol has none, which is no error
async function* pages(address, signal) {
  while (address) {
    const answer = await fetch(address, { signal: AbortSignal.any([signal, AbortSignal.timeout(20_000)]) });
    const off = Date.parse(answer.headers.get("Date")) - Date.now();
    ahead = Math.abs(off) >= 2_000 ? off : 0; // also 0 without a date
    if (answer.status === 404) return;
    const body = await answer.json().catch(() => ({}));
    const wait = Number(answer.headers.get("Retry-After"));
    if (!answer.ok) throw Object.assign(new Error(body.error ?? `the server answered with status ${answer.status}`), { wait });
    performance.mark("chart-data"); // for the benchmark
    yield body;
    const next = body.next && new URL(body.next);
    address = next && next.pathname + next.search;
  }
}

function say(text, ...more) {
  state.hidden = text === "";
  state.replaceChildren(text, ...more);
}

function fail({ message, name, wait = 0 }) {
  const reason = { TimeoutError: "the server did not answer in time", TypeError: "no connection" }[name] ?? message.replace(/\.$/, "");
  blockedUntil = Date.now() + wait * 1_000;
  const words = wait ? `Retry at ${iso(blockedUntil + ahead).slice(11, 19)} UTC` : "Retry";
  say(`Can't load the data: ${reason}. `, element("button", { type: "button", className: "copy", disabled: wait > 0, onclick: load }, words));
  if (wait) load();
}

// While the newest point is in view, it is loaded again at most once a minute.
function renew() {
  const now = Date.now() + ahead;
  if (view.end !== null || ended || Math.abs(now - edge) < MINUTE) return; // the visitor's clock may have been ahead
  for (const { loaded, step } of kept.values()) if (loaded) loaded[1] = clamp(Math.floor(Math.min(edge, now) / step) * step, ...loaded);
  [edge, events.isFresh] = [now, false];
  later("load", load, 0);
}

// What is drawn
const isPartial = (point) => point.missing.length > 0 || point.origin === "backfilled";
const ofVenues = inside.map((_, index) => ({ by }) => by[index]);
const totalOf = ({ by }) => by.filter(Number.isFinite).reduce((total, value) => (total || 0) + value, NaN); // with what missing venues last had
const heldOf = inside.map((_, index) => ({ held }) => held[index]);
const MEASURES = [
  { key: "price", name: "Price", share: 4, channels: [({ value }) => value], isDashed: ({ origin }) => origin === "backfilled" },
  { key: "open-interest", name: "Open interest", share: 2.2, channels: [totalOf, ...ofVenues, ...heldOf], isDashed: isPartial },
  { key: "funding", name: "Funding", share: 1.8, channels: [({ value, with_missing }) => with_missing ?? value, ...ofVenues], isDashed: isPartial },
  { key: "liquidations", name: "Liquidations", share: 1.5 },
].filter(({ key }) => key !== "liquidations" || inside.some(({ liquidations }) => liquidations !== "none"));

function columnsOf(series) {
  const columnMs = period().span / Math.max(1, size.width - axisWidth(size.width));
  const { channels, isDashed } = MEASURES.find(({ key }) => key === series.measure);
  return series.once(columnMs, () => prepare(series.points, columnMs, Math.max(1.5 * series.step, BRIDGED_MS), channels, isDashed));
}

const lineOf = (series, colour, more = {}) => ({ kind: "line", columns: columnsOf(series), channel: 0, colour, ...more });
const pair = () => [[shown("price"), colours.trace, coin], [other(shown), colours.text, compared.text]].map(named);
const amount = (value, step) => (value === 0 ? "0" : usd(Math.abs(value), decimals(value, step)));

const PANES = {
  price: () => {
    const unit = [...new Set(inside.map(({ quote }) => quote))].join(" or ");
    const title = `Price at ${venue === "all" ? "the venue with the largest open interest" : titles[venue]}, ${unit}`;
    return { title, short: "Price", drawn: [lineOf(shown("price"), colours.trace)], label: price };
  },
  compared: () => {
    const drawn = pair().map(([series, colour, name]) => lineOf(series, colour, { name, value: change(series) }));
    return { title: "Price change since the left edge", short: "Price change", drawn, label: (value, step) => percent(value, step < 1 ? 2 : 0) };
  },
  "open-interest": () => {
    const series = shown("open-interest");
    const drawn = isOne ? lineOf(series, colours.venues[0]) : { kind: "stack", columns: columnsOf(series), venues: colours.venues };
    return { title: isOne ? "Open interest" : "Open interest by venue", short: "Open interest", drawn: [drawn], hasZero: !isOne, label: amount };
  },
  funding: () => {
    const series = shown("funding");
    const thin = isOne || columnsOf(series).isDense ? [] : colours.venues.map((colour, index) => lineOf(series, colour, { channel: index + 1, width: 0.75 }));
    const title = `Funding per 8 h${isOne ? "" : ", weighted by open interest"}${thin.length > 0 ? "; thin: each venue" : ""}`;
    const label = (value, step) => (value === 0 ? "0 %" : percent(value, Math.max(0, Math.ceil(-Math.log10(step) - 1e-9))));
    return { title, short: "Funding per 8 h", drawn: [...thin, lineOf(series, colours.text)], hasZero: true, label };
  },
  liquidations: () => ({ title: "Liquidations: longs up, shorts down", drawn: [{ kind: "bars", bars: bars() }], hasZero: true, label: amount }),
};

const paneOf = ({ key, share }) => ({ key, share, ...PANES[compared && key === "price" ? "compared" : key]() });
const panes = () => MEASURES.filter(({ key }) => key !== "liquidations" || noLiquidations() === "").map(paneOf);

// Decimals after the letter that tell multiples of a step apart
function decimals(value, step) {
  const unit = 1_000 ** Math.floor(Math.log10(Math.abs(value) * 1.00005) / 3);
  return [0, 1, 2].find((count) => Math.abs((step / unit) * 10 ** count - Math.round((step / unit) * 10 ** count)) < 1e-6) ?? 2;
}

// The change since the first known price in view, in percent
const base = (series) => series.within(period()).find(({ value }) => value !== null);
const change = (series, from = base(series)?.value) => (value) => (value / from - 1) * 100;

// A coin that was listed later than the left edge says from when its change counts.
function named([series, colour, name]) {
  const since = base(series)?.at;
  return [series, colour, since > period().from + 2 * series.step ? `${name} since ${moment(since)}` : name];
}

const barLength = ({ step }) => step * Math.ceil((4 * period().span) / size.width / step); // at least 4 pixels

function barsOf(series, length) {
  const found = new Map();
  for (const point of series.points.filter(({ value }) => value !== null)) {
    const from = Math.floor(point.at / length) * length;
    const bar = found.get(from) ?? { from, to: from + length, long: 0, short: 0, total: null, isPartial: false };
    for (const side of ["long", "short"]) bar[side] += point[`${side}_usd`];
    if (point.disputed || bar.total !== null) bar.total = bar.long + bar.short;
    bar.isPartial ||= point.missing.length > 0 || point.watched < 0.999;
    found.set(from, bar);
  }
  return [...found.values()];
}

function bars() {
  const [{ from, to }, series] = [period(), shown("liquidations")];
  const list = series.once(barLength(series), () => barsOf(series, barLength(series)));
  return list.slice(lowerBound(list, from, (bar) => bar.to), lowerBound(list, to, (bar) => bar.from));
}

// Why there is no pane of liquidations; empty if there is one
function noLiquidations() {
  if (MEASURES.length < 4) return `No liquidations: ${inside.map(({ title }) => title).join(", ")} publish${isOne ? "es" : ""} none.`;
  const points = shown("liquidations").within(period());
  if (points.some(({ value }) => value > 0) || !state.hidden) return "";
  return points.some(({ value }) => value === 0) ? `We saw no liquidations of ${coin} in this period.` : `We have no liquidations for this period. ${NOT_KEPT}`;
}

const NOT_KEPT = "Exchanges don't publish past ones, and we keep them for 90 days.";

function redraw() {
  if (!isAsked) requestAnimationFrame(draw);
  isAsked = true;
}

function draw() {
  isAsked = false;
  const [{ width, height }, ratio] = [size, devicePixelRatio];
  if (width === 0) return;
  const [pixels, lines] = [Math.round(width * ratio), Math.round(height * ratio)];
  if (canvas.width !== pixels || canvas.height !== lines) Object.assign(canvas, { width: pixels, height: lines });
  const c = canvas.getContext("2d", { alpha: false });
  c.setTransform(ratio, 0, 0, ratio, 0, 0);
  layout = drawChart(c, content(width, height));
  const isUnknown = compared && state.hidden && !other(shown).has(period());
  why.textContent = [problem, noLiquidations(), isUnknown ? `We have no prices of ${compared.text} for this period.` : ""].join(" ").trim();
  timers.readout ??= setTimeout(showReadout, AFTER.readout);
  if (!state.hidden || tool.dataset.drawn) return;
  tool.dataset.drawn = "";
  performance.mark("chart-drawn");
}

function content(width, height) {
  const at = seen();
  return { width, height, view: period(), panes: panes(), events: events.list, selected, colours, isLoading: !state.hidden, cross: at && { at, dots: dots(at) } };
}

function dots(at) {
  const one = (series, colour, of = (value) => value) => ({ value: of(series.nearest(at)?.value ?? NaN), colour });
  const spot = compared ? pair().map(([series, colour]) => one(series, colour, change(series))) : [one(shown("price"), colours.trace)];
  return { price: spot, funding: [one(shown("funding"), colours.text)], "open-interest": isOne ? [one(shown("open-interest"), colours.venues[0])] : [] };
}

function readColours() {
  const probe = tool.querySelector(".chart-probe");
  for (const name of ["ground", "text", "quiet", "grid", "edge", "ink", "trace", "long", "short"]) {
    probe.style.color = `var(--${name})`;
    colours[name] = getComputedStyle(probe).color;
  }
  colours.venues = inside.map(({ name }) => getComputedStyle(tool.querySelector(`.of-${name}`)).fill);
  redraw();
}

// The readout: the values at the crosshair, or the newest ones in view, in words
function showReadout() {
  timers.readout = null;
  const [{ from, to }, here] = [period(), seen()];
  const at = here ?? shown("price").within({ from, to }).findLast(({ value }) => value !== null)?.at ?? Math.min(to, last());
  const kind = here === null ? "newest in view" : isLargest() ? `most liquidations of any hour since ${largest.since}` : isPinned ? "pinned" : "";
  const values = MEASURES.map((measure) => read(measure, at).map((words) => words.replace(/(\d) (?=%)/g, "$1\u00a0"))); // no unit on the next line
  const rows = [["", moment(at), kind], ...values, ...(isLargest() ? [inThisHour()] : [])];
  const near = here && layout.marks.find((mark) => Math.abs(mark.x - layout.x(here)) < 9)?.events;
  const text = JSON.stringify([rows, near]);
  if (text === readout.dataset.text) return;
  readout.dataset.text = text;
  readout.replaceChildren(...rows.map(([name, value, more]) => element("p", {}, element("b", {}, `${name} ${value}`.trim()), more ? ` ${more.replace(/^; /, "")}` : "")));
  if (near) readout.append(element("p", {}, element("b", {}, "Events "), ...near.slice(-3).flatMap(eventLink), near.length > 3 ? `and ${near.length - 3} earlier` : ""));
}

const isLargest = () => isPinned && seen() !== null && cross === largest?.at;

// What the price and the open interest did in the hour with the most liquidations
function inThisHour() {
  const moves = [["price", "price"], ["open interest", "open-interest"]].map(([name, measure]) => {
    const [before, after] = [cross, cross + HOUR].map((at) => shown(measure).nearest(at)).map((point) => point?.with_missing ?? point?.value);
    return `${name} ${before && after ? percent((after / before - 1) * 100) : "unknown"}`;
  });
  return ["In this hour", moves.join(", "), ""];
}

function eventLink({ at, slug, headline, label }) {
  const href = slug ? `${root}/briefs/${slug}` : `${root}/signals/btc-funding-regime`;
  return [element("a", { href }, headline ?? `regime ${label}`), ` (${moment(at).slice(5, 16)}) `];
}

function read({ key, name }, at) {
  if (compared && key === "price") return ["Change", changes(at), "since the left edge"];
  const { step } = shown(key);
  const point = shown(key).nearest(key === "liquidations" ? Math.floor(at / step) * step : at);
  if (!point || point.value === null) return [name, "no value", without(point)];
  const [value, more] = WORDS[key](point, step);
  return [name, value, `${more}${without(point, key === "open-interest" ? usd : null)}${point.origin === "backfilled" ? "; from the exchange's own history" : ""}`];
}

const WORDS = {
  price: (point) => {
    const count = point.venues.length === 1 ? titles[point.venues[0]] : `${point.venues.length} venues`;
    const among = venue === "all" ? `at ${titles[point.price_venue]}; ${price(point.low)} to ${price(point.high)} at ${count}` : "";
    return [`${price(point.value)} ${quotes[point.price_venue ?? venue]}`, among];
  },
  "open-interest": (point) => [usd(point.value), byVenue(point, usd)],
  funding: (point) => [`${rate(point.value)} per 8 h`, byVenue(point, rate)],
  liquidations: (point, step) => {
    const sides = point.disputed ? `${usd(point.value)}, sides disputed` : `longs ${usd(point.long_usd)}, shorts ${usd(point.short_usd)}`;
    const watched = point.watched < 0.999 ? `; watched ${Math.floor(1_000 * point.watched) / 10} % of the time` : "";
    return [sides, `${iso(point.at).slice(11, 16)}–${iso(point.at + step).slice(11, 16)}, ${point.venues.map((each) => titles[each]).join(", ")}${watched}`];
  },
};

const byVenue = (point, write) => (venue === "all" ? point.venues.map((name, index) => `${titles[name]} ${write(point.by_venue[index])}`).join(", ") : "");

function without(point, write) {
  const list = (point?.missing ?? []).map(({ venue: name, reason, last: value }) => `${titles[name]} (${reason}${write && value !== null ? `, last ${write(value)}` : ""})`);
  return list.length > 0 ? `; without ${list.join(", ")}` : "";
}

function changes(at) {
  const moved = pair().map(([series, , name]) => [name, change(series)(series.nearest(at)?.value ?? NaN)]);
  return moved.map(([name, value]) => `${name} ${Number.isFinite(value) ? percent(value) : "no value"}`).join(", ");
}

// Comparison with another coin or venue: "ETH", "Bybit" or "ETH at Bybit"
function compare() {
  const [, name, place] = /^\s*(.*?)(?:\s*(?:\bat\b|@)\s*(\S+))?\s*$/i.exec(field.value);
  const at = venues.find((each) => [each.name, each.title.toLowerCase()].includes((place ?? name).toLowerCase()))?.name;
  problem = place && !at ? `No venue here is called ${place}. The venues are ${Object.values(titles).join(", ")}.` : "";
  if (name === "" || problem) compared = null;
  else if (!place && at) compared = { text: `${coin} at ${titles[at]}`, symbol: coin, venue: at };
  else compared = { text: field.value.trim(), symbol: name, venue: at ?? venue };
  changed();
}

// Downloads of what is shown, with a script that is loaded on first use
async function download(kind) {
  const { saveImage, saveTable } = await import(tool.dataset.downloads);
  const [{ from, to }, here] = [period(), isPinned ? seen() : null];
  const times = [from, Math.min(to, last())];
  const name = `barograph-${coin}-${venue}-${times.map((at) => iso(at).slice(0, 16).replaceAll(":", "")).join("-")}.${kind}`;
  if (kind === "csv") {
    const found = MEASURES.map(({ key }) => [key, key, venue, shown(key).within(period())]);
    if (compared) found.push(["price", `price of ${compared.text}`, compared.venue, other(shown).within(period())]);
    return saveTable(name, found, quotes);
  }
  const what = isLargest() ? `: the hour with the most liquidations since ${largest.since}, ${moment(cross)}` : `, ${times.map(moment).join(" to ")}`;
  const head = `${coin} at ${venue === "all" ? "all venues" : titles[venue]}${what}`;
  const legend = inside.map(({ title }, index) => ({ title, colour: colours.venues[index] }));
  const width = Math.max(640, size.width);
  const reading = here === null ? [] : [...readout.querySelectorAll("p")].map(({ textContent }) => textContent.replace(/ (pinned|most liquidations .*)$/, ""));
  const words = [...reading, tool.querySelector(".chart-signs").textContent, `Barograph, ${location.host}, ${moment(Date.now() + ahead)}. Source: ${source}`];
  const notes = words.flatMap((line) => wrapped(canvas.getContext("2d"), line, width));
  const chart = content(width, size.height + 50 + 14 * notes.length);
  saveImage(name, drawChart, { ...chart, cross: here && chart.cross, selected: null, head, legend, notes });
}

// Pointers: one pans, or selects a period with Shift; two zoom
const pointers = new Map();
let drag = null;

const room = () => layout.right - layout.left;
const timeAt = (x) => period().from + ((x - layout.left) / room()) * period().span;
const mostIn = (points) => points.reduce((most, point) => (point.value > (most?.value ?? 0) ? point : most), null);

// The instant under a pointer; on a bar of liquidations, the one of its hours with the most
function instantAt(x, y) {
  const at = timeAt(x);
  const { pane, top, bottom } = layout.panes.at(-1);
  if (pane.key !== "liquidations" || y < top || y > bottom) return at;
  const length = barLength(shown("liquidations"));
  const from = Math.floor(at / length) * length;
  return mostIn(shown("liquidations").within({ from, to: from + length - 1 }))?.at ?? at;
}

function placeCross(at) {
  const { from, to } = period();
  const inView = clamp(at, from, Math.min(to, last()));
  cross = shown("price").nearest(inView)?.at ?? inView;
  redraw();
}

function startDrag({ pointerId, offsetX, shiftKey, button }) {
  if (button !== 0) return;
  canvas.setPointerCapture(pointerId);
  pointers.set(pointerId, offsetX);
  hold({ isMoved: pointers.size > 1, selects: shiftKey });
}

// From now on, the time under each pointer follows it.
function hold(kind) {
  const held = [...pointers.values()];
  drag = { x: held[0], ...period(), pinched: held.length > 1 ? held.map(timeAt) : null, ...kind };
}

function movePointer({ pointerId, offsetX, offsetY }) {
  if (pointers.size === 0) return isPinned || placeCross(instantAt(offsetX, offsetY));
  pointers.set(pointerId, offsetX);
  if (drag.pinched) {
    const [one, two] = pointers.values();
    const span = clamp(Math.abs(((drag.pinched[1] - drag.pinched[0]) * room()) / (two - one || 1)), shortest, longest());
    return look(drag.pinched[0] - ((one - layout.left) * span) / room(), span);
  }
  const moved = offsetX - drag.x;
  drag.isMoved ||= Math.abs(moved) > 3;
  if (drag.isMoved && drag.selects) selected = [drag.x, offsetX];
  else if (drag.isMoved) look(drag.from - (moved / room()) * drag.span, drag.span);
  redraw();
}

function endDrag({ pointerId, pointerType, offsetX, offsetY, type }) {
  pointers.delete(pointerId);
  if (pointers.size > 0) return hold({ isMoved: true });
  if (drag === null) return;
  if (selected !== null) {
    const [from, to] = selected.map(timeAt).sort((one, two) => one - two);
    selected = null;
    look(from, to - from);
  } else if (!drag.isMoved && type === "pointerup") {
    isPinned = pointerType !== "mouse" || !isPinned;
    placeCross(instantAt(offsetX, offsetY));
    later("address", writeAddress);
  }
  drag = null;
}

function useWheel(event) {
  if (document.activeElement !== canvas && !event.ctrlKey) return; // the wheel scrolls the page
  event.preventDefault();
  const { deltaX, deltaY, deltaMode, offsetX } = event;
  if (Math.abs(deltaX) > Math.abs(deltaY)) pan(deltaX / size.width);
  else zoom(1.002 ** clamp(deltaY * (deltaMode === 1 ? 30 : 1), -300, 300), timeAt(offsetX));
}

function hideCross() {
  cross = isPinned ? cross : null;
  redraw();
}

function leave() {
  [isPinned, cross] = [false, null];
  changed();
  canvas.blur();
}

function useKey(event) {
  if (event.ctrlKey || event.metaKey || event.altKey) return;
  const { to, span } = period();
  const move = (away) => (event.shiftKey ? placeCross((seen() ?? Math.min(to, last())) + away * shown("price").step) : pan(away / 10));
  const work = {
    ArrowLeft: () => move(-1), ArrowRight: () => move(1), Home: () => look(first(), span), End: () => look(last(), span, view.range),
    "+": () => zoom(1 / 1.5), "=": () => zoom(1 / 1.5), "-": () => zoom(1.5), Escape: leave,
    ...Object.fromEntries(Object.keys(RANGES).map((range, index) => [index + 1, () => choose(range)])),
  }[event.key];
  if (!work) return;
  event.preventDefault();
  readout.ariaLive = "polite"; // for screen readers, only while the keyboard is used
  work();
}

// The hour with the most liquidations of all that are kept, pinned, with half a day on each side
const hourly = () => seriesOf("liquidations", HOUR, symbol, venue);

function pinLargest() {
  const watched = hourly().points.find(({ value }) => value !== null);
  const since = watched && iso(watched.at).slice(0, 10);
  largest = mostIn(hourly().points);
  problem = largest ? "" : watched ? `We have seen no liquidations of ${coin} since ${since}.` : `We have no liquidations of ${coin}. ${NOT_KEPT}`;
  if (!largest) return changed();
  [isPinned, cross, largest] = [true, largest.at, { at: largest.at, since }];
  look(largest.at - DAY / 2, DAY);
}

function useButton({ target }) {
  const { range, zoom: factor, largest: wantsLargest, download: kind } = target.closest("button")?.dataset ?? {};
  if (range) choose(range);
  if (factor) zoom(Number(factor));
  if (kind) download(kind);
  if (!wantsLargest) return;
  isSearching = true;
  load();
}

const HANDLERS = { pointerdown: startDrag, pointermove: movePointer, pointerup: endDrag, pointercancel: endDrag, pointerleave: hideCross, keydown: useKey };
for (const [kind, work] of Object.entries(HANDLERS)) canvas.addEventListener(kind, work);
canvas.addEventListener("wheel", useWheel, { passive: false });
canvas.addEventListener("blur", () => readout.removeAttribute("aria-live"));
tool.addEventListener("click", useButton);
field.addEventListener("change", compare);
addEventListener("hashchange", readAddress);
document.addEventListener("renewed", renew);
new ResizeObserver(() => {
  size = { width: canvas.clientWidth, height: canvas.clientHeight };
  redraw();
}).observe(canvas);
new MutationObserver(readColours).observe(document.documentElement, { attributeFilter: ["data-theme"] });
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", readColours);
const isUseless = ({ range, largest: wantsLargest }) => (range === "1h" && !tool.dataset.minutes) || (wantsLargest && MEASURES.length < 4);
for (const control of tool.querySelectorAll(":disabled")) control.disabled = isUseless(control.dataset);
readColours();
load();
readAddress();
if (new URLSearchParams(location.hash.slice(1)).has("chart")) tool.scrollIntoView();
