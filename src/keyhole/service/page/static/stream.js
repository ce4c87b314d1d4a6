import { download, get, hasToken } from "/page/api.js";
import * as charts from "/page/charts.js";
import { aim, count, duration, entitle, fault, fill, given, h, percent, plural, rounded, say, show, size } from "/page/dom.js";
import { keepFresh } from "/page/fresh.js";
import { advice, basis, isAlert, judge, lead, pill, repeatsLead } from "/page/promise.js";
import { strip, table } from "/page/rounds.js";

const ROWS = 12, FAN = 60; // rounds in the table, and in a fan of intervals
let by = "rounds"; // What the curves run along: kept from stream to stream.

function tile(name, value, ...notes) {
  return h("div", { class: `card tile${name.endsWith(", recent") ? " hero" : ""}` }, h("dt", {}, name), h("dd", {}, value, notes.filter(Boolean).map((note) => h("small", {}, note))));
}

const isRetargeted = (history) => history.changes.some((change) => "alpha" in change.content);

// The two miss rates stand side by side, each with its name, so that neither is taken for the other.
export function tiles(stream, history) {
  const { recent, promise } = stream;
  return [
    tile(`${fault(stream)}, recent`, percent(recent.miss_rate), `target ${aim(stream.alpha)}`, recent.rounds ? `last ${plural(recent.rounds, "answer")}` : "no answers yet"),
    tile(`${fault(stream)}, overall`, percent(stream.miss_rate), isRetargeted(history) ? "under several targets" : stream.rounds ? `99 % sure: ${(100 * promise.overall[0]).toFixed(1)} to ${percent(promise.overall[1])}` : null),
    tile(stream.kind === "gate" ? "judged" : "answered", count(stream.rounds), `${count(stream.open)} open, ${count(stream.expired)} expired`, stream.skipped ? `${count(stream.skipped)} skipped` : null),
  ];
}

function sizes(stream, recent) {
  if (!recent?.rounds) return [tile(stream.kind === "labels" ? "set size" : "width", "–", "no answers yet")];
  const late = tile("answers come after", duration(recent.median_seconds), `9 in 10: ${duration(recent.late_seconds)}`, recent.largest_batch > 1 ? `up to ${count(recent.largest_batch)} at once` : null);
  if (stream.kind === "gate") return [tile("accepted", percent(stream.accepted_share), "of all decisions"), late];
  const notes = stream.kind === "labels"
    ? [`${percent(recent.empty)} empty`, `${percent(recent.full)} full`]
    : [`${percent(recent.empty)} empty`, recent.unbounded ? `${percent(recent.unbounded)} unbounded` : null];
  const median = recent.median_size === null ? "unbounded" : size(recent.median_size);
  return [
    tile(stream.kind === "labels" ? "set size, median" : "width, median", median, ...notes),
    late,
  ];
}

function groups(stream) {
  const proven = stream.groups.some((group) => group.most !== null);
  const names = ["group", stream.kind === "gate" ? "judged" : "answered", fault(stream), "more than the target", ...(proven ? ["at most, for certain"] : [])];
  return h("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": "Groups" }, h("table", {},
    h("thead", {}, h("tr", {}, names.map((name) => h("th", { scope: "col" }, name)))),
    h("tbody", {}, stream.groups.map((group) => h("tr", {},
      h("td", {}, given(group.name)), h("td", {}, size(group.rounds)), h("td", {}, percent(group.miss_rate)),
      h("td", {}, size(group.excess)), proven ? h("td", {}, size(group.most)) : null)))));
}

// Every level has a target, a promise and numbers of its own.
function levels(stream, history) {
  const names = ["target", "promise", "missed, last 200", "missed, overall", stream.kind === "labels" ? "mean set size" : "mean width", "more than the target", "at most, for certain"];
  const share = (bits) => (bits.length ? bits.reduce((sum, bit) => sum + bit, 0) / bits.length : null);
  return h("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": "Levels" }, h("table", {},
    h("thead", {}, h("tr", {}, names.map((name) => h("th", { scope: "col" }, name)))),
    h("tbody", {}, stream.levels.map((one, place) => {
      const { last, proven } = history.levels[place];
      return h("tr", {}, h("td", {}, aim(one.alpha)), h("td", {}, pill({ ...one, archived: stream.archived })), h("td", {}, percent(share(last))), h("td", {}, percent(one.miss_rate)),
        h("td", {}, size(one.mean_size)), h("td", {}, size(proven.excess)), h("td", {}, size(proven.most)));
    }))));
}

