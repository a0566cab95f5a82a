// Sorts and searches the table of perpetuals in the browser: <table data-sorts> in #perpetuals. The
// query in the address has the same meaning as on the server. New data comes from the page that
// site.js fetches.

const REST_MS = 2_000;
let typing = null;
let waiting = null;

function listed() {
  return document.querySelector("table[data-sorts]");
}

function chosen(table) {
  const asked = new URLSearchParams(location.search);
  const known = [...table.tHead.querySelectorAll("[data-sort]")].map((head) => head.dataset.sort);
  const sort = known.find((each) => each === asked.get("sort")) ?? table.dataset.default.split(" ")[0];
  const order = ["asc", "desc"].find((each) => each === asked.get("order")) ?? defaultOrder(sort);
  return { sort, order, q: asked.get("q") ?? "" };
}

function defaultOrder(sort) {
  return sort === "symbol" ? "asc" : "desc";
}

function turned(choice, sort) {
  const other = choice.order === "asc" ? "desc" : "asc";
  return { ...choice, sort, order: sort === choice.sort ? other : defaultOrder(sort) };
}

function addressOf(table, { sort, order, q }) {
  const isDefault = `${sort} ${order}` === table.dataset.default;
  const query = new URLSearchParams({ ...(isDefault ? {} : { sort, order }), ...(q ? { q } : {}) });
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
    const { name, contract, names = "" } = row.dataset;
    const full = [contract.toUpperCase(), ...names.split(" ")];
    row.hidden = !name.includes(wanted) && !full.some((each) => each.startsWith(wanted));
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

// As on the server: unknown numbers come last, and equal numbers are sorted by name.
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
  // A page with a search has only its matches; the other rows come with the default page.
  if (!table.hasAttribute("data-complete")) document.dispatchEvent(new Event("renew"));
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
  // Don't change the table while the visitor selects text in it.
  const selection = getSelection();
  if (!selection.isCollapsed && selection.containsNode(old, true)) return;
  const isNew = addRows(table, other);
  // Don't change the table while the visitor types.
  waiting = typing === null ? null : fresh;
  if (waiting === null) {
    renewRows(table, other);
    old.dataset.bound = place.dataset.bound;
    old.classList.remove("past");
  }
  const choice = chosen(table);
  filter(table, choice);
  const isInUse = !matchMedia("(hover: hover)").matches || table.matches(":hover, :focus-within");
  if (isNew || (waiting === null && !isInUse)) arrange(table, choice);
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
  table.setAttribute("data-complete", "");
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
document.addEventListener("input", (event) => {
  if (event.target.matches("[data-search]")) search(event.target);
});
document.addEventListener("renewed", ({ detail }) => renewTable(detail));
