// Shows the API with Swagger UI, which is loaded on request, because it is large. It contacts no other
// host, and sends requests to the host that this page came from, even if the configured base URL is
// another name for it.

const place = document.getElementById("swagger-ui");
const offer = document.getElementById("load");
const { openapi, base, root, style, script } = place.dataset;
const home = `${location.origin}${root}`;
const dark = matchMedia("(prefers-color-scheme: dark)");

function applyTheme() {
  const { classList, dataset } = document.documentElement;
  const isDark = dataset.theme === "dark" || (dataset.theme !== "light" && dark.matches);
  classList.toggle("dark-mode", isDark);
}

function sendHome(request) {
  if (request.url.startsWith(`${base}/`)) request.url = home + request.url.slice(base.length);
  return request;
}

// Other pages link to an operation as ?show=tag/operation; Swagger UI uses the fragment.
function openWanted() {
  const wanted = new URLSearchParams(location.search).get("show");
  if (/^\w+\/\w+$/.test(wanted ?? "")) history.replaceState(null, "", `${location.pathname}#/${wanted}`);
}

function load() {
  offer.textContent = "Loading…";
  const sheet = Object.assign(document.createElement("link"), { rel: "stylesheet", href: style });
  const bundle = Object.assign(document.createElement("script"), { src: script, onload: show });
  bundle.onerror = () => (offer.textContent = "Can't load the reference. Reload the page to try again.");
  document.head.prepend(sheet); // ours come after it
  document.head.append(bundle);
}

function show() {
  offer.remove();
  openWanted();
  globalThis.SwaggerUIBundle({
    domNode: place,
    url: openapi,
    validatorUrl: null,
    deepLinking: true,
    docExpansion: "list",
    defaultModelsExpandDepth: 0,
    syntaxHighlight: { theme: "obsidian" },
    requestInterceptor: sendHome,
    layout: "BaseLayout",
  });
}

applyTheme();
dark.addEventListener("change", applyTheme);
document.addEventListener("theme", applyTheme);
offer.hidden = false;
offer.querySelector("button").addEventListener("click", load);
// A link to an operation has a query or a fragment.
if (location.search !== "" || location.hash !== "") load();
