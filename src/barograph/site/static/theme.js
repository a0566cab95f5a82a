// The theme: light, dark or the system's. This is no module, so that it runs before the page is
// drawn and a chosen theme doesn't flash. Without it the control stays hidden.

(() => {
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

  function choose(event) {
    apply(event.target.value);
    try {
      localStorage.setItem(KEY, event.target.value);
    } catch {
      // Storage is blocked, so the choice lasts until the next page.
    }
  }

  apply(stored());
  addEventListener("storage", () => apply(stored())); // chosen in another tab
  document.addEventListener("DOMContentLoaded", () => {
    apply(root.dataset.theme);
    document.getElementById("theme").addEventListener("change", choose);
  });
})();
