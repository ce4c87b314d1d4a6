import { download, get, keepUp, listen } from "/page/api.js";
import * as charts from "/page/charts.js";
import { aim, count, duration, entitle, fault, h, percent, plural, say, show, size } from "/page/dom.js";
import { advice, isAlert, lead, pill, repeatsLead, speaker } from "/page/promise.js";
import { strip, table } from "/page/rounds.js";

let by = "rounds"; // What the curves run along: kept from stream to stream.

function tile(name, value, ...notes) {
  return h("div", { class: "card tile" }, h("dt", {}, name), h("dd", {}, value, notes.filter(Boolean).map((note) => h("small", {}, note))));
}

// The two miss rates stand side by side, each with its name, so that neither is taken for the other.
export function tiles(stream) {
  const { recent, promise } = stream;
  return [
    tile(recent.rounds ? `${fault(stream)}, last ${count(Math.min(recent.rounds, recent.window))}` : `${fault(stream)}, recent`, percent(recent.miss_rate), `target ${aim(stream.alpha)}`),
    tile(`${fault(stream)}, overall`, percent(stream.miss_rate), stream.rounds ? `99 % sure: ${(100 * promise.overall[0]).toFixed(1)} to ${percent(promise.overall[1])}` : null),
    tile(stream.kind === "gate" ? "judged" : "answered", count(stream.rounds), `${count(stream.open)} open, ${count(stream.expired)} expired`, stream.skipped ? `${count(stream.skipped)} skipped` : null),
  ];
}

function sizes(stream, recent) {
  if (!recent?.rounds) return [tile(stream.kind === "labels" ? "set size" : "width", "–", "no answers yet")];
  const late = tile("answers come after", duration(recent.median_seconds), `9 in 10: ${duration(recent.late_seconds)}`);
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
  return h("div", { class: "scroll" }, h("table", {},
    h("thead", {}, h("tr", {}, names.map((name) => h("th", { scope: "col" }, name)))),
    h("tbody", {}, stream.groups.map((group) => h("tr", {},
      h("td", {}, String(group.name)), h("td", {}, size(group.rounds)), h("td", {}, percent(group.miss_rate)),
      h("td", {}, size(group.excess)), proven ? h("td", {}, size(group.most)) : null)))));
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
  return h("div", {}, h("p", {}, ...own), lost, h("p", { class: "quiet small" }, `The rule: ${stream.guarantee}.`));
}

function settings(stream) {
  const { thresholds } = stream.distribution;
  const rows = [
    ["learner", stream.learner], ["needs", stream.needs], ["feedback", stream.feedback], ["source", stream.source],
    ["score", Object.entries(stream.score).filter(([, value]) => value !== null).map(([name, value]) => (name === "name" ? value : `${name} ${typeof value === "number" ? size(value) : value}`)).join(", ")],
    ["next threshold", thresholds.length > 1 ? "drawn, see above" : thresholds[0] === null ? "above every score" : thresholds[0].toFixed(4)],
    ["open rounds", `at most ${count(stream.open_limit)}, for ${duration(stream.lifetime)}`],
    ...Object.entries(stream.parameters).filter(([, value]) => value !== null).map(([name, value]) => [name, String(value)]),
  ];
  return h("dl", { class: "settings" }, rows.flatMap(([name, value]) => [h("dt", {}, name), h("dd", {}, value)]));
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
  return h("section", { class: "card wide" }, h("h2", {}, "No predictions yet"),
    h("p", {}, stream.kind === "gate" ? "Ask whether to accept an answer, then report whether it was right:" : "Ask for a set or an interval, then report what turned out to be true:"),
    h("pre", { class: "scroll" }, h("code", {}, `curl ${location.origin}/v1/streams/${encodeURIComponent(stream.name)}/${stream.kind === "gate" ? "decisions" : "predictions"} \\\n  -H 'Content-Type: application/json' \\\n  -d '${ASKS[stream.kind]}'`)));
}

