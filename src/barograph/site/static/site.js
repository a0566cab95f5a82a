// Keeps pages up to date, marks stale data, copies text, counts down, and shows chart values.
// Every page is complete without it. New data comes from the same page, rendered by the server;
// only ages, countdowns and chart values are formatted here.

const LIVE_MS = 5_000;
const LOST_MS = 10_000;
const TICK_MS = 1_000;
const CLOCKS_AGREE_MS = 2_000;

// Announcements for screen readers: <p id="announcement" role="status">

function announce(text) {
  document.getElementById("announcement").textContent = text;
}

// Copy buttons: <button class="copy" data-copy="id" hidden>Copy</button>

function offerCopying(place) {
  if (!navigator.clipboard) return;
  for (const button of place.querySelectorAll("[data-copy]")) button.hidden = false;
}

async function copy(button) {
  const label = button.dataset.label ?? button.textContent;
  button.dataset.label = label;
  try {
    await navigator.clipboard.writeText(document.getElementById(button.dataset.copy).textContent);
    button.textContent = "Copied";
  } catch {
    button.textContent = "Copy failed";
  }
  announce(button.textContent);
  setTimeout(() => {
    button.textContent = label;
  }, 2_000);
}

// Live parts: <body data-live> and elements with an id and data-part

const rendered = new WeakMap(); // each part as the server rendered it, without ages and crosshairs
let etag = null;
let isRenewing = false;
let isLost = false;

function partsOf(page) {
  return page.querySelectorAll("[data-part]");
}

async function renew() {
  if (document.hidden || isRenewing) return;
  isRenewing = true;
  try {
    const headers = etag === null ? {} : { "If-None-Match": etag };
    const address = document.body.dataset.live || location.href;
    const response = await fetch(address, { headers, cache: "no-store", signal: AbortSignal.timeout(LOST_MS) });
    setClock(response.headers.get("Date"));
    if (response.status === 304) return; // never after a failure, which clears the ETag
    if (!response.ok) return change(() => markLost(response.status === 404 ? "page removed" : "server error"));
    const fresh = new DOMParser().parseFromString(await response.text(), "text/html");
    etag = response.headers.get("ETag");
    isLost = false;
    change(() => replaceParts(fresh));
  } catch {
    change(() => markLost("connection lost"));
  } finally {
    isRenewing = false;
  }
}

// Change the page, and announce it if the page becomes live, stale or lost.
function change(work) {
  const state = () => document.querySelector("[data-pill]")?.textContent;
  const before = state();
  work();
  if (state() !== before) announce(`Page status: ${state()}`);
}

function replaceParts(fresh) {
  for (const old of partsOf(document)) {
    const part = fresh.getElementById(old.id);
    const text = part?.outerHTML ?? "";
    if (text === rendered.get(old)) continue;
    if (isHeld(old)) {
      etag = null; // replaced at a later update
      continue;
    }
    if (part?.innerHTML.trim() === "" && old.dataset.bound) {
      if (!old.classList.contains("past")) end(old); // no newer numbers: strike out those we have
      rendered.set(old, text);
      continue;
    }
    if (part === null) old.replaceChildren();
    else replace(old, document.adoptNode(part));
    rendered.set(part ?? old, text);
  }
  document.dispatchEvent(new CustomEvent("renewed", { detail: fresh }));
  tick();
  showAgain();
}

// Don't replace a part while the visitor selects text or reads a chart by keyboard.
function isHeld(part) {
  return isSelected(part) || part.querySelector("svg[data-series]:focus-visible") !== null;
}

function isSelected(place) {
  const selection = getSelection();
  return !selection.isCollapsed && selection.containsNode(place, true);
}

// Keep the focus, the horizontal scroll positions, and what is opened.
function replace(old, part) {
  offerKeys(part);
  const opened = [...old.querySelectorAll("details")].map((each) => each.open);
  for (const [index, each] of part.querySelectorAll("details").entries()) each.open = opened[index] ?? false;
  const [before, after] = [old, part].map((each) => [...each.querySelectorAll("a, button, summary, [tabindex]")]);
  const held = before.indexOf(document.activeElement);
  const scrolled = before.map((each) => each.scrollLeft);
  old.replaceWith(part);
  offerCopying(part);
  after[held]?.focus({ preventScroll: true });
  for (const [index, left] of scrolled.entries()) if (left > 0 && after[index]) after[index].scrollLeft = left;
}

function markLost(text) {
  isLost = true;
  etag = null; // the next response must be complete
  for (const pill of document.querySelectorAll("[data-pill]")) {
    pill.className = "pill down";
    pill.textContent = text;
    forget(pill);
  }
}

