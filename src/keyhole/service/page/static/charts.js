// Charts are pictures: each says in words, for those who cannot see it, what it shows.
const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();

// Plotly's script is large: it is fetched when there is something to draw.
let loading = null;
export function load() {
  loading ??= new Promise((resolve, reject) => {
    const script = document.createElement("script");
    script.src = "/plotly.js";
    script.onload = resolve;
    script.onerror = () => { loading = null; reject(Object.assign(new Error("The charts cannot be fetched."), { lost: true })); };
    document.head.append(script);
  });
  return loading;
}

function layout(extra) {
  const axis = { gridcolor: colour("line"), zeroline: false, color: colour("quiet"), fixedrange: true, automargin: true };
  return {
    margin: { l: 44, r: 12, t: 6, b: 36 }, showlegend: false, paper_bgcolor: "rgba(0,0,0,0)", plot_bgcolor: "rgba(0,0,0,0)",
    font: { family: "system-ui, sans-serif", size: 12, color: colour("quiet") }, hovermode: "x unified", ...extra,
    hoverlabel: { bgcolor: colour("card"), bordercolor: colour("line"), font: { color: colour("ink") } },
    xaxis: { ...axis, showgrid: false, ...extra.xaxis }, yaxis: { ...axis, ...extra.yaxis },
  };
}

function draw(element, traces, extra, words) {
  element.setAttribute("role", "img");
  element.setAttribute("aria-label", words);
  window.Plotly.react(element, traces, layout(extra), { displayModeBar: false, responsive: true });
}

// The axis of every curve: answered rounds, or the time at which they were answered.
export const AXES = ["rounds", "time"];
const along = (history, by) => (by === "time" ? history.at : history.rounds);

function axis(history, by) {
  if (by === "time") return { type: "date", title: { text: "when answered", standoff: 8 }, hoverformat: "%-d %b %Y, %H:%M:%S" };
  return { type: "linear", title: { text: "answered rounds", standoff: 8 }, range: [0, Math.max(10, 1.02 * (history.rounds.at(-1) ?? 0))], tickformat: ",d" };
}

const line = (x, y, name, extra = {}) =>
  ({ x, y, name, mode: x.length < 2 ? "markers" : "lines", line: { color: colour("blue"), width: 2.2 }, hovertemplate: "%{y:.1%}", ...extra });

const target = (x, history) =>
  ({ x, y: x.map(() => history.alpha), name: "target", mode: "lines", line: { color: colour("amber"), width: 1.5, dash: "dash" }, hovertemplate: "%{y:.1%}" });

function band(x, pairs) {
  const edge = { mode: "lines", line: { width: 0 }, hoverinfo: "skip" };
  return [{ x, y: pairs.map((pair) => pair[0]), ...edge }, { x, y: pairs.map((pair) => pair[1]), ...edge, fill: "tonexty", fillcolor: "rgba(180, 83, 10, .12)" }];
}

// Alarms as shaded stretches, changes of the settings as lines.
function marks(history, by) {
  const place = (moment) => (by === "time" ? moment.at : moment.answers);
  const end = along(history, by).at(-1);
  const alarms = (history.alarms ?? []).map((alarm) => ({
    type: "rect", xref: "x", yref: "paper", y0: 0, y1: 1, x0: place(alarm.since), x1: alarm.cleared ? place(alarm.cleared) : end, layer: "below",
    line: { width: 0 }, fillcolor: colour(alarm.state === "too many misses" ? "red" : "amber"), opacity: 0.13,
  }));
  const changes = changesAlong(history, by).map(([x]) => ({
    type: "line", xref: "x", yref: "paper", y0: 0, y1: 1, x0: x, x1: x, line: { color: colour("quiet"), width: 1, dash: "dot" },
  }));
  return [...alarms, ...changes];
}

// Whether the target at a time was the current one: today's band does not apply to earlier rounds.
function isHeld(history) {
  const changed = history.changes.findLast((change) => "alpha" in change.content);
  return (at) => changed === undefined || at >= changed.at;
}

// The position of each change, and a description of it.
function changesAlong(history, by) {
  return history.changes.map((change) => {
    const answers = history.rounds.findLast((_, place) => history.at[place] <= change.at) ?? 0;
    const what = Object.entries(change.content).map(([name, value]) => (typeof value === "number" ? `${name} ${value}` : name)).join(", ");
    return [by === "time" ? change.at : answers, what || change.kind];
  });
}

// Beside their lines, on the side where there is room.
function notes(history, by) {
  const places = along(history, by).map((place) => new Date(place).getTime()), middle = (by === "time" ? places[0] + places.at(-1) : places.at(-1)) / 2;
  return changesAlong(history, by).map(([x, text]) => {
    const left = new Date(x).getTime() > middle;
    return { x, y: 1, xref: "x", yref: "paper", text, showarrow: false, xanchor: left ? "right" : "left", yanchor: "top", xshift: left ? -3 : 3, font: { size: 11, color: colour("quiet") } };
  });
}

