// What pages do beyond reading: they stay up to date, say when they no longer are, copy, count down
// and tell a value of a chart. Every page is complete without it. What is new comes from the same
// page, written by the server; only ages, countdowns and the value of a chart are written here.

const LIVE_MS = 5_000;
const LOST_MS = 10_000;
const TICK_MS = 1_000;
const CLOCKS_AGREE_MS = 2_000;

// Who cannot see that something has changed is told: <p id="said" role="status">

function say(words) {
  document.getElementById("said").textContent = words;
}

// Copy buttons: <button class="copy" data-copy="id" hidden>Copy</button>

function offerCopying(place) {
  if (!navigator.clipboard) return;
  for (const button of place.querySelectorAll("[data-copy]")) button.hidden = false;
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
    const answer = await fetch(address, { headers, cache: "no-store", signal: AbortSignal.timeout(LOST_MS) });
    setClock(answer.headers.get("Date"));
    if (answer.status === 304) return; // never after a loss: nothing is asked for by its tag then
    if (!answer.ok) return change(() => sayLost(answer.status === 404 ? "no longer here" : "not answered"));
    const fresh = new DOMParser().parseFromString(await answer.text(), "text/html");
    etag = answer.headers.get("ETag");
    isLost = false;
    change(() => replaceParts(fresh));
  } catch {
    change(() => sayLost("connection lost"));
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
    if (isHeld(old)) {
      etag = null; // it is taken at a later turn
      continue;
    }
    if (part === null) old.replaceChildren();
    else replace(old, document.adoptNode(part));
    written.set(part ?? old, text);
  }
  document.dispatchEvent(new CustomEvent("renewed", { detail: fresh }));
  tick();
  showAgain();
}

// What somebody has selected, or reads by keys, is not taken away.
function isHeld(part) {
  return isSelected(part) || part.querySelector("svg[data-series]:focus-visible") !== null;
}

function isSelected(place) {
  const selection = getSelection();
  return !selection.isCollapsed && selection.containsNode(place, true);
}

// Who was on a link stays on it, and what was scrolled sideways stays there.
function replace(old, part) {
  offerKeys(part);
  const [before, after] = [old, part].map((each) => [...each.querySelectorAll("a, button, [tabindex]")]);
  const held = before.indexOf(document.activeElement);
  const scrolled = before.map((each) => each.scrollLeft);
  old.replaceWith(part);
  offerCopying(part);
  after[held]?.focus({ preventScroll: true });
  for (const [index, left] of scrolled.entries()) if (left > 0 && after[index]) after[index].scrollLeft = left;
}

function sayLost(words) {
  isLost = true;
  etag = null; // whatever comes next is written out again
  for (const pill of document.querySelectorAll("[data-pill]")) {
    pill.className = "pill down";
    pill.textContent = words;
    forget(pill);
  }
}

// It is no longer what the server wrote.
function forget(place) {
  written.delete(place.closest("[data-part]"));
  etag = null;
}

// Ages and countdowns: <span data-since="ms"> and <span data-until="ms">. They go by the server's
// clock as soon as it is known: the visitor's may be wrong.

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

// Bounds: what stands in <div data-bound="ms"> is not of now from then on, whether or not anything
// newer comes. Inside, <b data-past="words"> has what is said instead, and a pill says `data-then`.

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

// The crosshair of a chart: by the pointer, a finger or the arrow keys. Its values are fetched when
// the first of them is wanted.

const LETTERS = ["k", "M", "B", "T"];
const series = new Map(); // by address: up to when the chart goes, and its values
let shown = null; // of which chart, by its address, which instant

function offerKeys(place) {
  for (const chart of place.querySelectorAll("svg[data-series]")) {
    chart.setAttribute("tabindex", "0");
    chart.setAttribute("role", "application"); // of an image the arrow keys would not come here
    chart.setAttribute("aria-roledescription", "chart");
    chart.setAttribute("aria-keyshortcuts", "ArrowLeft ArrowRight Home End Escape");
  }
}

function valuesOf({ dataset }) {
  const known = series.get(dataset.series);
  if (known?.to === dataset.to) return known.values;
  const values = load(dataset.series);
  series.set(dataset.series, { to: dataset.to, values });
  values.catch(() => {
    if (series.get(dataset.series)?.values === values) series.delete(dataset.series);
  });
  return values;
}

