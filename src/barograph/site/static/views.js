// The columns that the visitor chose for the table of markets, and views that they saved: an address
// with its filters and order, and its columns. Only this browser stores them.

const KEY = "market-views";
const MOST = 20;
const place = document.getElementById("views");
const main = document.getElementById("main");
const table = document.querySelector("table[data-sorts]");
const heads = () => [...table.tHead.rows[0].cells].slice(1);
let kept = stored();

function stored() {
  try {
    const { hidden = [], views = [] } = JSON.parse(localStorage.getItem(KEY)) ?? {};
    return { hidden: hidden.filter((name) => typeof name === "string"), views: views.filter(({ name, query }) => name && query !== undefined) };
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

// Columns are kept by the name to sort by: tables have different ones. The style sheet hides them by number.
function hideColumns() {
  for (const [index, { dataset }] of heads().entries()) main.classList.toggle(`no-${index + 2}`, kept.hidden.includes(dataset.sort));
  for (const box of place.querySelectorAll("[type=checkbox]")) box.checked = !kept.hidden.includes(box.value);
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

function build() {
  const boxes = heads().map((head) =>
    element("label", {}, element("input", { type: "checkbox", value: head.dataset.sort }), ` ${head.textContent.trim()}`),
  );
  const name = element("input", { maxLength: 30, required: true, autocomplete: "off", ariaLabel: "Name of this view", placeholder: "Name of this view" });
  const form = element("form", { className: "row" }, name, element("button", { textContent: "Save view" }));
  const fields = element("div", { className: "row" }, ...boxes);
  place.append(element("details", {}, element("summary", { textContent: "Columns and views" }), fields, form), element("ul", { className: "tabs", ariaLabel: "Saved views" }));
  fields.addEventListener("change", ({ target: { value, checked } }) => {
    keep({ hidden: [...kept.hidden.filter((name) => name !== value), ...(checked ? [] : [value])] });
  });
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    const view = { name: name.value.trim(), query: location.search, hidden: kept.hidden };
    if (view.name === "") return;
    keep({ views: [...kept.views.filter((each) => each.name !== view.name), view].slice(-MOST) });
    form.reset();
  });
}

if (table !== null) {
  build();
  keep({});
}
