// Checks a saved checkpoint: whether this log signed it, and whether the published digests still
// give the signed root. The pasted text never leaves the browser.

const HASH_SIZE = 32;
const KEY_ID_SIZE = 4;
const ED25519 = 1;
const PAGE = 1_000;
const PATIENCE_MS = 20_000;

const bytes = new TextEncoder();

/** Why the check could not be done, as a message for the visitor. */
class NotChecked extends Error {}

/** The published list is malformed. */
class Broken extends Error {}

// SHA-256: the browser's own, or this one, because browsers don't offer theirs without HTTPS.

const ROUNDS = [
  0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5,
  0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174,
  0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
  0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967,
  0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
  0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
  0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
  0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2,
];
const START = [
  0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a, 0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19,
];

const turn = (word, by) => (word >>> by) | (word << (32 - by));

/** SHA-256 as in FIPS 180-4. */
export function ownSha256(data) {
  const padded = new DataView(new ArrayBuffer(Math.ceil((data.length + 9) / 64) * 64));
  new Uint8Array(padded.buffer).set(data);
  padded.setUint8(data.length, 0x80);
  padded.setBigUint64(padded.byteLength - 8, BigInt(data.length) * 8n);
  const state = Uint32Array.from(START);
  const words = new Uint32Array(64);
  for (let block = 0; block < padded.byteLength; block += 64) {
    for (let i = 0; i < 16; i += 1) words[i] = padded.getUint32(block + 4 * i);
    for (let i = 16; i < 64; i += 1) {
      const [near, far] = [words[i - 15], words[i - 2]];
      const small = turn(near, 7) ^ turn(near, 18) ^ (near >>> 3);
      const large = turn(far, 17) ^ turn(far, 19) ^ (far >>> 10);
      words[i] = words[i - 16] + small + words[i - 7] + large;
    }
    mix(state, words);
  }
  const digest = new DataView(new ArrayBuffer(HASH_SIZE));
  state.forEach((word, i) => digest.setUint32(4 * i, word));
  return new Uint8Array(digest.buffer);
}

function mix(state, words) {
  let [a, b, c, d, e, f, g, h] = state;
  for (let i = 0; i < 64; i += 1) {
    const choice = (e & f) ^ (~e & g);
    const most = (a & b) ^ (a & c) ^ (b & c);
    const one = (h + (turn(e, 6) ^ turn(e, 11) ^ turn(e, 25)) + choice + ROUNDS[i] + words[i]) | 0;
    const two = ((turn(a, 2) ^ turn(a, 13) ^ turn(a, 22)) + most) | 0;
    [h, g, f, e, d, c, b, a] = [g, f, e, (d + one) | 0, c, b, a, (one + two) | 0];
  }
  [a, b, c, d, e, f, g, h].forEach((word, i) => {
    state[i] += word;
  });
}

async function sha256(data) {
  const subtle = globalThis.crypto?.subtle;
  return subtle ? new Uint8Array(await subtle.digest("SHA-256", data)) : ownSha256(data);
}

// The tree of RFC 6962, kept as its complete subtrees from left to right

export class Tree {
  #peaks = [];

