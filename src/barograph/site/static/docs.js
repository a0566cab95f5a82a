// Shows the interface with Swagger UI. Nothing is asked of any other host, and what is tried out
// goes to the instance that this page came from, by whatever name it was reached.

const place = document.getElementById("swagger-ui");
const { openapi, base, root } = place.dataset;
const home = `${location.origin}${root}`;
const dark = matchMedia("(prefers-color-scheme: dark)");

function dress() {
  document.documentElement.classList.toggle("dark-mode", dark.matches);
}

function sendHome(request) {
  if (request.url.startsWith(`${base}/`)) request.url = home + request.url.slice(base.length);
  return request;
}

// Other pages name an operation as ?show=tag/operation; here it is opened by its own address.
function openWanted() {
  const wanted = new URLSearchParams(location.search).get("show");
  if (/^\w+\/\w+$/.test(wanted ?? "")) history.replaceState(null, "", `${location.pathname}#/${wanted}`);
}

dress();
openWanted();
dark.addEventListener("change", dress);
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
