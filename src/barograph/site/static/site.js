// What pages do beyond reading: they stay up to date, copy, count down and show a value under the
// pointer. Every page is complete without it, and it never writes a number of its own: what is new
// comes from the same page, written by the server.

const LIVE_MS = 5_000;
const TICK_MS = 1_000;

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

// Who cannot see that a button has changed is told.
function say(words) {
  let said = document.getElementById("said");
  if (said === null) {
    said = Object.assign(document.createElement("p"), { id: "said", className: "hidden", role: "status" });
    document.body.append(said);
  }
  said.textContent = words;
}

// Live parts: <body data-live> and elements with an id and data-part

let etag = null;

async function renew() {
  if (document.hidden) return;
  try {
    const headers = etag === null ? {} : { "If-None-Match": etag };
    const address = document.body.dataset.live || location.href;
    const answer = await fetch(address, { headers, cache: "no-store" });
    if (answer.status === 304) return;
    if (!answer.ok) throw new Error(String(answer.status));
    etag = answer.headers.get("ETag");
    replaceParts(new DOMParser().parseFromString(await answer.text(), "text/html"));
  } catch {
    etag = null; // whatever comes next is written out again
    sayLost();
  }
}

function replaceParts(fresh) {
  for (const old of document.querySelectorAll("[data-part]")) {
    const part = fresh.getElementById(old.id);
    if (part !== null && part.outerHTML !== old.outerHTML) replace(old, document.adoptNode(part));
  }
  renewTable(fresh);
  offerCopying();
  tick();
}

function replace(old, part) {
  const [before, after] = [old, part].map((each) => [...each.querySelectorAll("a, button")]);
  const held = before.indexOf(document.activeElement);
  old.replaceWith(part);
  after[held]?.focus({ preventScroll: true }); // who was on a link stays on it
}

function sayLost() {
  for (const pill of document.querySelectorAll("[data-pill]")) {
    pill.className = "pill down";
    pill.textContent = "connection lost";
  }
}

// Ages and countdowns: <span data-since="ms"> and <span data-until="ms">