async function load(address) {
  const answer = await fetch(address, { cache: "no-cache", signal: AbortSignal.timeout(LOST_MS) });
  if (!answer.ok) throw new Error(String(answer.status));
  return answer.json();
}

function show(chart, at) {
  if (shown !== null && shown.address !== chart.dataset.series) hide();
  shown = { address: chart.dataset.series, at };
  return showAgain();
}

// Mark what is shown; also after its chart has been replaced.
async function showAgain() {
  const asked = shown;
  const chart = asked && chartOf(asked.address);
  if (!chart) return;
  try {
    const { points, interval_seconds: step } = await valuesOf(chart);
    if (shown === asked && chart.isConnected && points.length > 0) {
      mark(chart, points[nearest(points, step, asked.at)], step);
    }
  } catch {
    // It is asked for again when the pointer moves.
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
  const [left, right, from, to] = axis(chart);
  const x = ((clientX - box.left) / box.width) * chart.viewBox.baseVal.width;
  return from + ((x - left) / (right - left)) * (to - from);
}

function axis({ dataset }) {
  return [dataset.left, dataset.right, dataset.from, dataset.to].map(Number);
}

function nearest(points, step, at) {
  const far = points.map((each) => Math.abs(middle(each, step) - at));
  return far.indexOf(Math.min(...far));
}

// A sample stands at its instant; a column, which has more than one value, begins there.
function middle(found, step) {
  return Date.parse(found.at) + ("value" in found ? 0 : (step * 1_000) / 2);
}

async function move(chart, key) {
  try {
    const { points, interval_seconds: step } = await valuesOf(chart);
    const last = points.length - 1;
    const now = shown === null ? last : nearest(points, step, shown.at);
    const next = { ArrowLeft: now - 1, ArrowRight: now + 1, Home: 0, End: last }[key];
    const found = points[Math.min(last, Math.max(0, next))];
    if (found !== undefined) await show(chart, middle(found, step));
  } catch {
    // It is asked for again with the next key.
  }
}

function mark(chart, found, step) {
  const [left, right, from, to] = axis(chart);
  const x = left + ((middle(found, step) - from) / (to - from)) * (right - left);
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
  const readout = readoutOf(chart);
  if (readout !== null) readout.textContent = `${when} UTC: ${told(found, chart.dataset)}`;
}

function unmark(chart) {
  chart.querySelector(".crosshair")?.remove();
  const readout = readoutOf(chart);
  if (readout !== null) readout.textContent = readout.dataset.idle ?? "";
}

function readoutOf(chart) {
  return chart.closest("figure").querySelector(".readout");
}

function told({ at, ...values }, dataset) {
  return Object.entries(values)
    .filter(([, value]) => typeof value === "number" || value === null)
    .map(([name, value]) => [name.split("_"), value])
    .map(([[name, of], value]) => {
      const number = value === null ? "not known" : amount(value, of === "pct" ? { unit: "%" } : dataset);
      return name === "value" ? number : `${name} ${number}`;
    })
    .join(", ");
}

// As the server writes it: money in short; a rate with its sign, which says who pays whom.
function amount(value, { unit, sign = "auto", decimals = 0 }) {
  if (unit === "USD") return usd(value);
  const digits = { minimumFractionDigits: Number(decimals), maximumFractionDigits: 20, signDisplay: sign };
  return `${value.toLocaleString("en", digits)} ${unit}`;
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
  // What a finger has touched stays when the finger leaves.
  if (event.pointerType !== "mouse" || chartAt(event) === null) return;
  if (!chartAt(event).contains(event.relatedTarget)) hide();
});
document.addEventListener("focusin", (event) => {
  const chart = chartAt(event);
  if (!chart?.matches(":focus-visible")) return;
  readoutOf(chart)?.setAttribute("aria-live", "polite"); // whoever uses keys may not see it
  show(chart, Number(chart.dataset.to));
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

for (const part of partsOf(document)) written.set(part, part.outerHTML);
offerCopying(document);
offerKeys(document);
tick();
setInterval(() => change(tick), TICK_MS);
if (document.body.hasAttribute("data-live")) {
  setInterval(renew, LIVE_MS);
  document.addEventListener("visibilitychange", renew);
  document.addEventListener("renew", renew);
}