const REASONS = { answered: "answered otherwise before", expired: "too late", unknown_prediction: "to no round", invalid: "that cannot be", feedback: "that tell too little", label: "with a label that cannot be", archived: "after the end", erased: "to an erased round" };

// What did not count, so that nobody wonders where answers are.
function refusals(stream) {
  const found = Object.entries(stream.refused), sum = found.reduce((total, [, one]) => total + one, 0);
  if (!sum) return null;
  return h("p", { class: "card note" }, `${plural(sum, "answer")} refused since this service was started: ${found.map(([code, one]) => `${count(one)} ${REASONS[code] ?? code}`).join(", ")}.`);
}

// What other learners would have done, beside it what the stream did in the same rounds.
function shadows(stream) {
  const gate = stream.kind === "gate", rate = (pair) => (pair === null ? "–" : pair[0] === pair[1] ? percent(pair[0]) : `${(100 * pair[0]).toFixed(1)} to ${percent(pair[1])}`);
  const names = ["shadow", "learner", "target", "answered beside it", fault(stream), "not known", gate ? "accepted" : "mean size", `stream: ${fault(stream)}`, ...(gate ? [] : ["stream: mean size"])];
  return h("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": "Shadows" }, h("table", {},
    h("thead", {}, h("tr", {}, names.map((name) => h("th", { scope: "col" }, name)))),
    h("tbody", {}, stream.shadows.map((one) => h("tr", {},
      h("td", {}, given(one.name)), h("td", {}, one.learner), h("td", {}, aim(one.alpha)), h("td", {}, count(one.rounds)), h("td", {}, rate(one.miss_rate)), h("td", {}, size(one.unknown)),
      h("td", {}, gate ? percent(one.accepted_share) : size(one.mean_size)), h("td", {}, percent(one.shown_miss_rate)), gate ? null : h("td", {}, size(one.shown_mean_size)))))));
}

// What the theorem says of these rounds; where they are beyond it, what it asks for was not so.
function certainty(stream, most) {
  const gate = stream.kind === "gate"; // How late the answers to sets came is in the number already.
  if (most >= stream.rounds) return [". With so few, nothing is certain yet."];
  if (stream.misses > most) return [". ", h("b", { class: "miss" }, `More than ${count(most)} could not have been`), gate ? " if every judgement were true and came before the next decision." : " if every answer were true."];
  return ["; ", h("b", {}, `more than ${count(most)} cannot happen`), `, whatever the data, if every ${gate ? "judgement is true and comes before the next decision" : "answer is true"}.`];
}

function guarantee(stream, certain) {
  const target = stream.alpha * stream.rounds;
  const gate = stream.kind === "gate", happened = `Of ${plural(stream.rounds, gate ? "judged answer" : "answered round")} ${size(stream.misses)} ${gate ? "were wrong" : "missed"}.`;
  const most = certain && certain.most !== null ? Math.floor(Math.max(0, Math.min(stream.rounds, target + certain.most))) : null;
  const own = !stream.rounds ? ["No answers yet."] : certain === null ? [`${happened} The target was changed, so nothing is certain for all of them together.`] : [`${happened} At the target it would be ${size(target)}`, ...(most === null ? ["."] : certainty(stream, most))];
  const lost = stream.unreachable ? h("p", {}, `${plural(stream.unreachable, "true value")} could not be covered by any threshold.`) : null;
  // Where numbers of this stream are known, a formula for all of them says less.
  return h("div", {}, h("p", {}, ...own), lost, most === null ? h("p", { class: "quiet small" }, `The rule: ${stream.guarantee}.`) : null);
}

