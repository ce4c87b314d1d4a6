// All streams: a page of them at a time, those that are off target first, then by name. The server finds, counts
// and sorts, so that the number of streams does not matter here.
import { get, hasToken } from "/page/api.js";
import { aim, aims, count, entitle, fault, fill, given, h, moment, percent, plural, show } from "/page/dom.js";
import { keepFresh } from "/page/fresh.js";
import { sparkline } from "/page/plot.js";
import { early, isAlert, pill } from "/page/promise.js";

const PAGE = 50;
const chosen = { words: "", only: "all", offset: 0 }; // Kept while other views are looked at.
const KINDS = { all: "all", alerts: "off target", starting: "starting", archived: "archived" };

function basis(stream) {
  if (stream.archived) return `since ${moment(stream.archived)}`;
  if (stream.since) return `since ${moment(stream.since)}`;
  return stream.state === "starting" ? early(stream.recent.rounds, stream.retargeted) : "";
}

function row(stream) {
  const { recent } = stream, rate = percent(recent.miss_rate);
  return h("tr", { "data-key": stream.name, class: isAlert(stream) ? "alert" : null },
    h("th", { scope: "row" }, h("a", { href: `#/streams/${encodeURIComponent(stream.name)}` }, given(stream.name))),
    h("td", { class: "state" }, pill(stream), h("small", {}, basis(stream))),
    h("td", { class: "recent" }, h("strong", {}, rate), h("small", {}, recent.rounds ? `${fault(stream)}, last ${count(recent.rounds)}` : "no answers")),
    h("td", { class: "target" }, stream.alphas ? aims(stream.alphas) : aim(stream.alpha)),
    h("td", { class: "trend" }, sparkline(stream.trend, stream.alpha)),
    h("td", { class: "extra" }, percent(stream.miss_rate), h("small", {}, `of ${count(stream.rounds)}`)),
    h("td", { class: "extra" }, count(stream.open)));
}

function empty() {
  const token = hasToken() ? "\n  -H 'Authorization: Bearer TOKEN' \\" : "";
  return h("div", { class: "card" }, h("h2", {}, "No streams yet"),
    h("p", {}, "Create one, and monitor its promise here:"),
    h("pre", { class: "scroll", tabindex: "0" }, h("code", {},
      `curl -X POST ${location.origin}/v1/streams \\${token}\n  -H 'Content-Type: application/json' \\\n  -d '{"name": "triage", "alpha": 0.1}'`)));
}

const broken = ([name, why]) => h("p", { class: "card note broken" }, h("b", {}, given(name), " cannot be used: "), why.replace(`stream '${name}' is quarantined: `, ""));

export async function list(signal) {
  const rows = h("tbody"), unusable = h("div", { class: "notes" }), nothing = h("p", { class: "quiet", role: "status" });
  const sum = h("p", { class: "quiet" }), where = h("span", { class: "quiet" });
  const choose = (changes) => { Object.assign(chosen, { offset: 0 }, changes); again(); };
  const words = h("input", { type: "search", id: "words", placeholder: "Name or learner", "aria-label": "Search streams", value: chosen.words, autocomplete: "off", spellcheck: "false",
    oninput: (event) => choose({ words: event.target.value }) });
  const kinds = h("div", { class: "switcher", role: "group", "aria-label": "Which streams" },
    Object.keys(KINDS).map((only) => h("button", { type: "button", "data-only": only, onclick: () => choose({ only }) })));
  const turn = (pages, text) => h("button", { type: "button", class: "plain", onclick: () => choose({ offset: Math.max(0, chosen.offset + pages * PAGE) }) }, text);
  const before = turn(-1, "Previous"), after = turn(1, "Next");
  const heads = ["stream", "promise", "recent", "target", "trend", "overall", "open"];
  const table = h("table", { class: "lines" },
    h("thead", {}, h("tr", {}, heads.map((name) => h("th", { scope: "col", class: ["overall", "open"].includes(name) ? "extra" : name }, name)))), rows);
  const body = h("div", {}, unusable, h("div", { class: "tools" }, words, kinds), nothing, table, h("div", { class: "actions pages" }, before, where, after));

  function draw({ streams, counts, matched, quarantined }) {
    const { all, alerts } = counts;
    entitle(alerts ? `${plural(alerts, "alert")} · Streams` : "Streams");
    sum.textContent = alerts ? `${plural(alerts, "stream")} of ${count(all)} off target.` : `${plural(all, "stream")}, none off target.`;
    for (const button of kinds.children) {
      const { only } = button.dataset;
      button.textContent = `${KINDS[only]} ${count(counts[only])}`;
      button.setAttribute("aria-pressed", String(only === chosen.only));
    }
    // Nothing moves under the pointer: what is there keeps its line until the pointer has left.
    const held = table.matches(":hover, :focus-within") ? [...rows.children].map((line) => line.dataset.key) : [];
    const place = (stream) => (held.includes(stream.name) ? held.indexOf(stream.name) : held.length);
    fill(rows, [...streams].sort((one, other) => place(one) - place(other)).map(row));
    nothing.textContent = matched ? "" : "No stream matches.";
    table.hidden = !matched;
    fill(where, matched > PAGE ? `${count(chosen.offset + 1)} to ${count(chosen.offset + streams.length)} of ${count(matched)}` : "");
    [before.hidden, after.hidden] = [chosen.offset === 0, chosen.offset + PAGE >= matched];
    fill(unusable, Object.entries(quarantined).map(broken));
  }

  const look = async () => {
    const asked = JSON.stringify(chosen);
    const query = new URLSearchParams({ words: chosen.words.trim(), only: chosen.only, offset: chosen.offset, limit: PAGE });
    const found = await get(`/v1/overview?${query}`, signal);
    if (signal.aborted || asked !== JSON.stringify(chosen)) return;
    const any = found.counts.all + found.counts.archived + Object.keys(found.quarantined).length;
    if (any && !table.isConnected) show(h("h1", {}, "Streams"), sum, body);
    if (any) return draw(found);
    entitle("No streams yet");
    show(h("h1", {}, "Streams"), empty());
  };
  let again = look;
  await look();
  again = keepFresh(look, signal);
}
