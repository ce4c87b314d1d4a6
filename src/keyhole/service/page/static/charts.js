// The curves of a stream.
import { aim, count, moment, percent, rounded, size } from "/page/dom.js";
import { plot } from "/page/plot.js";

// What every curve runs along: answered rounds, or the time at which they were answered.
export const AXES = ["rounds", "time"];
const along = (history, by) => (by === "time" ? history.at.map((at) => Date.parse(at)) : history.rounds);

function across(history, by) {
  const at = along(history, by), last = at.at(-1) ?? 0;
  if (by === "time") return { time: true, title: "when answered", range: at.length > 1 ? [at[0], last] : [last - 6e4, last + 6e4], read: (x) => moment(x) };
  return { title: "answered rounds", range: [0, Math.max(10, 1.02 * last)], format: (x) => (Number.isInteger(x) ? count(x) : ""), read: (x) => `round ${count(x)}` };
}

const share = (top) => ({ range: [0, top], format: (y) => `${Number((100 * y).toFixed(2))} %`, read: percent });

function sizes(values) {
  const top = 1.1 * Math.max(...values.filter((value) => value !== null), 0);
  return { range: [0, top || 1], format: rounded, read: size };
}

const target = (at, history) => ({ at, values: at.map(() => history.alpha), look: "target", name: "target" });

// Alarms as shaded stretches, changes of the settings as lines.
function marks(history, by) {
  const place = (moment) => (by === "time" ? Date.parse(moment.at) : moment.answers), end = along(history, by).at(-1);
  return {
    spans: history.alarms.map((alarm) => ({ from: place(alarm.since), to: alarm.cleared ? place(alarm.cleared) : end, look: alarm.state === "too many misses" ? "many" : "few" })),
    rules: history.changes.map((change) => {
      const answers = history.rounds.findLast((_, place) => history.at[place] <= change.at) ?? 0;
      const what = Object.entries(change.content).map(([name, value]) => (typeof value === "number" ? `${name} ${rounded(value)}` : name)).join(", ");
      return { at: by === "time" ? Date.parse(change.at) : answers, text: what || change.kind };
    }),
  };
}

// Whether the target at a time was the current one: today's band does not apply to earlier rounds.
function isHeld(history) {
  const changed = history.changes.findLast((change) => "alpha" in change.content);
  return (at) => changed === undefined || at >= changed.at;
}

function words(history, what, last) {
  return history.rounds.length && last !== null ? `${what} over ${count(history.rounds.at(-1))} answered rounds: now ${percent(last)}, target ${aim(history.alpha)}.` : "No rounds yet.";
}

// Of several levels each has its curve, the outermost first and the darkest.
const inner = (history, at, name) => (history.levels ?? []).slice(1).map((level, place) => ({ at, values: level[name], look: `main level-${place + 1}`, name: aim(level.alpha) }));
const targets = (at, history) => (history.levels ?? [history]).map((level) => target(at, level));

// The newest intervals, the nested ones of several levels one over another, and what came true.
export function fan(element, rounds) {
  const newest = [...rounds].reverse().filter((round) => round.interval), at = newest.map((round) => round.round);
  const count_ = Math.max(1, ...newest.map((round) => round.levels?.length ?? 1));
  const known = newest.filter((round) => typeof round.answer?.label === "number").map((round) => [round.round, round.answer.label, round.missed]);
  const ends = newest.flatMap((round) => round.interval).concat(known.map((one) => one[1])).filter((end) => end !== null);
  const [low, high] = ends.length ? [Math.min(...ends), Math.max(...ends)] : [0, 1], margin = 0.05 * (high - low || 1);
  const pair = ([lower, upper]) => [lower ?? low - margin, upper ?? high + margin];
  const bands = Array.from({ length: count_ }, (_, place) => {
    const held = newest.filter((round) => !round.levels || round.levels[place]?.interval);
    return { look: "fan", at: held.map((round) => round.round), pairs: held.map((round) => pair(round.levels ? round.levels[place].interval : round.interval)) };
  });
  plot(element, {
    x: { range: [at[0] ?? 0, Math.max(at.at(-1) ?? 1, (at[0] ?? 0) + 1)], title: "round", format: (x) => (Number.isInteger(x) ? count(x) : ""), read: (x) => `round ${count(x)}` },
    y: { range: [low - margin, high + margin], format: rounded, read: size }, bands,
    dots: known.map(([x, y, missed]) => [x, y, missed ? "bad" : ""]), note: newest.length ? null : "no intervals yet",
    words: newest.length ? `The last ${count(newest.length)} intervals${count_ > 1 ? `, at ${count_} levels` : ""}; ${known.filter((one) => one[2]).length} of ${known.length} true values lie outside${count_ > 1 ? " the outermost" : ""}.` : "No intervals yet.",
  });
}

