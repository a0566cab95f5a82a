// Shows the API with Swagger UI. It contacts no other host, and sends requests to the host that this
// page came from, even if the configured base URL is another name for it.

const place = document.getElementById("swagger-ui");
const { openapi, base, root } = place.dataset;
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

applyTheme();
openWanted();
dark.addEventListener("change", applyTheme);
document.addEventListener("theme", applyTheme);
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
