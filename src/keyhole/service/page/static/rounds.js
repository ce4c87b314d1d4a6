// The last rounds: as a strip that shows a failure at a glance, and as a table.
import { aim, count, given, h, moment, plural, size } from "/page/dom.js";

const EXTRA = ["asked", "threshold"]; // Left out where there is little room.

// One tick a round, the newest on the right; a miss is tall and red.
export function strip(history, stream) {
  const bits = history.last, missed = bits.reduce((sum, bit) => sum + bit, 0);
  const expected = bits.length * history.alpha, held = history.on_target >= bits.length;
  if (!bits.length) return h("p", { class: "quiet" }, "No answers yet.");
  const words = `${missed} of the last ${plural(bits.length, "round")} ${stream.kind === "gate" ? "were wrong" : "missed"}; ${held ? `about ${size(Math.round(10 * expected) / 10)} would at the target` : `the target was different before the last ${count(history.on_target)}`}.`;
  const far = held && Math.abs(missed - expected) > 2.576 * Math.sqrt(expected * (1 - history.alpha));
  return h("div", {},
    h("div", { class: "strip", role: "img", "aria-label": words }, bits.map((bit) => h("i", { class: bit ? "missed" : null }))),
    h("p", { class: far && missed > expected ? "miss small" : "quiet small" }, words));
}

// What was shown on each level, and which of them missed.
const levels = (round) => round.levels.map((one) => h("div", {}, h("small", { class: one.missed ? "miss" : "quiet" }, `${aim(one.alpha)}${one.missed ? " missed" : ""} `), region({ ...one, levels: null })));

function region(round) {
  if (round.levels) return levels(round);
  if (round.erased) return [h("span", { class: "quiet" }, "erased")];
  if (round.decision) return [h("span", { class: round.decision === "accepted" ? "chip" : "quiet" }, round.decision)];
  if (round.labels) {
    if (!round.labels.length) return ["nothing"];
    const rest = round.labels.length - 8;
    return [...round.labels.slice(0, 8).map((label) => h("span", { class: "chip" }, given(label))), ...(rest > 0 ? [`+ ${rest}`] : [])];
  }
  if (!round.interval) return ["nothing"];
  const [low, high] = round.interval;
  if (low === null && high === null) return ["anything (no bounds yet)"];
  if (low === null) return [`up to ${size(high)}`];
  if (high === null) return [`from ${size(low)}`];
  return [`${size(low)} to ${size(high)}`];
}

// What an answer says beyond hit or miss: the true label, or a graded answer with its number.
function detail(answer) {
  if (typeof answer !== "object") return [];
  const [name, value] = Object.entries(answer).find(([key]) => !["chance", "wrong", "judged"].includes(key)) ?? [];
  if (name === "label") return [": ", given(typeof value === "number" ? size(value) : value)];
  return ["score", "loss"].includes(name) ? [`, ${name} ${size(value)}`] : [];
}

// What was said before it was amended.
function amended(round) {
  if (!round.amended_at) return null;
  const { first_answer: first } = round, words = typeof first === "string" ? [first] : [Object.keys(first)[0], " ", given(Object.values(first)[0])];
  return h("small", { class: "quiet" }, ` amended ${moment(round.amended_at)}, first `, words);
}

function outcome(round) {
  if (round.answer === null) return h("span", { class: "quiet" }, round.decision === "referred" ? "not judged" : "open");
  if (round.missed === null) return h("span", { class: "quiet" }, round.decision === "referred" ? "judged" : "skipped");
  if (round.decision) return h("span", { class: round.missed ? "miss" : "hit" }, round.missed ? "wrong" : "right", amended(round));
  return h("span", { class: round.missed ? "miss" : "hit" }, round.missed ? "miss" : "hit", detail(round.answer), amended(round));
}

export function table(rounds) {
  const grouped = rounds.some((round) => round.groups?.length);
  const names = ["round", "asked", "threshold", rounds.some((round) => round.decision) ? "decision" : "proposed", ...(grouped ? ["groups"] : []), "answer"];
  return h("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": "Last rounds" }, h("table", {},
    h("thead", {}, h("tr", {}, names.map((name) => h("th", { scope: "col", class: EXTRA.includes(name) ? "extra" : null }, name)))),
    h("tbody", {}, rounds.map((round) => h("tr", {},
      h("td", {}, count(round.round)), h("td", { class: "extra" }, moment(round.at)), h("td", { class: "extra" }, round.threshold === null ? "above all" : round.threshold.toFixed(3)),
      h("td", {}, region(round)), grouped ? h("td", {}, given(round.groups.join(", "))) : null, h("td", {}, outcome(round)))))));
}
