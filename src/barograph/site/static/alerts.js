// The form on /alerts: it shows the fields that the chosen measure has, and fills in the watchlist.
// While the page is open, new messages become notifications of the browser.

const POLL_MS = 15_000;
const form = document.getElementById("alert");
const facts = JSON.parse(form.dataset.facts);
const changes = JSON.parse(form.dataset.changes);
const field = (name) => form.querySelector(`[data-field="${name}"]`);

const isOff = (option) => !option || option.disabled || option.parentElement.matches("optgroup[disabled]");

function only(choices, isKept) {
  for (const choice of choices) choice.hidden = choice.disabled = !isKept(choice);
  const select = choices[0].closest("select");
  if (isOff(select.selectedOptions[0])) select.selectedIndex = [...select.options].findIndex((each) => !isOff(each));
}

function suit() {
  const measure = form.measure.value;
  const fact = facts[measure];
  only([...form.when.options], (each) => fact.whens.includes(each.value));
  only([...form.key.querySelectorAll("optgroup")], (each) => each.label === measure);
  only([...form.label.querySelectorAll("optgroup")], (each) => [measure, form.key.value].includes(each.label));
  const isChange = changes.includes(form.when.value) && fact.whens.includes(form.when.value);
  const shown = new Set([...fact.fields, "measure", "every", "until"]);
  if (!isChange && !changes.includes(measure)) shown.delete("within");
  for (const part of form.querySelectorAll("[data-field]")) {
    part.hidden = !shown.has(part.dataset.field);
    part.querySelector("input, select").disabled = part.hidden;
  }
  if (shown.has("within") && !form.within.value) form.within.value = "1h";
  const unit = isChange ? (measure === "funding" ? "percentage points" : "percent") : fact.unit;
  document.getElementById("value-hint").textContent = `in ${unit}${fact.unit === "USD" && !isChange ? ", such as 20M" : ""}`;
}

function offerWatchlist() {
  let watched = [];
  try {
    watched = JSON.parse(localStorage.getItem("watched-perpetuals")) ?? [];
  } catch {} // no storage, or something else is stored
  if (!Array.isArray(watched) || watched.length === 0) return;
  const button = document.createElement("button");
  Object.assign(button, { type: "button", className: "copy", textContent: "My watchlist" });
  button.addEventListener("click", () => (form.symbols.value = watched.slice(0, 20).join(", ")));
  field("symbols").append(" ", button);
}

async function poll(list) {
  const response = await fetch(`${location.pathname}/messages.json?after=${list.dataset.last}`);
  if (!response.ok) return;
  for (const message of (await response.json()).messages) {
    list.dataset.last = message.id;
    const item = document.createElement("li");
    const link = Object.assign(document.createElement("a"), { href: message.url, textContent: message.text });
    item.append(`${message.at.slice(0, 16).replace("T", " ")} UTC `, link);
    list.prepend(item);
    if (Notification.permission === "granted") new Notification("Barograph", { body: message.text, tag: `${message.id}` });
  }
}

form.addEventListener("change", suit);
suit();
offerWatchlist();
const list = document.getElementById("messages");
setInterval(() => poll(list).catch(() => {}), POLL_MS); // retried at the next turn
const notify = document.getElementById("notify");
notify.hidden = !("Notification" in window) || Notification.permission !== "default";
notify.addEventListener("click", async () => (notify.hidden = (await Notification.requestPermission()) !== "default"));