export async function stream(name, signal) {
  const path = `/v1/streams/${encodeURIComponent(name)}`;
  const [first] = await Promise.all([get(path), charts.load()]);
  const gate = first.kind === "gate", drawn = first.distribution.thresholds.length > 1;
  const unit = first.kind === "labels" ? "labels" : "in the outcome's unit";
  const head = h("div"), notes = h("div", { class: "notes" }), numbers = h("dl", { class: "tiles" }), fresh = h("div"), ticks = h("div");
  const last = h("div"), grouped = h("div"), proven = h("div"), chosen = h("div"), todo = h("div", { class: "stretch" });
  const late = h("div", { class: "chart" }), misses = h("div", { class: "chart" }), widths = h("div", { class: "chart" }), play = h("div", { class: "chart" });
  const save = (kind) => h("button", { class: "plain", onclick: () => download(`${path}/export?format=${kind}`, `${name}.${kind}`).catch((error) => say(error.message)) }, `Download ${kind}`);
  let history = null;
  const curves = () => {
    charts.rolling(late, history, by);
    const shaded = charts.missRate(misses, history, by);
    whole.querySelector("small").textContent = shaded ? "shaded: what the target allows" : "under several targets";
    if (gate) charts.accepted(widths, history, by);
    else charts.setSize(widths, history, unit, by);
  };
  const whole = card(gate ? "Wrong, overall" : "Overall miss rate", misses, "", " ");
  const box = card("What is certain", proven), curved = h("div", {},
    card("Recent answers", ticks, "", `the last one is on the right; tall and red: ${fault(first)}`),
    h("div", { class: "charts" },
      h("div", { class: "wide against" }, h("span", { class: "quiet small" }, "Curves against"), switcher(() => history && curves())),
      card(gate ? "Wrong, recent" : "Recent miss rate", late, "tall", "last 100; shaded: chance"), todo,
      whole,
      card(gate ? "Accepted" : first.kind === "labels" ? "Mean set size" : "Mean width", widths, "", "thin: recent; thick: overall"),
      drawn ? card("Thresholds it may play next", play) : null, box,
      first.groups?.length ? card("Groups", grouped, "wide", "the promise holds for each") : null,
      card("Last rounds", last, "wide")));
  show(h("div", { class: "head" }, head, h("div", { class: "actions" }, save("csv"), save("parquet"))), notes, numbers, fresh, curved, card("Settings", chosen, "below"));
  let state = first.promise.state, seen = "";
  const update = keepUp(async (now) => {
    if (JSON.stringify(now) === seen) return;
    const [curve, log] = await Promise.all([get(`${path}/history`), get(`${path}/rounds?limit=12`)]);
    if (signal.aborted) return;
    history = curve;
    entitle(isAlert(now) ? `${now.promise.state}: ${now.name}` : now.name);
    head.replaceChildren(h("h1", {}, now.name), h("p", { class: "verdict" }, pill(now), h("small", {}, speaker(now))), ...(now.description ? [h("p", { class: "quiet" }, now.description)] : []));
    notes.replaceChildren(...(isAlert(now) ? [h("p", { class: "lead" }, lead(now))] : []), ...now.notes.filter((note) => !repeatsLead(now, note)).map((note) => h("p", { class: "card note" }, note)));
    todo.replaceChildren(...[advice(now)].filter(Boolean));
    numbers.replaceChildren(...tiles(now), ...sizes(now, history.recent));
    fresh.replaceChildren(...(now.predicted ? [] : [empty(now)]));
    ticks.replaceChildren(strip(history, now));
    curved.hidden = !now.predicted;
    if (now.predicted) curves();
    if (drawn) charts.thresholds(play, now.distribution);
    box.classList.toggle("wide", isAlert(now) !== drawn); // So that no place in the grid stays empty.
    chosen.replaceChildren(settings(now));
    if (now.groups?.length) grouped.replaceChildren(groups(now));
    proven.replaceChildren(guarantee(now, history.proven));
    last.replaceChildren(log.rounds.length ? table(log.rounds) : h("p", { class: "quiet" }, "No rounds yet."));
    if (now.promise.state !== state) say(`${now.name}: ${(state = now.promise.state)}`);
    seen = JSON.stringify(now);
  }, signal);
  await update(first);
  listen(name, update, signal);
}
