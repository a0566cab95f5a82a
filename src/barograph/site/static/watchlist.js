// The watchlist on the home page: the rows of the markets table that the visitor starred there. site.js
// loads this if there are any.

const { watched } = await import(document.getElementById("site-script").src);
const REST_MS = 15_000;
const place = document.getElementById("watchlist");
let asked = 0;

async function renew() {
  const symbols = watched();
  place.hidden = symbols.size === 0;
  if (place.hidden || document.hidden || Date.now() - asked < REST_MS) return;
  asked = Date.now();
  const answer = await fetch(place.querySelector("a").href, { signal: AbortSignal.timeout(10_000) });
  const page = new DOMParser().parseFromString(await answer.text(), "text/html");
  const table = page.querySelector("table[data-sorts]");
  if (table === null) return; // nothing is current: what is shown is struck out at its bound
  for (const row of [...table.tBodies[0].rows]) {
    const link = row.cells[0].querySelector("a");
    if (link === null || !symbols.has(link.pathname.split("/").at(-1))) row.remove();
  }
  for (const head of table.tHead.querySelectorAll("th")) {
    head.replaceChildren(head.textContent);
    head.removeAttribute("aria-sort");
  }
  const box = place.querySelector(".wide");
  box.dataset.bound = page.getElementById("perpetuals").dataset.bound;
  box.classList.remove("past");
  box.replaceChildren(document.adoptNode(table));
}

const attempt = () => renew().catch(() => {}); // retried with the next update
document.addEventListener("renewed", attempt);
attempt();
