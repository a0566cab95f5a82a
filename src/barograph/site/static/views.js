// The columns that the visitor chose for the table of markets, and views that they saved: an address
// with its filters and order, and its columns. Only this browser stores them.

const KEY = "market-views";
const MOST = 20;
const place = document.getElementById("views");
const main = document.getElementById("main");
let kept = stored();

function stored() {
  try {
    const { hidden = [], views = [] } = JSON.parse(localStorage.getItem(KEY)) ?? {};
    return { hidden: hidden.filter(Number.isInteger), views: views.filter(({ name, query }) => name && query !== undefined) };
  } catch {
    return { hidden: [], views: [] }; // no storage, or something else is stored
  }
}

function keep(change) {
  kept = { ...kept, ...change };
  try {
    localStorage.setItem(KEY, JSON.stringify(kept));
  } catch {
    // Storage is blocked: the choice lasts until the visitor leaves the page.
  }
  hideColumns();
  listViews();
}

function element(tag, fields = {}, ...content) {
  const made = Object.assign(document.createElement(tag), fields);
  made.append(...content);
  return made;
}

function hideColumns() {
  for (const name of [...main.classList].filter((each) => each.startsWith("no-"))) main.classList.remove(name);
  for (const number of kept.hidden) main.classList.add(`no-${number}`);
  for (const box of place.querySelectorAll("[type=checkbox]")) box.checked = !kept.hidden.includes(Number(box.value));
}

function listViews() {
  const rows = kept.views.map(({ name, query, hidden }) => {
    const link = element("a", { href: `${location.pathname}${query}`, textContent: name });
    link.addEventListener("click", () => keep({ hidden })); // and then the browser opens the address
    const remove = element("button", { type: "button", ariaLabel: `Delete the view ${name}`, textContent: "×" });
    remove.addEventListener("click", () => keep({ views: kept.views.filter((each) => each.name !== name) }));
    return element("li", {}, link, remove);
  });
  place.querySelector("ul").replaceChildren(...rows);
}

function build(table) {
  const boxes = [...table.tHead.rows[0].cells].slice(1).map((head, index) =>
    element("label", {}, element("input", { type: "checkbox", value: String(index + 2) }), ` ${head.textContent.trim()}`),
  );
  const name = element("input", { maxLength: 30, required: true, autocomplete: "off", ariaLabel: "Name of this view", placeholder: "Name of this view" });
  const form = element("form", { className: "row" }, name, element("button", { textContent: "Save view" }));
  const fields = element("div", { className: "row" }, ...boxes);
  place.append(element("details", {}, element("summary", { textContent: "Columns and views" }), fields, form), element("ul", { className: "tabs", ariaLabel: "Saved views" }));
  fields.addEventListener("change", () => {
    keep({ hidden: [...fields.querySelectorAll("input:not(:checked)")].map(({ value }) => Number(value)) });
  });
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    const view = { name: name.value.trim(), query: location.search, hidden: kept.hidden };
    if (view.name === "") return;
    keep({ views: [...kept.views.filter((each) => each.name !== view.name), view].slice(-MOST) });
    form.reset();
  });
}

const table = document.querySelector("table[data-sorts]");
if (table !== null) {
  build(table);
  keep({});
}
