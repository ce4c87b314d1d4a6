import { download, get, keepUp, listen } from "/page/api.js";
import * as charts from "/page/charts.js";
import { count, h, percent, pill, say, show, size, time } from "/page/dom.js";

const EXTRA = ["at", "threshold"]; // Left out where there is little room.

function tile(name, value, note) {
  return h("div", { class: "card tile" }, h("dt", {}, name), h("dd", {}, value, note ? h("small", {}, note) : null));
}

export function tiles(stream) {
  const { recent } = stream;
  return [
    tile("answered", count(stream.rounds), `${count(stream.open)} open`),
    tile("missed", percent(stream.miss_rate), `target ${percent(stream.alpha)}`),
    tile(`last ${count(recent.window)}`, percent(recent.miss_rate), recent.rounds < recent.window ? `${recent.rounds} so far` : "rounds"),
    tile(stream.kind === "labels" ? "mean set size" : "mean width", size(stream.mean_size), stream.kind === "labels" ? "labels" : null),
  ];
}

function region(round) {
  if (round.labels) return round.labels.length ? round.labels.slice(0, 8).map((label) => h("span", { class: "chip" }, String(label))).concat(round.labels.length > 8 ? [`+ ${round.labels.length - 8}`] : []) : ["nothing"];
  return round.interval ? [`${size(round.interval[0]) } to ${size(round.interval[1])}`] : ["nothing"];
}

function answer(round) {
  if (round.answer === null) return h("span", { class: "quiet" }, "open");
  const told = typeof round.answer === "object" ? `: ${round.answer.label}` : "";
  return h("span", { class: round.missed ? "miss" : "hit" }, (round.missed ? "miss" : "hit") + told);
}

export function table(rounds) {
  return h("div", { class: "scroll" }, h("table", {},
    h("thead", {}, h("tr", {}, ["round", "at", "threshold", "proposed", "answer"].map((name) => h("th", { scope: "col", class: EXTRA.includes(name) ? "extra" : null }, name)))),
    h("tbody", {}, rounds.map((round) => h("tr", {},
      h("td", {}, count(round.round)), h("td", { class: "extra" }, time(round.at)), h("td", { class: "extra" }, round.threshold === null ? "above all" : round.threshold.toFixed(3)),
      h("td", {}, region(round)), h("td", {}, answer(round)))))));
}

function settings(stream) {
  const rows = [
    ["learner", stream.learner], ["needs", stream.needs], ["regime", stream.regime], ["guarantee", stream.guarantee], ["source", stream.source],
    ["score", Object.entries(stream.score).map(([name, value]) => (name === "kind" ? value : `${name} ${size(value)}`)).join(", ")], ["open rounds", `at most ${count(stream.open_limit)}, for ${count(stream.lifetime)} s`],
    ...Object.entries(stream.parameters).filter(([, value]) => value !== null).map(([name, value]) => [name, String(value)]),
  ];
  return h("dl", { class: "settings" }, rows.flatMap(([name, value]) => [h("dt", {}, name), h("dd", {}, value)]));
}

function card(title, element, extra = "", note = null) {
  return h("section", { class: `card ${extra}` }, h("h2", {}, title, note ? h("small", {}, note) : null), element);
}

export async function stream(name, signal) {
  const path = `/v1/streams/${encodeURIComponent(name)}`;
  const first = await get(path);
  const unit = first.kind === "labels" ? "labels" : "in the outcome's unit";
  const head = h("div"), numbers = h("dl", { class: "tiles" }), last = h("div");
  const misses = h("div", { class: "chart" }), sizes = h("div", { class: "chart" }), next = h("div", { class: "chart" });
  const save = (kind) => h("button", { class: "plain", onclick: () => download(`${path}/export?format=${kind}`, `${name}.${kind}`).catch((error) => say(error.message)) }, `Download ${kind}`);
  show(h("div", { class: "head" }, head, h("div", { class: "actions" }, save("csv"), save("parquet"))), numbers,
    h("div", { class: "charts" },
      card("Misses so far", misses, "wide", "dashed: the target; shaded: what chance allows, 99 times in 100"),
      card(first.kind === "labels" ? "Set size" : "Interval width", sizes), card("Thresholds it may play next", next),
      card("Last rounds", last, "wide"), card("Settings", settings(first), "wide")));
  let alert = first.recent.alert;
  const update = keepUp(async (now) => {
    const [history, log] = await Promise.all([get(`${path}/history`), get(`${path}/rounds?limit=12`)]);
    if (signal.aborted) return;
    head.replaceChildren(h("h1", {}, now.name), pill(now), ...now.notes.map((note) => h("p", { class: "quiet small" }, note)));
    numbers.replaceChildren(...tiles(now));
    charts.missRate(misses, history);
    charts.setSize(sizes, history, unit);
    charts.thresholds(next, now.distribution);
    last.replaceChildren(log.rounds.length ? table(log.rounds) : h("p", { class: "quiet" }, "No rounds yet."));
    if (now.recent.alert !== alert) say(`${now.name}: ${(alert = now.recent.alert)}`);
  }, signal);
  await update(first);
  listen(name, update, signal);
}
