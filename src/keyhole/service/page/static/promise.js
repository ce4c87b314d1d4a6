// Is the promise kept? In a pill, in a sentence, and as what to do about it.
import { aim, count, h, moment, plural } from "/page/dom.js";

const BATCH = 50; // answers at one moment, from which on that is named as a cause

const STATES = {
  "too many misses": { rank: 0, look: "many", text: "too many misses" },
  "fewer misses than alpha": { rank: 1, look: "few", text: "fewer misses than promised" },
  kept: { rank: 2, look: "kept", text: "promise kept" },
  starting: { rank: 3, look: "", text: "starting" },
};

// A line of the overview has its state beside its numbers, a stream within its promise.
const state = (stream) => STATES[stream.state ?? stream.promise.state];

// A stream of several levels as that level of it that is off the most: its promise, and its target.
const ORDER = ["too many misses", "fewer misses than alpha", "starting", "kept"];
export function judge(stream) {
  if (!stream.levels) return stream;
  const [worst] = [...stream.levels].sort((one, other) => ORDER.indexOf(one.promise.state) - ORDER.indexOf(other.promise.state));
  return { ...stream, alpha: worst.alpha, promise: worst.promise };
}

export const isAlert = (stream) => !stream.archived && state(stream).rank < 2;

export function pill(stream) {
  if (stream.archived) return h("span", { class: "pill" }, "archived");
  const { look, text } = state(stream);
  return h("span", { class: `pill ${look}` }, text);
}

// What the state rests on, and since when.
export function basis(stream, changed) {
  const { alarm } = stream.promise;
  if (stream.archived) return `since ${moment(stream.archived)}`;
  if (isAlert(stream)) return `off target since ${moment(alarm.since.at)}`;
  if (stream.promise.state === "starting") return early(stream.recent.rounds, changed);
  if (alarm?.cleared) return `back on target since ${moment(alarm.cleared.at)}`;
  return `no alarm since answer ${count(stream.promise.tested)}`;
}

// So long a state would stand beside numbers that deny it, as they are those of another target.
export const early = (rounds, changed) => (rounds || changed ? `too early to judge: ${plural(rounds, "answer")}${changed ? " since the target changed" : ""}` : "no answers yet");

const CAUSES = [
  ["Did the model change?", "A new version, different preprocessing, scores that are now all near 0 or 1."],
  ["Did the answers change?", "A new source of labels, a job that answers “miss” by default, answers to the wrong rounds."],
  ["Is there something the model does not know?", "A new class, or outcomes beyond the bound: no threshold helps there."],
  ["Did the world change?", "Then the sets stay larger until the model improves. The alarm ends by itself once the miss rate is back at the target."],
];
const EASY = [
  ["Do answers say “hit” where nobody looked?", "Then the sets shrink until they hold nothing. Check some answers against the truth."],
  ["Are only easy cases answered?", "Then the promise covers only those."],
  ["Is it one of the paper’s learners?", "Their miss rate falls towards 0 over time; the default stays at the target."],
];


// Of late answers and of those that come many at once: what is predicted meanwhile knows nothing of them.
function lateness(recent) {
  const remedy = "Nothing can be corrected before its answer comes, so the miss rate swings: sooner answers and smaller batches make it steadier.";
  if (recent?.largest_batch >= BATCH) return [`Answers come in batches, of up to ${count(recent.largest_batch)}.`, remedy];
  if (recent?.late_rounds >= BATCH) return [`Answers come late, by about ${count(Math.round(recent.late_rounds))} rounds.`, remedy];
  return ["Do answers come late, or in batches?", remedy];
}

// Since when, in a sentence.
export function lead(stream, recent) {
  if (!isAlert(stream)) return null;
  const { since } = stream.promise.alarm, from = `Since about answer ${count(since.answers)} (${moment(since.at)})`;
  const gate = stream.kind === "gate", fails = gate ? "is wrong" : "misses";
  const batched = recent?.largest_batch >= BATCH ? ` Answers come in batches of up to ${count(recent.largest_batch)}, which alone can cause this.` : "";
  return (stream.promise.state === "too many misses"
    ? `${from} it ${fails} more often than the ${aim(stream.alpha)} it promises. It ${gate ? "accepts less" : "widens its sets"} by itself; find out what changed.`
    : `${from} it ${fails} less often than its target of ${aim(stream.alpha)}: either ${gate ? "it could accept more" : "its sets could be smaller"}, or the answers are not what they should be.`) + batched;
}

// The predictor notes an alarm too: beside the sentence above it would be said twice.
export const repeatsLead = (stream, note) => isAlert(stream) && note.includes(`since about answer ${count(stream.promise.alarm.since.answers)};`);

export function advice(stream, recent) {
  if (!isAlert(stream)) return null;
  const { alarm, run_length } = stream.promise, many = stream.promise.state === "too many misses";
  const known = recent?.largest_batch >= BATCH || recent?.late_rounds >= BATCH, causes = many ? CAUSES : EASY;
  const listed = known ? [lateness(recent), ...causes] : [...causes.slice(0, 2), lateness(recent), ...causes.slice(2)];
  return h("section", { class: `card advice ${many ? "many" : "few"}`, "aria-label": "What to do" },
    h("h2", {}, many ? "What to do" : "What it means"),
    h("ol", {}, listed.map(([question, answer]) => h("li", {}, h("b", {}, question), " ", answer))),
    h("p", { class: "quiet small" }, `Found at answer ${count(alarm.raised.answers)} (${moment(alarm.raised.at)}) by a test that raises at most one false alarm in ${count(run_length)} rounds on average, however often it is checked.`));
}