function tick() {
  const now = Date.now();
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

const series = new Map();

function pointsOf(chart) {
  const address = chart.dataset.series;
  if (!series.has(address)) {
    series.set(
      address,
      fetch(address).then(async (answer) => (answer.ok ? answer.json() : { points: [] })),
    );
  }
  return series.get(address);
}

async function point(chart, event) {
  const box = chart.getBoundingClientRect();
  const { width } = chart.viewBox.baseVal;
  const [left, right] = [Number(chart.dataset.left), Number(chart.dataset.right)];
  const [from, to] = [Number(chart.dataset.from), Number(chart.dataset.to)];
  const x = ((event.clientX - box.left) / box.width) * width;
  const at = from + ((x - left) / (right - left)) * (to - from);
  const { points, interval_seconds: step } = await pointsOf(chart);
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
  return value.toLocaleString("en", { maximumSignificantDigits: 6 });
}

function unmark(chart) {
  chart.querySelector(".crosshair")?.remove();
  const readout = chart.closest("figure").querySelector(".readout");
  if (readout !== null) readout.textContent = readout.dataset.idle ?? "";
}

// Tables that can be sorted and searched where they stand: <table data-sorts> in #perpetuals. What is
// chosen is kept in the address, which the server understands alike.

const REST_MS = 2_000;
let typing = null;
let waiting = null;

function listed() {
  return document.querySelector("table[data-sorts]");
}

function chosen(table) {
  const asked = new URLSearchParams(location.search);
  const known = [...table.tHead.querySelectorAll("[data-sort]")].map((head) => head.dataset.sort);
  const sort = known.find((each) => each === asked.get("sort")) ?? table.dataset.usual.split(" ")[0];
  const order = ["asc", "desc"].find((each) => each === asked.get("order")) ?? usualOrder(sort);
  return { sort, order, q: asked.get("q") ?? "" };
}

function usualOrder(sort) {
  return sort === "symbol" ? "asc" : "desc";
}

function turned(choice, sort) {
  const other = choice.order === "asc" ? "desc" : "asc";
  return { ...choice, sort, order: sort === choice.sort ? other : usualOrder(sort) };
}

function addressOf(table, { sort, order, q }) {
  const isUsual = `${sort} ${order}` === table.dataset.usual;
  const query = new URLSearchParams({ ...(isUsual ? {} : { sort, order }), ...(q ? { q } : {}) });
  return location.pathname + (String(query) && `?${query}`);
}

function choose(table, choice) {
  history.replaceState(history.state, "", addressOf(table, choice));
  filter(table, choice);
  arrange(table, choice);
}

function filter(table, { q }) {
  const wanted = q.trim().toUpperCase();
  const rows = [...table.tBodies[0].rows];
  for (const row of rows) {
    const { name, contract } = row.dataset;
    row.hidden = !name.includes(wanted) && !contract.toUpperCase().startsWith(wanted);
  }
  const shown = rows.filter((row) => !row.hidden).length;
  document.getElementById("shown").textContent = String(shown);
  document.getElementById("total").textContent = String(rows.length);
  document.getElementById("nothing").hidden = shown > 0;
}

function arrange(table, choice) {
  const rows = [...table.tBodies[0].rows];
  const sorted = inOrder(rows, table.dataset.sorts.split(" ").indexOf(choice.sort), choice.order);
  if (sorted.some((row, index) => row !== rows[index])) table.tBodies[0].append(...sorted);
  for (const head of table.tHead.querySelectorAll("[data-sort]")) {
    if (head.dataset.sort === choice.sort) head.setAttribute("aria-sort", `${choice.order}ending`);
    else head.removeAttribute("aria-sort");
    head.firstElementChild.href = addressOf(table, turned(choice, head.dataset.sort));
  }
}

// As on the server: what is not known comes last, and equals go by their names.
function inOrder(rows, place, order) {
  const sign = order === "asc" ? 1 : -1;
  const byName = (one, other) => (one.name > other.name) - (one.name < other.name);
  const byNumber = (one, other) =>
    (one.number === null) - (other.number === null) || sign * (one.number - other.number) || byName(one, other);
  const keyed = rows.map((row) => {
    const number = row.dataset.values.split(" ")[place] ?? "";
    return { row, name: row.dataset.name, number: number === "" ? null : Number(number) };
  });
  keyed.sort(place < 0 ? (one, other) => sign * byName(one, other) : byNumber);
  return keyed.map(({ row }) => row);
}

function search(field) {
  clearTimeout(typing);
  typing = setTimeout(() => {
    typing = null;
    if (waiting !== null) renewTable(waiting);
  }, REST_MS);
  const table = listed();
  choose(table, { ...chosen(table), q: field.value });
  // Only what was searched for came with the page; the other rows are in the usual one.
  if (!table.hasAttribute("data-whole")) renew();
}

function renewTable(fresh) {
  const [old, place] = [document, fresh].map((each) => each.getElementById("perpetuals"));
  if (old === null || place === null) return;
  const table = listed();
  const other = place.querySelector("table");
  if (table === null || other === null) {
    old.replaceWith(document.adoptNode(place));
    waiting = null;
    if (listed() !== null) restore(listed());
    return;
  }
  const isNew = addRows(table, other);
  // Nothing changes under the hands of somebody who types.
  waiting = typing === null ? null : fresh;
  if (waiting === null) renewRows(table, other);
  const choice = chosen(table);
  filter(table, choice);
  const isLookedAt = !matchMedia("(hover: hover)").matches || table.matches(":hover, :focus-within");
  if (isNew || (waiting === null && !isLookedAt)) arrange(table, choice);
}

function restore(table) {
  const choice = chosen(table);
  document.querySelector("[data-search]").value = choice.q;
  choose(table, choice);
}

function addRows(table, other) {
  const known = new Set([...table.tBodies[0].rows].map((row) => row.dataset.contract));
  const rows = [...other.tBodies[0].rows].filter((row) => !known.has(row.dataset.contract));
  table.tBodies[0].append(...rows.map((row) => document.importNode(row, true)));
  table.setAttribute("data-whole", "");
  return rows.length > 0;
}

function renewRows(table, other) {
  const found = new Map([...other.tBodies[0].rows].map((row) => [row.dataset.contract, row]));
  for (const row of [...table.tBodies[0].rows]) {
    const fresh = found.get(row.dataset.contract);
    if (fresh === undefined) row.remove();
    else renewCells(row, fresh);
  }
}

function renewCells(row, fresh) {
  row.dataset.values = fresh.dataset.values;
  for (const [index, cell] of [...row.cells].entries()) {
    const other = fresh.cells[index];
    if (cell.textContent !== other.textContent) cell.replaceWith(document.importNode(other, true));
  }
}

document.addEventListener("click", (event) => {
  const head = event.target.closest("th[data-sort] a")?.parentElement;
  if (!head || event.ctrlKey || event.metaKey || event.shiftKey || event.altKey) return;
  event.preventDefault();
  choose(listed(), turned(chosen(listed()), head.dataset.sort));
});
document.addEventListener("submit", (event) => {
  if (event.target.matches('[role="search"]') && listed() !== null) event.preventDefault();
});

document.addEventListener("click", (event) => {
  const button = event.target.closest("[data-copy]");
  if (button !== null) copy(button);
});
document.addEventListener("input", (event) => {
  if (event.target.matches("[data-search]")) search(event.target);
});
document.addEventListener("pointermove", (event) => {
  const chart = event.target.closest?.("svg[data-series]");
  if (chart) point(chart, event);
});
document.addEventListener("pointerout", (event) => {
  const chart = event.target.closest?.("svg[data-series]");
  if (chart && !chart.contains(event.relatedTarget)) unmark(chart);
});

offerCopying();
tick();
setInterval(tick, TICK_MS);
if (document.body.hasAttribute("data-live")) setInterval(renew, LIVE_MS);