// Returns whether what the target allows is shaded: it speaks of one target.
export function missRate(element, history, by = "rounds") {
  const at = along(history, by), values = history.miss_rate, held = isHeld(history);
  const top = Math.min(1.02, Math.max(history.levels ? 1.6 * history.levels.at(-1).alpha : 3 * history.alpha, 1.15 * Math.max(0, ...(history.levels ?? [history]).flatMap((level) => level.miss_rate.slice(Math.floor(at.length / 10))).map((rate) => rate ?? 0))));
  const since = at.filter((_, place) => held(history.at[place])), shaded = since.length === at.length;
  plot(element, {
    x: across(history, by), y: share(top), ...marks(history, by), words: words(history, "Miss rate", values.at(-1)),
    bands: shaded ? (history.levels ?? [history]).map((level) => ({ at, pairs: level.band })) : [], lines: [...targets(since, history), ...inner(history, at, "miss_rate"), { at, values, look: "main", name: history.levels ? aim(history.alpha) : "overall" }],
  });
  return shaded;
}

const WINDOW = 100;

// The miss rate of the last hundred rounds or so at every point: longer where points are farther apart.
// Where nothing was accepted, a gate has no such rate.
function roll(history) {
  const parts = history.rounds.map((rounds, place) => {
    const width = rounds - (history.rounds[place - 1] ?? 0), rate = history.local_miss_rate[place];
    const weight = rate === null ? 0 : width;
    return { width, weight, misses: weight * rate };
  });
  let from = 0, width = 0, weight = 0, misses = 0;
  return parts.map((part) => {
    width += part.width, weight += part.weight, misses += part.misses;
    while (width - parts[from].width >= WINDOW) {
      width -= parts[from].width, weight -= parts[from].weight, misses -= parts[from].misses;
      from += 1;
    }
    return { rate: weight > 0 ? misses / weight : null, width, weight };
  });
}

export function rolling(element, history, by = "rounds") {
  const held = isHeld(history), at = along(history, by);
  const rolled = roll(history).map((one, place) => ({ ...one, x: at[place], held: held(history.at[place]) })).filter((one) => one.width >= WINDOW / 2 && one.rate !== null);
  const values = rolled.map((one) => one.rate), now = rolled.filter((one) => one.held), since = now.map((one) => one.x);
  const pairs = now.map(({ weight }) => {
    const half = 2.576 * Math.sqrt((history.alpha * (1 - history.alpha)) / weight);
    return [Math.max(0, history.alpha - half), Math.min(1, history.alpha + half)];
  });
  const top = Math.min(1.02, 1.1 * Math.max(3 * history.alpha, ...values, ...pairs.map((pair) => pair[1])));
  plot(element, {
    x: across(history, by), y: share(top), ...marks(history, by), bands: [{ at: since, pairs }],
    lines: [target(since, history), { at: rolled.map((one) => one.x), values, look: "main", name: "recent" }],
    dots: now.filter((one, place) => one.rate > pairs[place][1]).map((one) => [one.x, one.rate]),
    note: history.rounds.length && !rolled.length ? `from ${WINDOW / 2} answers on` : null,
    words: words(history, "Rolling miss rate", values.at(-1) ?? null),
  });
}

export function setSize(element, history, unit, by = "rounds") {
  const at = along(history, by), last = history.mean_size.at(-1) ?? null;
  plot(element, {
    x: across(history, by), y: sizes([...history.local_mean_size, ...history.mean_size]), ...marks(history, by),
    lines: [{ at, values: history.local_mean_size, look: "thin", name: "recent" }, ...inner(history, at, "mean_size"), { at, values: history.mean_size, look: "main", name: history.levels ? aim(history.alpha) : "overall" }],
    words: last !== null ? `Mean size so far: ${size(last)} ${unit}.` : "No sizes yet.",
  });
}

// The share that a gate accepts: recent and overall.
export function accepted(element, history, by = "rounds") {
  const at = along(history, by), last = history.accepted_share.at(-1) ?? null, known = at.map((x, place) => [x, history.local_accepted_share[place]]).filter(([, value]) => value !== null);
  plot(element, {
    x: across(history, by), y: share(1.02), ...marks(history, by),
    lines: [{ at: known.map(([x]) => x), values: known.map(([, value]) => value), look: "thin", name: "recent" }, { at, values: history.accepted_share, look: "main", name: "overall" }],
    words: last !== null ? `Accepted so far: ${percent(last)}.` : "No decisions yet.",
  });
}

export function thresholds(element, distribution) {
  const { thresholds: at, probabilities: chances } = distribution, top = Math.max(...chances);
  const bars = at.map((x, place) => [x, chances[place]]).filter(([x]) => x !== null);
  plot(element, {
    x: { range: [-0.04, 1.04], title: "threshold", format: (x) => String(Number(x.toFixed(2))) }, y: share(1.1 * top), bars,
    words: `How likely each threshold is to be played next; the likeliest is ${size(at[chances.indexOf(top)] ?? 1)}.`,
  });
}