// The part no longer matches what the server rendered.
function forget(place) {
  rendered.delete(place.closest("[data-part]"));
  etag = null;
}

// Ages and countdowns: <span data-since="ms"> and <span data-until="ms">. They use the server's clock
// once it is known, because the visitor's may be wrong.

let ahead = null;

function setClock(date) {
  const found = Date.parse(date) - Date.now();
  if (Number.isFinite(found)) ahead = Math.abs(found) < CLOCKS_AGREE_MS ? 0 : found;
}

function tick() {
  const now = Date.now() + (ahead ?? 0);
  if (ahead !== null || isLost) endBounds(now);
  for (const each of document.querySelectorAll("[data-since]")) {
    if (!isSelected(each)) each.textContent = `(${span(now - Number(each.dataset.since))} ago)`;
  }
  for (const each of document.querySelectorAll("[data-until]")) {
    const left = Number(each.dataset.until) - now;
    each.textContent = left > 0 ? `(in ${span(left)})` : "(now)";
  }
}

// Freshness limits: the content of <div data-bound="ms"> is stale from then on, even without newer
// data. Inside it, <b data-past="text"> shows that text instead, and a pill shows `data-then`.

function endBounds(now) {
  for (const each of document.querySelectorAll("[data-bound]:not(.past)")) {
    if (now >= Number(each.dataset.bound)) end(each);
  }
}

function end(place) {
  place.classList.add("past");
  for (const each of within(place, "[data-past]")) each.textContent = each.dataset.past;
  for (const pill of isLost ? [] : within(place, "[data-pill]")) {
    pill.className = pill.dataset.then ? "pill degraded" : "pill down";
    pill.textContent = pill.dataset.then ?? "stale";
  }
  forget(place);
}

function within(place, what) {
  return [...(place.matches(what) ? [place] : []), ...place.querySelectorAll(what)];
}

function span(milliseconds) {
  const seconds = Math.max(0, Math.round(milliseconds / 1_000));
  if (seconds < 90) return `${seconds} s`;
  const minutes = Math.floor(seconds / 60);
  if (minutes < 90) return `${minutes} min`;
  const hours = Math.floor(minutes / 60);
  if (hours < 48) return `${hours} h ${minutes % 60} min`;
  return `${Math.floor(hours / 24)} days`;
}

// The crosshair of a chart, by mouse, touch or arrow keys. Values are fetched on first use.

const LETTERS = ["k", "M", "B", "T"];
const SVG = "http://www.w3.org/2000/svg";
const series = new Map(); // by URL: the newest instant of the chart, and its values
let shown = null; // the URL of the chart and the instant

function offerKeys(place) {
  for (const chart of place.querySelectorAll("svg[data-series]")) {
    chart.setAttribute("tabindex", "0");
    chart.setAttribute("role", "application"); // an image would not receive the arrow keys
    chart.setAttribute("aria-roledescription", "chart");
    chart.setAttribute("aria-keyshortcuts", "ArrowLeft ArrowRight Home End Escape");
  }
}

function valuesOf({ dataset }) {
  const known = series.get(dataset.series);
  if (known?.newest === dataset.newest) return known.values;
  const values = load(dataset);
  series.set(dataset.series, { newest: dataset.newest, values });
  values.catch(() => {
    if (series.get(dataset.series)?.values === values) series.delete(dataset.series);
  });
  return values;
}

async function load({ series: address, step, time, venues }) {
  const answer = await fetch(address, { cache: "no-cache", signal: AbortSignal.timeout(LOST_MS) });
  if (!answer.ok) throw new Error(String(answer.status));
  const values = await answer.json();
  if (venues) values.points = values.points.map((point) => total(point, venues.split(" ")));
  return drawn(values, Number(step), Number.parseInt(time));
}

// The sum of the venues that a chart adds up, with what the missing ones last had.
function total({ at, venues: inside, by_venue: values, missing }, venues) {
  const sum = (numbers) => numbers.reduce((all, each) => all + each, 0);
  const last = missing.filter(({ venue }) => venues.includes(venue)).map((each) => each.last);
  const known = values.filter((_, index) => venues.includes(inside[index]));
  const value = known.length === 0 || last.includes(null) ? null : sum([...known, ...last]);
  return last.length === 0 ? { at, value } : { at, value, missing: sum(last) };
}

