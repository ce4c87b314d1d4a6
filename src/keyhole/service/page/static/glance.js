import { get } from "/page/api.js";
import { aim, count, entitle, fault, h, percent, plural, reconcile, show } from "/page/dom.js";
import { isAlert, order, pill, speaker } from "/page/promise.js";

const EVERY = 3000;
const chosen = { words: "", only: "all" }; // Kept while other views are looked at.

// The bar is red where the alert is; that misses lie a little above the target is nothing to worry about.
function meter(stream) {
  const rate = stream.recent.miss_rate ?? 0, top = Math.max(3 * stream.alpha, rate);
  const bar = h("i", { class: isAlert(stream) ? "alert" : null }), target = h("b");
  bar.style.width = `${(100 * rate) / top}%`;
  target.style.left = `${(100 * stream.alpha) / top}%`;
  return h("span", { class: "meter", "aria-hidden": "true" }, bar, target);
}

function number(name, value, note) {
  return h("span", { class: `number ${name}` }, h("strong", {}, value), h("small", {}, note));
}

const share = (stream, rate) => (rate === null ? "–" : `${percent(rate)} ${fault(stream)}`);

function row(stream) {
  const { recent } = stream;
  return h("li", {}, h("a", { class: "card line", href: `#/streams/${encodeURIComponent(stream.name)}` },
    number("who", stream.name, stream.learner),
    h("span", { class: isAlert(stream) ? "verdict" : "verdict calm" }, pill(stream), h("small", {}, speaker(stream))),
    number("recent", share(stream, recent.miss_rate), recent.rounds ? `last ${count(Math.min(recent.rounds, recent.window))}, target ${aim(stream.alpha)}` : `target ${aim(stream.alpha)}`),
    meter(stream),
    number("life", share(stream, stream.miss_rate), stream.rounds ? `overall, ${count(stream.rounds)}` : "no answers yet"),
    stream.kind === "gate" ? number("open", percent(stream.accepted_share), "accepted") : number("open", count(stream.open), "open")));
}

function empty() {
  return h("div", { class: "card" }, h("h2", {}, "No streams yet"),
    h("p", {}, "Create one, and monitor its promise here:"),
    h("pre", { class: "scroll" }, h("code", {},
      `curl -X POST ${location.origin}/v1/streams \\\n  -H 'Content-Type: application/json' \\\n  -d '{"name": "triage", "alpha": 0.1}'`)));
}

// The list comes in pages of a thousand.
async function every() {
  const all = await get("/v1/streams");
  for (let { next } = all; next;) {
    const more = await get(`/v1/streams?after=${encodeURIComponent(next)}`);
    all.streams.push(...more.streams);
    Object.assign(all.quarantined, more.quarantined);
    next = more.next;
  }
  return all;
}

const KINDS = {
  all: ["all", () => true],
  alert: ["alerts", isAlert],
  starting: ["starting", (stream) => stream.promise.state === "starting"],
};

export async function glance(signal) {
  let streams = [], apart = {};
  const list = h("ul", { class: "lines" }), gone = h("ul", { class: "lines" });
  const unusable = h("div", { class: "notes" });
  const nothing = h("p", { class: "quiet", role: "status" });
  const archived = h("details", { class: "archived", hidden: true }, h("summary", {}), gone);
  const words = h("input", { type: "search", id: "words", placeholder: "Name or learner", "aria-label": "Search streams", value: chosen.words, autocomplete: "off", spellcheck: "false",
    oninput: (event) => { chosen.words = event.target.value; draw(); } });
  const kinds = h("div", { class: "switcher", role: "group", "aria-label": "Which streams" },
    Object.keys(KINDS).map((kind) => h("button", { type: "button", "data-kind": kind, onclick: () => { chosen.only = kind; draw(); } })));
  const body = h("div", {}, unusable, h("div", { class: "tools" }, words, kinds), nothing, list, archived);
  const sum = h("p", { class: "quiet" });

  const matches = (stream) => `${stream.name} ${stream.learner}`.toLowerCase().includes(chosen.words.trim().toLowerCase());

  function draw() {
    const live = streams.filter((stream) => !stream.archived), alerts = live.filter(isAlert).length;
    entitle(alerts ? `${plural(alerts, "alert")} · Streams` : "Streams");
    sum.textContent = alerts ? `${plural(alerts, "stream")} of ${count(live.length)} off target, the worst first.` : `${plural(live.length, "stream")}, none off target; the farthest from its target first.`;
    for (const button of kinds.children) {
      const [text, has] = KINDS[button.dataset.kind];
      button.textContent = `${text} ${live.filter(has).length}`;
      button.setAttribute("aria-pressed", String(button.dataset.kind === chosen.only));
    }
    const shown = order(live.filter(KINDS[chosen.only][1]).filter(matches));
    reconcile(list, shown, (stream) => stream.name, row);
    nothing.textContent = shown.length ? "" : "No stream matches.";
    unusable.replaceChildren(...Object.entries(apart).map(([name, why]) => h("p", { class: "card note broken" }, h("b", {}, `${name} cannot be used: `), why.replace(`stream '${name}' is quarantined: `, ""))));
    const old = streams.filter((stream) => stream.archived && matches(stream));
    archived.hidden = !old.length;
    archived.firstChild.textContent = `Archived: ${count(old.length)}`;
    reconcile(gone, old, (stream) => stream.name, row);
  }

  const look = async () => {
    const found = await every();
    if (signal.aborted) return;
    const first = !list.isConnected;
    streams = found.streams;
    apart = found.quarantined ?? {};
    const any = streams.length || Object.keys(apart).length;
    if (any && first) show(h("h1", {}, "Streams"), sum, body);
    if (any) draw();
    else { entitle("No streams yet"); show(h("h1", {}, "Streams"), empty()); }
  };
  await look();
  const timer = setInterval(() => look().catch(() => {}), EVERY);
  signal.addEventListener("abort", () => clearInterval(timer));
}
