// Shows what changed since the last visit. The server lists the newest events in #visits, hidden. This
// script follows that section and blocks the parser, so that nothing moves when the list appears.

{
  const KEY = "barograph.visits";
  const REST_MS = 30 * 60_000; // a visit ends after this long without the page
  const SHOWN = 8;

  function stored() {
    try {
      return JSON.parse(localStorage.getItem(KEY)) ?? {};
    } catch {
      return {}; // blocked, or not ours
    }
  }

  // `seen` is the last look at the page, `before` that of the visit before this one.
  function look({ dataset }) {
    const [now, last] = [Date.now(), Number(dataset.last)];
    const { seen, before } = stored();
    const isNew = isLook(seen, last) && now - seen.at > REST_MS;
    const since = isNew ? seen : isLook(before, last) ? before : null;
    try {
      localStorage.setItem(KEY, JSON.stringify({ seen: { at: now, id: last }, before: since }));
    } catch {
      // Blocked: every visit is the first.
    }
    return { isNew, since };
  }

  // An id beyond the newest event comes from another log.
  function isLook(found, last) {
    return Number.isInteger(found?.id) && found.at > 0 && found.at <= Date.now() && found.id <= last;
  }

  function show(place, since) {
    const later = [...place.querySelectorAll("li")].filter((each) => {
      each.hidden = Number(each.dataset.id) <= since.id;
      return !each.hidden;
    });
    for (const each of later.slice(SHOWN)) each.hidden = true;
    const at = new Date(since.at).toISOString();
    const time = document.createElement("time");
    time.dateTime = at;
    time.textContent = `${at.slice(0, 16).replace("T", " ")} UTC`;
    place.querySelector(".last").replaceChildren(time);
    place.querySelector("a").href = `${place.dataset.events}?after=${since.id}`;
    place.querySelector(".nothing").hidden = later.length > 0;
    place.hidden = false;
  }

  const place = document.getElementById("visits");
  const { since } = look(place);
  if (since !== null) show(place, since);

  // A page that stays open: each update counts as a look, and after a rest the list is new.
  document.addEventListener("renewed", ({ detail }) => {
    const fresh = detail.getElementById("visits");
    if (fresh === null) return;
    const found = look(fresh);
    if (!found.isNew) return;
    document.getElementById("visits").replaceWith(document.adoptNode(fresh));
    show(fresh, found.since);
  });
}