// What the chart draws of a series: samples at every step from `start` on, or sums of liquidations per step.
function drawn({ points, interval_seconds: seconds, as_of: end }, step, start) {
  const columns = new Map();
  for (const { at, long_usd: long, short_usd: short, watched, disputed } of points.filter((each) => "long_usd" in each)) {
    const since = Date.parse(at);
    const begin = Math.floor(since / step) * step;
    const column = columns.get(begin) ?? { long_usd: null, short_usd: null, watched: 0 };
    column.disputed ||= disputed;
    if (long !== null) [column.long_usd, column.short_usd] = [column.long_usd + long, column.short_usd + short];
    column.watched += watched * (Math.min(since + seconds * 1_000, Date.parse(end)) - since);
    if (begin + step > start) columns.set(begin, column);
  }
  if (columns.size === 0) return points.filter(({ at }) => Date.parse(at) >= start && Date.parse(at) % step === 0);
  return [...columns].map(([begin, { watched, ...sums }]) => {
    const over = Math.min(begin + step, Date.parse(end)) - begin;
    return { at: new Date(begin).toISOString(), ...sums, watched_pct: (100 * watched) / over };
  });
}

function show(chart, at) {
  if (shown !== null && shown.address !== chart.dataset.series) hide();
  shown = { address: chart.dataset.series, at };
  return showAgain();
}

// Mark the shown instant, also after its chart was replaced.
async function showAgain() {
  const asked = shown;
  const chart = asked && chartOf(asked.address);
  if (!chart) return;
  try {
    const points = await valuesOf(chart);
    if (shown === asked && chart.isConnected && points.length > 0) {
      mark(chart, points[nearest(chart, points, asked.at)]);
    }
  } catch {
    // Retried when the pointer moves.
  }
}

function hide() {
  const chart = shown && chartOf(shown.address);
  shown = null;
  if (chart) unmark(chart);
}

function chartOf(address) {
  return [...document.querySelectorAll("svg[data-series]")].find((each) => each.dataset.series === address);
}

function chartAt(event) {
  return event.target.closest?.("svg[data-series]") ?? null;
}

function instantAt(chart, clientX) {
  const box = chart.getBoundingClientRect();
  const { left, right, from, to } = axes(chart);
  const x = ((clientX - box.left) / box.width) * chart.viewBox.baseVal.width;
  return from + ((x - left) / (right - left)) * (to - from);
}

function axes({ dataset }) {
  const numbers = (text) => text.split(" ").map(Number);
  const [[left, top, right, bottom], [from, to], [low, high]] = [dataset.box, dataset.time, dataset.scale].map(numbers);
  return { left, top, right, bottom, from, to, low, high };
}

function nearest(chart, points, at) {
  const far = points.map((each) => Math.abs(middle(chart, each) - at));
  return far.indexOf(Math.min(...far));
}

// A sample is at its instant. A column, which has more than one value, begins there and may not be over.
function middle(chart, found) {
  const at = Date.parse(found.at);
  return "long_usd" in found ? (at + Math.min(at + Number(chart.dataset.step), axes(chart).to)) / 2 : at;
}

async function move(chart, key) {
  try {
    const points = await valuesOf(chart);
    const last = points.length - 1;
    const now = shown === null ? last : nearest(chart, points, shown.at);
    const next = { ArrowLeft: now - 1, ArrowRight: now + 1, Home: 0, End: last }[key];
    const found = points[Math.min(last, Math.max(0, next))];
    if (found !== undefined) await show(chart, middle(chart, found));
  } catch {
    // Retried with the next key.
  }
}

function mark(chart, found) {
  const { left, right, top, bottom, from, to, low, high } = axes(chart);
  const x = left + ((middle(chart, found) - from) / (to - from)) * (right - left);
  set(chart, "line", "crosshair", { x1: x, x2: x, y1: top, y2: bottom });
  const value = !("long_usd" in found) ? found.value : found.long_usd === null ? null : found.long_usd + found.short_usd;
  const share = Math.min(1, Math.max(0, (value - low) / (high - low)));
  if (value === null) chart.querySelector(".dot")?.remove();
  else set(chart, "circle", "dot", { cx: x, cy: bottom - share * (bottom - top), r: 3.5 });
  const when = found.at.slice(0, 16).replace("T", " ");
  const readout = readoutOf(chart);
  const text = `${when} UTC: ${valueText(found, chart.dataset)}`;
  if (readout !== null) readout.textContent = text.replace(/(\d) (?=\D)/g, "$1\u00a0"); // no unit on the next line
}

// Draw or move the one shape of a kind.
function set(chart, shape, kind, places) {
  const drawn = chart.querySelector(`.${kind}`) ?? chart.appendChild(document.createElementNS(SVG, shape));
  drawn.setAttribute("class", kind);
  for (const [name, value] of Object.entries(places)) drawn.setAttribute(name, value);
}

function unmark(chart) {
  for (const each of chart.querySelectorAll(".crosshair, .dot")) each.remove();
  const readout = readoutOf(chart);
  if (readout !== null) readout.textContent = readout.dataset.idle ?? "";
}

