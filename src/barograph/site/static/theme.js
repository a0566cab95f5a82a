// The theme: light, dark or the system's. It runs before the page is drawn, so that a chosen theme
// doesn't flash, and the control appears only if this script did.

const KEY = "theme";
const root = document.documentElement;

function stored() {
  try {
    return localStorage.getItem(KEY);
  } catch {
    return null; // storage is blocked
  }
}

function apply(theme) {
  root.dataset.theme = theme === "light" || theme === "dark" ? theme : "system";
  const control = document.getElementById("theme");
  if (control !== null) control.value = root.dataset.theme;
  document.dispatchEvent(new Event("theme"));
}

function choose(theme) {
  apply(theme);
  try {
    localStorage.setItem(KEY, theme);
  } catch {
    // Storage is blocked; the choice lasts until the next page.
  }
}

apply(stored());
addEventListener("storage", (event) => {
  if (event.key === KEY || event.key === null) apply(stored());
});
document.addEventListener("DOMContentLoaded", () => {
  apply(root.dataset.theme);
  document.getElementById("theme").addEventListener("change", (event) => choose(event.target.value));
  // On a phone the navigation scrolls; show where we are.
  const current = document.querySelector(".top nav [aria-current]");
  if (current !== null) current.closest("ul").scrollLeft = current.offsetLeft - 48;
});
