// What pages do beyond reading: they stay up to date, copy, count down and show a value under the
// pointer. Every page is complete without it. What is new comes from the same page, written by the
// server; only ages, countdowns and the value under the pointer are written here, and that value
// with every digit it has.

const LIVE_MS = 5_000;
const LOST_MS = 10_000;
const TICK_MS = 1_000;
const CLOCKS_AGREE_MS = 2_000;

// Who cannot see that something has changed is told: <p id="said" role="status">

function say(words) {
  document.getElementById("said").textContent = words;
}

// Copy buttons: <button class="copy" data-copy="id" hidden>Copy</button>

function offerCopying() {
  if (!navigator.clipboard) return;
  for (const button of document.querySelectorAll("[data-copy]")) button.hidden = false;
}

async function copy(button) {
  const words = button.dataset.words ?? button.textContent;
  button.dataset.words = words;
  try {
    await navigator.clipboard.writeText(document.getElementById(button.dataset.copy).textContent);
    button.textContent = "Copied";
  } catch {
    button.textContent = "Not copied";
  }
  say(button.textContent);
  setTimeout(() => {
    button.textContent = words;
  }, 2_000);
}

// Live parts: <body data-live> and elements with an id and data-part

const written = new WeakMap(); // each part as the server wrote it, without ages and crosshairs
let etag = null;
let isRenewing = false;

function partsOf(page) {
  return page.querySelectorAll("[data-part]");
}

async function renew() {
  if (document.hidden || isRenewing) return;
  isRenewing = true;
  try {
    const headers = etag === null ? {} : { "If-None-Match": etag };
    const address = document.body.dataset.live || location.href;
    const answer = await fetch(address, { headers, cache: "no-store", signal: AbortSignal.timeout(LOST_MS) });
    setClock(answer.headers.get("Date"));
    if (answer.status === 304) return;
    if (!answer.ok) throw new Error(String(answer.status));
    const fresh = new DOMParser().parseFromString(await answer.text(), "text/html");
    etag = answer.headers.get("ETag");
    change(() => replaceParts(fresh));
  } catch {
    etag = null; // whatever comes next is written out again
    change(sayLost);
  } finally {
    isRenewing = false;
  }
}

// Change the page, and tell it when that makes it live, stale or lost.
function change(work) {
  const stand = () => document.querySelector("[data-pill]")?.textContent;
  const before = stand();
  work();
  if (stand() !== before) say(`This page is now: ${stand()}`);
}

function replaceParts(fresh) {
  for (const old of partsOf(document)) {
    const part = fresh.getElementById(old.id);
    const text = part?.outerHTML ?? "";
    if (text === written.get(old)) continue;
    if (part === null) old.replaceChildren();
    else replace(old, document.adoptNode(part));
    written.set(part ?? old, text);
  }
  document.dispatchEvent(new CustomEvent("renewed", { detail: fresh }));
  offerCopying();
  tick();
  point();
}

// Who was on a link stays on it, and what was scrolled sideways stays there.
function replace(old, part) {
  const [before, after] = [old, part].map((each) => [...each.querySelectorAll("a, button, [tabindex]")]);
  const held = before.indexOf(document.activeElement);
  const scrolled = before.map((each) => each.scrollLeft);
  old.replaceWith(part);
  after[held]?.focus({ preventScroll: true });
  for (const [index, left] of scrolled.entries()) if (left > 0 && after[index]) after[index].scrollLeft = left;
}

function sayLost() {
  for (const pill of document.querySelectorAll("[data-pill]")) {
    pill.className = "pill down";
    pill.textContent = "connection lost";
    written.delete(pill.closest("[data-part]")); // it is no longer what the server wrote
  }
}

// Ages and countdowns: <span data-since="ms"> and <span data-until="ms">. They go by the server's
// clock as soon as it is known: the visitor's may be wrong.

let ahead = 0;

function setClock(date) {
  const found = Date.parse(date) - Date.now();
  if (Number.isFinite(found)) ahead = Math.abs(found) < CLOCKS_AGREE_MS ? 0 : found;
}

