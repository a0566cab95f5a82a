// Sorts and searches the table of perpetuals in the browser: <table data-sorts> in #perpetuals. The
// query in the address has the same meaning as on the server; `watch=1`, which shows only the
// visitor's own list, is known only here. New data comes from the page that site.js fetches.

const { WATCHED, watched: stored } = await import(document.getElementById("site-script").src);
const REST_MS = 2_000;
let typing = null;
let waiting = null;
let unsaved = null; // the list, if the browser refuses to store it

function listed() {
  return document.querySelector("table[data-sorts]");
}

// The query of the address. As on the server, the last of several values counts.
function chosen(table) {
  const asked = Object.fromEntries(new URLSearchParams(location.search));
  const known = [...table.tHead.querySelectorAll("[data-sort]")].map((head) => head.dataset.sort);
  const sort = known.includes(asked.sort) ? asked.sort : table.dataset.default.split(" ")[0];
  const order = ["asc", "desc"].includes(asked.order) ? asked.order : defaultOrder(sort);
  return { sort, order, q: asked.q ?? "", watch: asked.watch === "1" && watchLink() !== null };
}

function watchLink() {
  return document.querySelector("a[data-watch]");
}

function defaultOrder(sort) {
  return sort === "symbol" ? "asc" : "desc";
}

function turned(choice, sort) {
  const other = choice.order === "asc" ? "desc" : "asc";
  return { ...choice, sort, order: sort === choice.sort ? other : defaultOrder(sort) };
}

// An address with this choice; its filters stay as they are.
function addressOf(table, { sort, order, q, watch }, from = location.href) {
  const url = new URL(from);
  const isDefault = `${sort} ${order}` === table.dataset.default;
  const fields = { ...(isDefault ? {} : { sort, order }), q: q || undefined, watch: watch ? "1" : undefined };
  for (const name of ["sort", "order", "q", "watch"]) {
    url.searchParams.delete(name);
    if (fields[name] !== undefined) url.searchParams.set(name, fields[name]);
  }
  return url.href;
}

// A click can be undone with the Back button; every letter of a search can't.
function go(address, isClick = false) {
  if (isClick) history.pushState(null, "", address);
  else history.replaceState(history.state, "", address);
  show(listed());
}

function show(table) {
  const choice = chosen(table);
  filter(table, choice);
  arrange(table, choice);
}

function nameOf(row) {
  return row.cells[0].textContent.toUpperCase();
}

function matches(row, wanted, suffix) {
  const name = nameOf(row);
  const { contract = name + suffix, names = "" } = row.dataset;
  return name.includes(wanted) || [contract.toUpperCase(), ...names.split(" ")].some((each) => each.startsWith(wanted));
}

function filter(table, { q, watch }) {
  const wanted = q.replace(/[\s/_-]/g, "").toUpperCase();
  const only = watch ? watched() : null;
  const rows = [...table.tBodies[0].rows];
  for (const row of rows) {
    row.hidden = !matches(row, wanted, table.dataset.suffix ?? "") || (only !== null && !only.has(symbolOf(row)));
  }
  const shown = rows.filter((row) => !row.hidden).length;
  const note = watchNote(rows, only);
  document.getElementById("nothing").hidden = shown > 0 || only?.size === 0;
  document.getElementById("shown").textContent = String(shown);
  if (watchLink() !== null) document.getElementById("watched").textContent = note;
}

// What the visitor must know about the list that they look at.
function watchNote(rows, only) {
  if (only?.size === 0) return "Your watchlist is empty. Press ☆ beside a symbol.";
  if (unsaved !== null) return "Your browser blocks storage for this site, so it forgets your watchlist when you leave this page.";
  if (only === null) return "";
  // Filters of the server and its search leave rows out.
  if (String(rows.length) !== document.getElementById("total").textContent) return "";
  const gone = [...only].filter((symbol) => !rows.some((row) => symbolOf(row) === symbol));
  const words = gone.length === 1 ? "1 watched coin is" : `${gone.length} watched coins are`;
  return gone.length === 0 ? "" : `${words} not listed here: ${gone.join(", ")}.`;
}

function arrange(table, choice) {
  const rows = [...table.tBodies[0].rows];
  const sorted = inOrder(rows, table.dataset.sorts.split(" ").indexOf(choice.sort), choice.order);
  if (sorted.some((row, index) => row !== rows[index])) table.tBodies[0].append(...sorted);
  for (const head of table.tHead.querySelectorAll("[data-sort]")) {
    head.ariaSort = head.dataset.sort === choice.sort ? `${choice.order}ending` : null;
    head.firstElementChild.href = addressOf(table, turned(choice, head.dataset.sort));
  }
  renewLinks(table, choice);
}

// Filters keep what was chosen here. Only the browser knows the list of the visitor.
function renewLinks(table, choice) {
  const link = watchLink();
  for (const each of document.querySelectorAll("a[data-keep]")) each.href = addressOf(table, choice, each.href);
  if (link === null) return;
  link.href = addressOf(table, { ...choice, watch: !choice.watch });
  link.ariaCurrent = choice.watch ? "true" : null;
}

// The list of the visitor, and a star in every row that has a page

const watched = () => unsaved ?? stored();

function symbolOf(row) {
  return row.cells[0].querySelector("a")?.pathname.split("/").at(-1);
}

