// Is the promise kept? In a pill, in a sentence, and as what to do about it.
import { aim, count, h, moment, plural } from "/page/dom.js";

const STATES = {
  "too many misses": { rank: 0, look: "many", text: "too many misses" },
  "fewer misses than alpha": { rank: 1, look: "few", text: "fewer misses than promised" },
  kept: { rank: 2, look: "kept", text: "promise kept" },
  starting: { rank: 3, look: "", text: "starting" },
};
const state = (stream) => STATES[stream.promise.state];

export const isAlert = (stream) => !stream.archived && state(stream).rank < 2;

// The worst first: alerts, then by how many standard errors the recent misses are off the target.
export function order(streams) {
  const rank = (stream) => state(stream).rank;
  const off = ({ alpha, recent }) => (recent.rounds ? Math.abs(recent.miss_rate - alpha) / Math.sqrt((alpha * (1 - alpha)) / recent.rounds) : 0);
  return [...streams].sort((a, b) => rank(a) - rank(b) || off(b) - off(a) || a.name.localeCompare(b.name));
}

export function pill(stream) {
  if (stream.archived) return h("span", { class: "pill" }, "archived");
  const { look, text } = state(stream);
  return h("span", { class: `pill ${look}` }, text);
}

// Which test decided, and since when.
export function speaker(stream) {
  const { alarm } = stream.promise;
  if (stream.archived) return `since ${moment(stream.archived)}`;
  if (isAlert(stream)) return `change detector, since ${moment(alarm.since.at)}`;
  if (stream.promise.state === "starting") return stream.rounds ? `too early to judge: ${plural(stream.rounds, "answer")}` : "no answers yet";
  if (alarm?.cleared) return `change detector, again since ${moment(alarm.cleared.at)}`;
  return `change detector: no alarm since answer ${count(stream.promise.tested)}`;
}

const CAUSES = [
  ["Did the model change?", "A new version, different preprocessing, scores that are now all near 0 or 1."],
  ["Did the answers change?", "A new source of labels, a job that answers “miss” by default, answers to the wrong rounds."],
  ["Do answers come late, or in batches?", "Nothing can be corrected before it is heard, so that the miss rate swings. Sooner answers and smaller batches keep it steadier."],
  ["Is there something the model does not know?", "A new class, or outcomes beyond the bound: no threshold helps there."],
  ["Did the world change?", "Then the sets stay larger until the model improves. The alarm ends by itself once the miss rate is back at the target."],
];
const EASY = [
  ["Do answers say “hit” where nobody looked?", "Then the sets shrink until they hold nothing. Check some answers against the truth."],
  ["Are only easy cases answered?", "Then the promise covers only those."],
  ["Do answers come late, or in batches?", "Then the learner is cautious, the miss rate swings, and the sets are larger than with prompt answers."],
  ["Is it one of the paper’s learners?", "Their miss rate falls towards 0 over time; the default stays at the target."],
];

// Since when, in a sentence.
export function lead(stream) {
  if (!isAlert(stream)) return null;
  const { since } = stream.promise.alarm, from = `Since about answer ${count(since.answers)} (${moment(since.at)})`;
  const gate = stream.kind === "gate", fails = gate ? "is wrong" : "misses";
  return stream.promise.state === "too many misses"
    ? `${from} it ${fails} more often than the ${aim(stream.alpha)} it promises. It ${gate ? "accepts less" : "widens its sets"} by itself; find out what changed.`
    : `${from} it ${fails} less often than its target of ${aim(stream.alpha)}: either ${gate ? "it could accept more" : "its sets could be smaller"}, or the answers are not what they should be.`;
}

// The predictor notes an alarm too: beside the sentence above it would be said twice.
export const repeatsLead = (stream, note) => isAlert(stream) && note.includes(`since about answer ${count(stream.promise.alarm.since.answers)};`);

export function advice(stream) {
  if (!isAlert(stream)) return null;
  const { alarm, run_length } = stream.promise, many = stream.promise.state === "too many misses";
  return h("section", { class: `card advice ${many ? "many" : "few"}`, "aria-label": "What to do" },
    h("h2", {}, many ? "What to do" : "What it means"),
    h("ol", {}, (many ? CAUSES : EASY).map(([question, answer]) => h("li", {}, h("b", {}, question), " ", answer))),
    h("p", { class: "quiet small" }, `Found at answer ${count(alarm.raised.answers)} (${moment(alarm.raised.at)}) by a test that raises at most one false alarm in ${count(run_length)} rounds on average, however often it is checked.`));
}