function words(history, what, last) {
  return history.rounds.length && last !== null ? `${what} over ${history.rounds.at(-1)} answered rounds: now ${(100 * last).toFixed(1)} percent, target ${100 * history.alpha} percent.` : "No rounds yet.";
}

// Returns whether what the target allows is shaded: it speaks of one target.
export function missRate(element, history, by = "rounds") {
  const x = along(history, by), rates = history.miss_rate;
  const top = Math.min(1.02, Math.max(3 * history.alpha, 1.15 * Math.max(0, ...rates.slice(Math.floor(x.length / 10)).map((rate) => rate ?? 0))));
  const held = isHeld(history), since = x.filter((_, place) => held(history.at[place]));
  const shaded = since.length === x.length ? band(x, history.band) : [];
  draw(element, [...shaded, target(since, history), line(x, rates, "overall")],
    { yaxis: { tickformat: ".0%", range: [0, top] }, xaxis: axis(history, by), shapes: marks(history, by), annotations: notes(history, by) }, words(history, "Miss rate", rates.at(-1)));
  return shaded.length > 0;
}

const WINDOW = 100;

// The miss rate of the last hundred rounds or so at every point: longer where points are farther apart.
// Where nothing was accepted, a gate has no such rate.
export function roll(history) {
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
  const held = isHeld(history);
  const rolled = roll(history).map((one, place) => ({ ...one, x: along(history, by)[place], held: held(history.at[place]) })).filter((one) => one.width >= WINDOW / 2 && one.rate !== null);
  const x = rolled.map((one) => one.x), rates = rolled.map((one) => one.rate);
  const now = rolled.filter((one) => one.held), spread = now.map(({ weight }) => 2.576 * Math.sqrt((history.alpha * (1 - history.alpha)) / weight));
  const pairs = spread.map((half) => [Math.max(0, history.alpha - half), Math.min(1, history.alpha + half)]);
  const young = history.rounds.length && !rolled.length ? [{ text: `from ${WINDOW / 2} answers on`, xref: "paper", yref: "paper", x: 0.5, y: 0.5, showarrow: false }] : [];
  const bad = now.filter((one, place) => one.rate > pairs[place][1]), since = now.map((one) => one.x);
  const top = Math.min(1.02, 1.1 * Math.max(3 * history.alpha, ...rates, ...pairs.map((pair) => pair[1])));
  draw(element, [...band(since, pairs), target(since, history), line(x, rates, "recent"),
    { x: bad.map((one) => one.x), y: bad.map((one) => one.rate), mode: "markers", marker: { color: colour("red"), size: 5 }, hoverinfo: "skip" }],
    { yaxis: { tickformat: ".0%", range: [0, top] }, xaxis: axis(history, by), shapes: marks(history, by), annotations: [...notes(history, by), ...young] },
    words(history, "Rolling miss rate", rates.at(-1) ?? 0));
}

export function setSize(element, history, unit, by = "rounds") {
  const x = along(history, by), last = history.mean_size.at(-1);
  draw(element, [
    line(x, history.local_mean_size, "recent", { line: { color: colour("blue"), width: 1 }, opacity: 0.55, hovertemplate: "%{y:.2f}" }),
    line(x, history.mean_size, "overall", { hovertemplate: "%{y:.2f}" }),
  ], { yaxis: { rangemode: "tozero" }, xaxis: axis(history, by), shapes: marks(history, by), annotations: notes(history, by) },
  x.length && last !== null ? `Mean size so far: ${last.toFixed(2)} ${unit}.` : "No sizes yet.");
}

// The share that a gate accepts: recent and overall.
export function accepted(element, history, by = "rounds") {
  const x = along(history, by), last = history.accepted_share.at(-1);
  draw(element, [
    line(x, history.local_accepted_share, "recent", { line: { color: colour("blue"), width: 1 }, opacity: 0.55, connectgaps: true }),
    line(x, history.accepted_share, "overall"),
  ], { yaxis: { tickformat: ".0%", range: [0, 1.02] }, xaxis: axis(history, by), shapes: marks(history, by), annotations: notes(history, by) },
  x.length && last !== null ? `Accepted so far: ${(100 * last).toFixed(1)} percent.` : "No decisions yet.");
}

export function thresholds(element, distribution) {
  const { thresholds: x, probabilities: y } = distribution;
  const top = x[y.indexOf(Math.max(...y))] ?? 1;
  draw(element, [{ x, y, type: "bar", marker: { color: colour("blue") }, hovertemplate: "%{y:.1%}<extra></extra>" }],
    { yaxis: { tickformat: ".0%", rangemode: "tozero" }, xaxis: { title: { text: "threshold", standoff: 8 }, range: [-0.04, 1.04] }, bargap: 0.15 },
    `How likely each threshold is to be played next; the likeliest is ${top.toFixed(2)}.`);
}