function addStars(table) {
  if (watchLink() === null) return;
  const known = watched();
  for (const row of table.tBodies[0].rows) {
    const [head, symbol] = [row.cells[0], symbolOf(row)];
    if (symbol === undefined || head.querySelector("button") !== null) continue;
    const labels = { ariaLabel: `Watch ${symbol}`, ariaPressed: String(known.has(symbol)) };
    head.append(Object.assign(document.createElement("button"), { type: "button", className: "star", ...labels }));
    head.abbr = symbol; // so that screen readers don't read the button before every cell
  }
}

function turnStar(star) {
  const row = star.closest("tr");
  const [known, symbol] = [watched(), symbolOf(row)];
  if (!known.delete(symbol)) known.add(symbol);
  try {
    localStorage.setItem(WATCHED, JSON.stringify([...known]));
  } catch {
    unsaved = known;
  }
  star.ariaPressed = String(known.has(symbol));
  show(listed());
  if (!row.hidden) return;
  // The row left the watchlist: keep the focus near it.
  const rows = [...row.parentElement.rows].filter((each) => !each.hidden || each === row);
  const next = rows[rows.indexOf(row) + 1] ?? rows[rows.indexOf(row) - 1];
  (next?.querySelector(".star") ?? watchLink()).focus();
}

// As on the server: unknown numbers come last, and equal numbers are sorted by name.
function inOrder(rows, place, order) {
  const sign = order === "asc" ? 1 : -1;
  const byName = (one, other) => (place < 0 ? sign : 1) * ((one.name > other.name) - (one.name < other.name));
  const keyed = rows.map((row) => ({ row, name: nameOf(row), number: parseFloat(row.dataset.values.split(" ")[place]) }));
  keyed.sort(
    (one, other) =>
      isNaN(one.number) - isNaN(other.number) || sign * (one.number - other.number) || byName(one, other),
  );
  return keyed.map(({ row }) => row);
}

function search(field) {
  clearTimeout(typing);
  typing = setTimeout(() => {
    typing = null;
    if (waiting !== null) renewTable(waiting);
  }, REST_MS);
  const table = listed();
  go(addressOf(table, { ...chosen(table), q: field.value }));
  // A page with a search has only its matches; the other rows come with the default page.
  if (!table.hasAttribute("data-complete")) document.dispatchEvent(new Event("renew"));
}

function renewTable(fresh) {
  const [old, place] = [document, fresh].map((each) => each.getElementById("perpetuals"));
  if (old === null || place === null) return;
  const table = listed();
  const other = place.querySelector("table");
  if (table !== null && other === null) return old.classList.add("past"); // no current reading
  // Without a table, or with the headings of another venue, everything is replaced.
  if (table?.tHead.textContent !== other?.tHead.textContent || table === null) {
    old.replaceWith(document.adoptNode(place));
    waiting = null;
    if (listed() !== null) restore(listed());
    return;
  }
  // Don't change the table while the visitor selects text in it.
  const selection = getSelection();
  if (!selection.isCollapsed && selection.containsNode(old, true)) return;
  const isNew = addRows(table, other);
  if (isNew) addStars(table);
  document.getElementById("total").textContent = place.querySelector("#total").textContent;
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
  document.querySelector("[data-search]").value = chosen(table).q;
  addStars(table);
  show(table);
}

function keyOf(row) {
  return row.dataset.contract ?? row.cells[0].textContent;
}

function addRows(table, other) {
  const known = new Set([...table.tBodies[0].rows].map(keyOf));
  const rows = [...other.tBodies[0].rows].filter((row) => !known.has(keyOf(row)));
  table.tBodies[0].append(...rows.map((row) => document.importNode(row, true)));
  table.setAttribute("data-complete", "");
  return rows.length > 0;
}

function renewRows(table, other) {
  const found = new Map([...other.tBodies[0].rows].map((row) => [keyOf(row), row]));
  for (const row of [...table.tBodies[0].rows]) {
    const fresh = found.get(keyOf(row));
    if (fresh === undefined) row.remove();
    else renewCells(row, fresh);
  }
}

function renewCells(row, fresh) {
  row.dataset.values = fresh.dataset.values;
  for (const [index, cell] of [...row.cells].entries()) {
    const other = fresh.cells[index];
    if (index > 0 && cell.outerHTML !== other.outerHTML) cell.replaceWith(document.importNode(other, true));
  }
}

document.addEventListener("click", (event) => {
  const star = event.target.closest(".star");
  if (star !== null) return turnStar(star);
  const link = event.target.closest("th[data-sort] a, a[data-watch]");
  if (link === null || event.ctrlKey || event.metaKey || event.shiftKey || event.altKey) return;
  event.preventDefault();
  go(link.href, true);
});
addEventListener("popstate", () => {
  if (listed() !== null) restore(listed());
});
document.addEventListener("submit", (event) => {
  if (event.target.matches('[role="search"]') && listed() !== null) event.preventDefault();
});
document.addEventListener("input", (event) => {
  if (event.target.matches("[data-search]")) search(event.target);
});
document.addEventListener("keydown", (event) => {
  const field = document.querySelector("[data-search]");
  if (field === null || event.ctrlKey || event.metaKey || event.altKey) return;
  if (event.key === "/" && !event.target.matches("input, textarea")) {
    event.preventDefault();
    field.focus();
    field.select();
  }
  if (event.key === "Escape" && event.target === field && field.value !== "") {
    event.preventDefault();
    field.value = "";
    search(field);
  }
});
document.addEventListener("renewed", ({ detail }) => renewTable(detail));
if (listed() !== null) restore(listed());