function readoutOf(chart) {
  return chart.closest("figure").querySelector(".readout");
}

function valueText({ at, origin, watched, disputed, ...values }, dataset) {
  const text = Object.entries(values)
    .filter(([, value]) => typeof value === "number" || value === null)
    .map(([name, value]) => [name.split("_"), value])
    .map(([[name, of], value]) => {
      const number = value === null ? "unknown" : of === "pct" ? coverage(value) : amount(value, dataset);
      return name === "value" ? number : `${name} ${number}`;
    })
    .join(", ");
  if (disputed) return `${text}, disputed`;
  return origin === "backfilled" ? `${text}, exchange history` : text;
}

// Cut off, because 99.97 is not complete.
function coverage(value) {
  return `${Math.floor(10 * value) / 10} %`;
}

// As on the server: amounts are abbreviated, prices are not, and a rate has its sign.
function amount(value, { unit, sign, decimals }) {
  if (decimals === "") return usd(value);
  const [least, most] = decimals.split(" ").map(Number);
  const digits = { minimumFractionDigits: least, maximumFractionDigits: most, signDisplay: sign };
  const rounded = Number(value.toFixed(most)) || 0; // never -0
  return `${rounded.toLocaleString("en", digits)} ${unit}`;
}

function usd(value) {
  let [rest, words] = [value, value.toFixed(0)];
  for (const letter of LETTERS) {
    if (Number(rest.toFixed(2)) < 1_000 && words !== "1000") break;
    rest /= 1_000;
    words = `${rest.toFixed(2)}${letter}`;
  }
  return `$${words}`;
}

// Scripts that few visits need are loaded on first use.

const finder = document.querySelector("[data-find]");

function find(event) {
  event.preventDefault();
  import(finder.dataset.find).then(({ open }) => open(), () => location.assign(finder.href));
}

finder.addEventListener("click", (event) => {
  if (!event.ctrlKey && !event.metaKey && !event.shiftKey) find(event);
});
document.addEventListener("keydown", (event) => {
  const isControl = (event.ctrlKey || event.metaKey) && !event.altKey && !event.shiftKey;
  if (isControl && event.key.toLowerCase() === "k") find(event);
});

// The symbols that the visitor starred, for markets.js and watchlist.js
export const WATCHED = "watched-perpetuals";

export function watched() {
  try {
    const kept = JSON.parse(localStorage.getItem(WATCHED)) ?? [];
    return new Set(Array.isArray(kept) ? kept.filter((each) => typeof each === "string") : []);
  } catch {
    return new Set(); // no storage, or something else is stored
  }
}

const watchlist = document.getElementById("watchlist");
if (watchlist !== null && watched().size > 0) import(watchlist.dataset.script);

document.addEventListener("click", (event) => {
  const button = event.target.closest("[data-copy]");
  if (button !== null) copy(button);
});
for (const kind of ["pointermove", "pointerdown"]) {
  document.addEventListener(kind, (event) => {
    const chart = chartAt(event);
    if (chart !== null) show(chart, instantAt(chart, event.clientX));
    else if (kind === "pointerdown") hide();
  });
}
document.addEventListener("pointerout", (event) => {
  // After a touch, the crosshair stays.
  if (event.pointerType !== "mouse" || chartAt(event) === null) return;
  if (!chartAt(event).contains(event.relatedTarget)) hide();
});
document.addEventListener("focusin", (event) => {
  const chart = chartAt(event);
  if (!chart?.matches(":focus-visible")) return;
  readoutOf(chart)?.setAttribute("aria-live", "polite"); // for screen readers
  show(chart, axes(chart).to);
});
document.addEventListener("focusout", (event) => {
  const chart = chartAt(event);
  if (chart === null) return;
  readoutOf(chart)?.removeAttribute("aria-live");
  if (shown?.address === chart.dataset.series) hide();
});
document.addEventListener("keydown", (event) => {
  const chart = chartAt(event);
  if (chart === null || event.ctrlKey || event.metaKey || event.altKey) return;
  if (event.key === "Escape") chart.blur();
  if (!["ArrowLeft", "ArrowRight", "Home", "End"].includes(event.key)) return;
  event.preventDefault();
  move(chart, event.key);
});

for (const part of partsOf(document)) rendered.set(part, part.outerHTML);
offerCopying(document);
offerKeys(document);
tick();
setInterval(() => change(tick), TICK_MS);
if (document.body.hasAttribute("data-live")) {
  setInterval(renew, LIVE_MS);
  document.addEventListener("visibilitychange", renew);
  document.addEventListener("renew", renew);
}