  /** Append the leaves of digests in hex. */
  async add(digests) {
    const leaves = digests.map((digest) => sha256(joined([0], fromHex(digest))));
    for (let hash of await Promise.all(leaves)) {
      let level = 0;
      while (this.#peaks.at(-1)?.level === level) {
        hash = await node(this.#peaks.pop().hash, hash);
        level += 1;
      }
      this.#peaks.push({ level, hash });
    }
  }

  async root() {
    if (this.#peaks.length === 0) return sha256(new Uint8Array());
    let root = this.#peaks.at(-1).hash;
    for (const peak of this.#peaks.slice(0, -1).reverse()) root = await node(peak.hash, root);
    return root;
  }
}

function node(left, right) {
  return sha256(joined([1], left, right));
}

function joined(...parts) {
  return Uint8Array.from(parts.flatMap((part) => [...part]));
}

function fromHex(text) {
  return Uint8Array.from(text.match(/../g), (pair) => parseInt(pair, 16));
}

/** The bytes of canonical base64; null for anything else. */
function fromBase64(text) {
  try {
    const raw = atob(text);
    return btoa(raw) === text ? Uint8Array.from(raw, (each) => each.charCodeAt(0)) : null;
  } catch {
    return null;
  }
}

function isSame(one, other) {
  return one.length === other.length && one.every((each, i) => each === other[i]);
}

// The checkpoint: https://c2sp.org/tlog-checkpoint

export function parse(pasted) {
  const note = pasted.replaceAll("\r\n", "\n").trim();
  if (note === "") throw new NotChecked("Paste a checkpoint first.");
  const gap = note.lastIndexOf("\n\n");
  if (gap < 0) {
    throw new NotChecked(
      "There is no empty line before the signature. Paste the whole checkpoint: three lines, an empty line and the line that begins with a dash.",
    );
  }
  const lines = note.slice(0, gap).split("\n");
  if (lines.includes("")) throw new NotChecked("There is more than one empty line. Paste only one checkpoint.");
  const [origin, size, encoded] = lines;
  if (!/^(0|[1-9][0-9]{0,17})$/.test(size ?? "")) {
    throw new NotChecked("The second line should be a whole number, the number of entries.");
  }
  const root = fromBase64(encoded ?? "");
  if (root?.length !== HASH_SIZE) {
    throw new NotChecked("The third line should be the root: 32 bytes in base64.");
  }
  const signatures = note.slice(gap + 2).split("\n").map(parseSignature);
  return { origin, size: Number(size), root, signed: `${note.slice(0, gap)}\n`, signatures };
}

function parseSignature(line) {
  const found = /^— (\S+) (\S+)$/.exec(line);
  const raw = fromBase64(found?.[2] ?? "");
  if (found === null || raw === null || raw.length <= KEY_ID_SIZE) {
    throw new NotChecked(
      "A line after the empty line is not a signature: a long dash (—), the log's name and base64, separated by single spaces.",
    );
  }
  return { name: found[1], keyId: raw.slice(0, KEY_ID_SIZE), signature: raw.slice(KEY_ID_SIZE) };
}

/** Whether a key of the log signed it: true, false, or null if this browser can't check it. */
async function isSigned(checkpoint, keys) {
  for (const key of keys) {
    const signed = await isSignedBy(checkpoint, key);
    if (signed !== false) return signed;
  }
  return false;
}

async function isSignedBy(checkpoint, key) {
  const named = await sha256(joined(bytes.encode(checkpoint.origin), [0x0a, ED25519], key));
  const ours = checkpoint.signatures.filter(
    ({ name, keyId }) => name === checkpoint.origin && isSame(keyId, named.slice(0, KEY_ID_SIZE)),
  );
  if (ours.length === 0) return false;
  try {
    const { subtle } = globalThis.crypto;
    const imported = await subtle.importKey("raw", key, "Ed25519", false, ["verify"]);
    for (const { signature } of ours) {
      const text = bytes.encode(checkpoint.signed);
      if (!(await subtle.verify("Ed25519", imported, signature, text))) return false;
    }
    return true;
  } catch {
    return null;
  }
}

// The published list

/** The root of the first entries of a list, how many were read, and how long the list is. */
async function publishedRoot(address, member, size, onProgress) {
  const tree = new Tree();
  let [read, count] = [0, null];
  while (read < size) {
    const page = await publishedPage(`${address}?after=${read}&limit=${PAGE}`);
    const digests = digestsOf(page, member, read).slice(0, size - read);
    count = page.count;
    if (digests.length === 0) break;
    await tree.add(digests);
    read += digests.length;
    onProgress(read);
  }
  return { root: await tree.root(), read, count };
}

async function publishedPage(address) {
  let answer;
  try {
    const signal = AbortSignal.timeout?.(PATIENCE_MS);
    answer = await fetch(address, { cache: "no-store", signal });
    if (answer.ok) return await answer.json();
  } catch {
    throw new NotChecked("The published list is unavailable now. Try again in a few seconds.");
  }
  throw new NotChecked(`The published list is unavailable now (status ${answer.status}). Try again in a few seconds.`);
}

function digestsOf(page, member, read) {
  const entries = Array.isArray(page?.entries) ? page.entries : [{}];
  return entries.map((entry, i) => {
    if (entry?.sequence !== read + i + 1 || !/^[0-9a-f]{64}$/.test(entry[member])) {
      throw new Broken(`Entry ${number(read + i + 1)} is missing or malformed in the published list.`);
    }
    return entry[member];
  });
}

// The result

const number = (value) => value.toLocaleString("en");

/** Check the pasted text. `addStep` gets each step, `onProgress` the number of digests read. */
export async function check(pasted, log, addStep, onProgress) {
  const checkpoint = parse(pasted);
  const { origin, size } = checkpoint;
  const list = origin.startsWith(log.prefix) ? origin.slice(log.prefix.length) : "";
  if (list === "events") {
    throw new NotChecked("This is a checkpoint of the log of events, which this form can't check. Use barograph-audit.");
  }
  if (!log.lists.includes(list)) {
    throw new NotChecked(`This is a checkpoint of another log, ${origin}. Checkpoints of this service begin with ${log.prefix}`);
  }
  addStep("ok", "read", `A checkpoint of ${origin} with ${number(size)} entries. Its root:`, checkpoint.root);
  const signed = await isSigned(checkpoint, log.keys.map(fromBase64));
  addStep(...SIGNATURE[signed]);
  if (signed === false) return NOT_OURS;
  const member = list.endsWith("/events") ? "event_digest" : "history_digest";
  const found = await publishedRoot(log.folder + list, member, size, (read) => onProgress(read, size));
  if (found.read < size) {
    const or = signed === null ? ", or the checkpoint was changed" : "";
    const text = `The checkpoint covers ${number(size)} entries. If it is only seconds old, try again. Otherwise entries were removed from the record${or}.`;
    return mismatch(`DOES NOT match: the list ends at ${number(found.read)}.`, text, signed);
  }
  const same = isSame(found.root, checkpoint.root);
  const [condition, word] = same ? ["ok", "same"] : ["down", "different"];
  addStep(condition, word, `The root of the first ${number(size)} published digests:`, found.root);
  if (same) return matches(size, found.count, signed);
  return mismatch(CHANGED, `The first ${number(size)} published digests no longer give the signed root.`, signed);
}

const SIGNATURE = {
  true: ["ok", "signed", "This log's published key made the signature."],
  false: ["down", "not signed", "This log's published key did not sign this text."],
  null: ["degraded", "not checked", "This browser can't check Ed25519 signatures, or the connection is not encrypted."],
};

const NOT_OURS = {
  condition: "down",
  head: "The signature is invalid.",
  text: "The log's published key did not sign this text. It was altered, copied incompletely, or signed with another key, so it proves nothing about the record.",
};

function matches(size, count, signed) {
  const condition = signed === null ? "degraded" : "ok";
  const unsure = signed === null ? " We could not check the signature in this browser." : "";
  if (size === 0) {
    const text = `The list had no entries when this checkpoint was signed.${unsure}`;
    return { condition, head: "Empty: there were no entries to compare.", text };
  }
  const added = typeof count === "number" ? count - size : 0;
  const since = added > 0 ? ` ${number(added)} ${added === 1 ? "entry was" : "entries were"} added since.` : "";
  const text = `No entry was changed, removed or inserted.${since}${unsure}`;
  return { condition, head: `Matches: nothing up to entry ${number(size)} has changed.`, text };
}

const CHANGED = "DOES NOT match: the record was changed.";
const UNSURE = "DOES NOT match: the record or your checkpoint was changed.";

function mismatch(head, text, signed) {
  const [said, blame] =
    signed === null
      ? [UNSURE, "We could not check the signature in this browser, so we don't know which."]
      : [head, "Keep the checkpoint: its signature proves this to anyone."];
  return { condition: "down", head: said, text: `${text} ${blame}` };
}

function failure(error) {
  if (error instanceof Broken) return { condition: "down", head: CHANGED, text: error.message };
  const text = error instanceof NotChecked ? error.message : "An unexpected error occurred.";
  return { condition: "degraded", head: "Not checked.", text };
}

function toHex(data) {
  return [...data].map((each) => each.toString(16).padStart(2, "0")).join("");
}

// The form

function element(name, className, ...content) {
  const made = document.createElement(name);
  if (className) made.className = className;
  made.append(...content);
  return made;
}

function setUp(form) {
  const { folder, prefix, lists, keys } = form.dataset;
  const log = { folder, prefix, lists: lists.split(" "), keys: keys.split(" ") };
  const ids = ["progress", "read", "outcome", "steps"];
  const [progress, read, outcome, steps] = ids.map((id) => document.getElementById(id));
  let latest = 0;

  function clear() {
    latest += 1;
    progress.hidden = true;
    read.textContent = "";
    outcome.replaceChildren();
    steps.hidden = true;
    return latest;
  }

  async function run() {
    const turnOfThis = clear();
    const isCurrent = () => turnOfThis === latest;
    const items = [];
    const addStep = (condition, word, text, root = []) => {
      const pill = element("span", `pill ${condition}`, word);
      items.push(element("li", "", pill, ` ${text} `, element("span", "digest", toHex(root))));
    };
    const onProgress = (done, size) => {
      if (!isCurrent()) return;
      progress.hidden = false;
      progress.value = done / size;
      read.textContent = `${number(done)} of ${number(size)} digests read`;
    };
    let verdict;
    try {
      verdict = await check(form.elements.kept.value, log, addStep, onProgress);
    } catch (error) {
      verdict = failure(error);
    }
    if (!isCurrent()) return; // the input changed in the meantime
    progress.hidden = true;
    const { condition, head, text } = verdict;
    const words = element("p", "", element("strong", "", head), " ", text);
    outcome.replaceChildren(element("div", `banner ${condition}`, words));
    steps.replaceChildren(...items);
    steps.hidden = items.length === 0;
  }

  form.addEventListener("submit", (event) => {
    event.preventDefault();
    run();
  });
  form.addEventListener("input", clear);
  form.hidden = false;
  document.getElementById("without-script").hidden = true;
}

const form = document.getElementById("verifier");
if (form !== null) setUp(form);
