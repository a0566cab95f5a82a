// Finds a coin, a page or a section of the documentation in the list of the search page. site.js loads
// this when the visitor presses Ctrl-K or the link in the header.

const SHOWN = 10;
const link = document.querySelector("[data-find]");
let finder = null;
let known = null; // the entries, once they are loaded

export async function load() {
  const answer = await fetch(link.href, { signal: AbortSignal.timeout(10_000) });
  if (!answer.ok) throw new Error(String(answer.status));
  const page = new DOMParser().parseFromString(await answer.text(), "text/html");
  return [...page.querySelectorAll(".finds li")].map((row) => {
    const [target, kind] = row.children;
    return { title: target.textContent, href: target.getAttribute("href"), kind: kind.textContent, words: row.dataset.words ?? "" };
  });
}

function build() {
  const place = document.createElement("dialog");
  place.className = "finder";
  place.ariaLabel = "Search";
  place.innerHTML =
    '<input type="search" role="combobox" aria-label="Coin, page or section" aria-expanded="true" aria-autocomplete="list"' +
    ' aria-controls="finds" autocomplete="off" spellcheck="false" placeholder="Coin, page or section">' +
    '<ul id="finds" role="listbox" aria-label="Results"></ul><p class="small quiet" role="status"></p>';
  document.body.append(place);
  const field = place.querySelector("input");
  field.addEventListener("input", list);
  field.addEventListener("keydown", pressed);
  place.addEventListener("click", (event) => {
    const row = event.target.closest("li");
    if (row !== null) location.href = row.dataset.href;
    else if (event.target === place) place.close(); // the backdrop
  });
  return place;
}

export async function open() {
  if (finder?.open) return;
  finder ??= build();
  finder.showModal();
  finder.querySelector("input").select();
  if (known !== null) return list();
  say("Loading…");
  try {
    known = await load();
    list();
  } catch {
    say("Can't load the list. Close this box and try again.");
  }
}

function say(text) {
  finder.querySelector("[role=status]").textContent = text;
}

// The start of a title counts most, then any part of it, then the start of another name.
function rank({ title, words }, wanted) {
  const [name, others] = [title.toUpperCase(), words.toUpperCase().split(" ")];
  if (name === wanted) return 0;
  if (name.startsWith(wanted)) return 1;
  if (others.some((each) => each.startsWith(wanted))) return 2;
  return name.includes(wanted) ? 3 : 4;
}

function list() {
  if (known === null) return;
  const wanted = finder.querySelector("input").value.trim().toUpperCase();
  const place = (entry, texts) => Math.min(...texts.map((text) => rank(entry, text)));
  const texts = known.some((entry) => rank(entry, wanted) < 4) ? [wanted] : wanted.split(/\s+/); // or any word
  const ranked = known.map((entry) => ({ entry, place: place(entry, texts) })).filter(({ place }) => place < 4);
  ranked.sort((one, other) => one.place - other.place);
  const rows = ranked.slice(0, SHOWN).map(({ entry }, index) => {
    const row = document.createElement("li");
    Object.assign(row, { id: `find-${index}`, role: "option", ariaSelected: String(index === 0) });
    row.dataset.href = entry.href;
    const kind = Object.assign(document.createElement("span"), { className: "small quiet", textContent: entry.kind });
    row.append(entry.title, " ", kind);
    return row;
  });
  finder.querySelector("ul").replaceChildren(...rows);
  select(0);
  say(ranked.length === 0 ? "Nothing matches." : ranked.length > SHOWN ? `${SHOWN} of ${ranked.length} results` : "");
}

function select(index) {
  const rows = [...finder.querySelectorAll("li")];
  for (const [at, row] of rows.entries()) row.ariaSelected = String(at === index);
  finder.querySelector("input").setAttribute("aria-activedescendant", rows[index]?.id ?? "");
}

function pressed(event) {
  if (event.key === "Escape") finder.close(); // at the first press, which would only clear the field
  const rows = [...finder.querySelectorAll("li")];
  const at = rows.findIndex((row) => row.ariaSelected === "true");
  const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
  if (step !== undefined && rows.length > 0) {
    event.preventDefault();
    select((at + step + rows.length) % rows.length);
  }
  if (event.key === "Enter" && at >= 0) location.href = rows[at].dataset.href;
}