function tick() {
  const now = Date.now() + ahead;
  for (const each of document.querySelectorAll("[data-since]")) {
    each.textContent = `(${span(now - Number(each.dataset.since))} ago)`;
  }
  for (const each of document.querySelectorAll("[data-until]")) {
    const left = Number(each.dataset.until) - now;
    each.textContent = left > 0 ? `(in ${span(left)})` : "(now)";
  }
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

// The crosshair of a chart: its values are fetched when the pointer first comes

const series = new Map(); // by address: up to when the chart goes, and its values
let pointer = null; // where it is, while it is over a chart

function valuesOf({ dataset }) {
  const known = series.get(dataset.series);
  if (known?.to === dataset.to) return known.values;
  const values = fetch(dataset.series).then((answer) => {
    if (!answer.ok) throw new Error(String(answer.status));
    return answer.json();
  });
  series.set(dataset.series, { to: dataset.to, values });
  values.catch(() => series.delete(dataset.series));
  return values;
}

// Mark what is under the pointer; also after a chart has been replaced there.
async function point() {
  const chart = chartAt(pointer);
  if (!chart) return;
  try {
    const found = await valuesOf(chart);
    if (chartAt(pointer) === chart) markNearest(chart, found);
  } catch {
    // It is asked for again when the pointer moves.
  }
}

function chartAt(place) {
  return place && document.elementFromPoint(place.clientX, place.clientY)?.closest("svg[data-series]");
}

function markNearest(chart, { points, interval_seconds: step }) {
  const box = chart.getBoundingClientRect();
  const [left, right] = [Number(chart.dataset.left), Number(chart.dataset.right)];
  const [from, to] = [Number(chart.dataset.from), Number(chart.dataset.to)];
  const x = ((pointer.clientX - box.left) / box.width) * chart.viewBox.baseVal.width;
  const at = from + ((x - left) / (right - left)) * (to - from);
  const nearest = points
    .map((each) => ({ each, when: middle(each, step) }))
    .reduce((best, one) => (Math.abs(one.when - at) < Math.abs(best.when - at) ? one : best), { when: Infinity });
  if (nearest.each) mark(chart, nearest.each, left + ((nearest.when - from) / (to - from)) * (right - left));
}

// A sample stands at its instant; a column, which has more than one value, begins there.
function middle(found, step) {
  return Date.parse(found.at) + ("value" in found ? 0 : (step * 1_000) / 2);
}

function mark(chart, found, x) {
  let line = chart.querySelector(".crosshair");
  if (line === null) {
    line = document.createElementNS("http://www.w3.org/2000/svg", "line");
    line.setAttribute("class", "crosshair");
    line.setAttribute("y1", chart.dataset.top);
    line.setAttribute("y2", chart.dataset.bottom);
    chart.append(line);
  }
  line.setAttribute("x1", x);
  line.setAttribute("x2", x);
  const when = found.at.slice(0, 16).replace("T", " ");
  const readout = chart.closest("figure").querySelector(".readout");
  if (readout !== null) readout.textContent = `${when} UTC: ${told(found, chart.dataset.unit)}`;
}

function told({ at, ...values }, unit) {
  return Object.entries(values)
    .filter(([, value]) => typeof value === "number" || value === null)
    .map(([name, value]) => [name.split("_"), value])
    .map(([[name, of], value]) => {
      const number = value === null ? "not known" : `${amount(value)} ${of === "pct" ? "%" : unit}`;
      return name === "value" ? number : `${name} ${number}`;
    })
    .join(", ");
}

function amount(value) {
  return value.toLocaleString("en", { maximumFractionDigits: 20 });
}

function unmark(chart) {
  chart.querySelector(".crosshair")?.remove();
  const readout = chart.closest("figure").querySelector(".readout");
  if (readout !== null) readout.textContent = readout.dataset.idle ?? "";
}

document.addEventListener("click", (event) => {
  const button = event.target.closest("[data-copy]");
  if (button !== null) copy(button);
});
document.addEventListener("pointermove", (event) => {
  const chart = event.target.closest?.("svg[data-series]");
  if (!chart) return;
  pointer = event;
  point();
});
document.addEventListener("pointerout", (event) => {
  const chart = event.target.closest?.("svg[data-series]");
  if (!chart || chart.contains(event.relatedTarget)) return;
  pointer = null;
  unmark(chart);
});

for (const part of partsOf(document)) written.set(part, part.outerHTML);
offerCopying();
tick();
setInterval(tick, TICK_MS);
if (document.body.hasAttribute("data-live")) {
  setInterval(renew, LIVE_MS);
  document.addEventListener("visibilitychange", renew);
  document.addEventListener("renew", renew);
}