function settings(stream) {
  const { thresholds } = stream.distribution;
  const rows = [
    ["learner", stream.learner], ["needs", stream.needs], ["feedback", stream.feedback], ["source", stream.source],
    ["score", Object.entries(stream.score).filter(([, value]) => value !== null).map(([name, value]) => (name === "name" ? value : `${name} ${rounded(value)}`)).join(", ")],
    ["next threshold", thresholds.length > 1 ? "drawn, see above" : thresholds[0] === null ? "above every score" : rounded(thresholds[0])],
    ["open rounds", `at most ${count(stream.open_limit)}, for ${duration(stream.lifetime)}`],
    ...Object.entries(stream.parameters).filter(([, value]) => value !== null).map(([name, value]) => [name, rounded(value)]),
  ];
  return h("dl", { class: "settings" }, rows.flatMap(([name, value]) => [h("dt", {}, name), h("dd", {}, value)]));
}

// The first sentence of a note; what follows it can be opened.
function note(text) {
  const end = text.indexOf(". ") + 1;
  if (text.length < 160 || !end) return h("p", { class: "card note" }, text);
  return h("details", { class: "card note" }, h("summary", {}, text.slice(0, end)), h("p", { class: "small" }, text.slice(end + 1)));
}

export function card(title, element, extra = "", note = null) {
  return h("section", { class: `card ${extra}` }, h("h2", {}, title, note ? h("small", {}, note) : null), element);
}

function switcher(redraw) {
  const buttons = charts.AXES.map((axis) => h("button", { type: "button", "aria-pressed": String(axis === by), onclick: () => {
    by = axis;
    for (const button of buttons) button.setAttribute("aria-pressed", String(button.textContent === by));
    redraw();
  } }, axis));
  return h("div", { class: "switcher", role: "group", "aria-label": "Curves against" }, buttons);
}

const ASKS = { labels: '{"scores": {"cat": 0.71, "lynx": 0.22}}', interval: '{"centre": 124.8}', band: '{"lower": 110.5, "upper": 131.0}', gate: '{"score": 0.93}' };

function empty(stream) {
  const token = hasToken() ? "\n  -H 'Authorization: Bearer TOKEN' \\" : "";
  return h("section", { class: "card wide" }, h("h2", {}, "No predictions yet"),
    h("p", {}, stream.kind === "gate" ? "Ask whether to accept an answer, then report whether it was right:" : "Ask for a set or an interval, then report what turned out to be true:"),
    h("pre", { class: "scroll", tabindex: "0" }, h("code", {}, `curl ${location.origin}/v1/streams/${encodeURIComponent(stream.name)}/${stream.kind === "gate" ? "decisions" : "predictions"} \\${token}\n  -H 'Content-Type: application/json' \\\n  -d '${ASKS[stream.kind]}'`)));
}

export async function stream(name, signal) {
  const path = `/v1/streams/${encodeURIComponent(name)}`;
  const start = await get(path, signal), { kind, distribution, groups: named } = start;
  const ranged = kind === "interval" || kind === "band", limit = ranged ? FAN : ROWS;
  const read = () => Promise.all([get(`${path}/history`, signal), get(`${path}/rounds?limit=${limit}`, signal)]);
  const first = [start, ...(await read())], gate = kind === "gate", drawn = distribution.thresholds.length > 1;
  const head = h("div"), leads = h("div"), notes = h("div", { class: "notes" }), numbers = h("dl", { class: "tiles" }), fresh = h("div"), ticks = h("div");
  const layered = h("div"), fan = h("div", { class: "chart" }), last = h("div"), grouped = h("div"), beside = h("div"), proven = h("div"), chosen = h("div"), todo = h("div", { class: "stretch" });
  const late = h("div", { class: "chart" }), misses = h("div", { class: "chart" }), widths = h("div", { class: "chart" }), play = h("div", { class: "chart" });
  const save = (kind) => h("button", { class: "plain", onclick: () => download(`${path}/export?format=${kind}`, `${name}.${kind}`).catch((error) => say(error.message)) }, `Download ${kind}`);
  const curves = (history) => {
    charts.rolling(late, history, by);
    const shaded = charts.missRate(misses, history, by);
    whole.querySelector("small").textContent = shaded ? "shaded: what the target allows" : "under several targets";
    if (gate) charts.accepted(widths, history, by);
    if (ranged) charts.fan(fan, shown[2].rounds);
    if (!gate) charts.setSize(widths, history, kind === "labels" ? "labels" : "in the outcome's unit", by);
  };
  const whole = card(gate ? "Wrong, overall" : "Overall miss rate", misses, "", " ");
  const aside = card("Shadows", beside, "wide", "learners that get the same answers and show nothing");
  const box = card("What is certain", proven), curved = h("div", {},
    first[0].levels ? card("Levels", layered, "above", "each keeps its own promise; figures of what each chose itself") : null,
    card("Recent answers", ticks, "", `the last one is on the right; tall and red: ${fault(first[0])}`),
    h("div", { class: "charts" },
      h("div", { class: "wide against" }, h("span", { class: "quiet small" }, "Curves against"), switcher(() => curves(shown[1]))),
      card(gate ? "Wrong, recent" : "Recent miss rate", late, "tall", "last 100; shaded: chance"), todo,
      whole,
      card(gate ? "Accepted" : kind === "labels" ? "Mean set size" : "Mean width", widths, "", "thin: recent; thick: overall"),
      drawn ? card("Thresholds it may play next", play) : null, box,
      ranged ? card("Last intervals", fan, "wide", "dots: what came true; red: outside") : null,
      named.length ? card("Groups", grouped, "wide", "the promise holds for each") : null,
      aside, card("Last rounds", last, "wide")));
  show(h("div", { class: "head" }, head, h("div", { class: "actions" }, save("csv"), save("parquet"))), leads, numbers, notes, fresh, curved,
    h("details", { class: "card below" }, h("summary", {}, "Settings"), chosen));

  let shown = [];
  function draw([now, history, log]) {
    const before = shown.length ? judge(shown[0]).promise.state : null, judged = judge(now), { state } = judged.promise, alert = isAlert(judged);
    shown = [now, history, log];
    entitle(alert ? `${state}: ${now.name}` : now.name);
    fill(head, h("h1", {}, given(now.name)), h("p", { class: "verdict" }, pill(judged), h("small", {}, now.levels ? `at ${aim(judged.alpha)}: ` : "", basis(judged, isRetargeted(history)))), now.description ? h("p", { class: "quiet about" }, given(now.description)) : null);
    fill(leads, alert ? h("p", { class: "lead" }, lead(judged, history.recent)) : null);
    fill(numbers, tiles(now, history), sizes(now, history.recent));
    fill(notes, now.notes.filter((one) => !repeatsLead(judged, one)).map(note), refusals(now));
    if (now.levels) fill(layered, levels(now, history));
    fill(fresh, now.predicted ? null : empty(now));
    fill(ticks, strip(history, now));
    curved.hidden = !now.predicted;
    fill(todo, advice(judged, history.recent));
    if (now.predicted) curves(history);
    if (drawn) charts.thresholds(play, now.distribution);
    box.classList.toggle("wide", alert !== drawn); // So that no place in the grid stays empty.
    fill(chosen, settings(now));
    if (named.length) fill(grouped, groups(now));
    aside.hidden = !now.shadows.length;
    fill(beside, shadows(now));
    fill(proven, guarantee(now, history.proven));
    fill(last, log.rounds.length ? table(log.rounds.slice(0, ROWS)) : h("p", { class: "quiet" }, "No rounds yet."));
    if (before && before !== state) say(`${now.name}: ${state}`);
  }
  draw(first);
  // The rest is asked for only where the stream has changed.
  keepFresh(async () => {
    const now = await get(path, signal);
    if (JSON.stringify(now) === JSON.stringify(shown[0])) return;
    const rest = await read();
    if (!signal.aborted) draw([now, ...rest]);
  }, signal);
}
