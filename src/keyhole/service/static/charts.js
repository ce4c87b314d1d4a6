// Charts are pictures: each says in words, for those who cannot see it, what it shows.
const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();

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

const rounds = (x) => ({ title: { text: "answered rounds", standoff: 8 }, range: [0, Math.max(10, 1.02 * (x.at(-1) ?? 0))], tickformat: ",d" });

const line = (x, y, name, extra = {}) =>
  ({ x, y, name, mode: x.length < 2 ? "markers" : "lines", line: { color: colour("blue"), width: 2.2 }, ...extra });

export function missRate(element, history) {
  const x = history.rounds, last = history.miss_rate.at(-1);
  const low = history.band.map((pair) => pair[0]), high = history.band.map((pair) => pair[1]);
  const edge = { mode: "lines", line: { width: 0 }, hoverinfo: "skip" };
  const top = Math.min(1.02, Math.max(3 * history.alpha, 1.15 * Math.max(0, ...history.miss_rate.slice(Math.floor(x.length / 10)))));
  draw(element, [
    { x, y: low, ...edge },
    { x, y: high, ...edge, fill: "tonexty", fillcolor: "rgba(180, 83, 10, .10)" },
    { x, y: x.map(() => history.alpha), name: "target", mode: "lines", line: { color: colour("amber"), width: 1.5, dash: "dash" }, hovertemplate: "%{y:.1%}" },
    line(x, history.miss_rate, "misses so far", { hovertemplate: "%{y:.1%}" }),
  ], { yaxis: { tickformat: ".0%", range: [0, top] }, xaxis: rounds(x) },
  x.length ? `Miss rate over ${x.at(-1)} answered rounds: now ${(100 * last).toFixed(1)} percent, target ${100 * history.alpha} percent.` : "No rounds yet.");
}

export function setSize(element, history, unit) {
  const x = history.rounds, last = history.mean_size.at(-1);
  draw(element, [line(x, history.mean_size, "mean size so far", { hovertemplate: "%{y:.2f}" })],
    { yaxis: { rangemode: "tozero" }, xaxis: rounds(x) },
    x.length && last !== null ? `Mean size so far: ${last.toFixed(2)} ${unit}.` : "No rounds yet.");
}

export function thresholds(element, distribution) {
  const { thresholds: x, probabilities: y } = distribution;
  const top = x[y.indexOf(Math.max(...y))] ?? 1;
  draw(element, [{ x, y, type: "bar", marker: { color: colour("blue") }, hovertemplate: "%{y:.1%}<extra></extra>", width: x.length < 2 ? 0.02 : undefined }],
    { yaxis: { tickformat: ".0%", rangemode: "tozero" }, xaxis: { title: { text: "threshold", standoff: 8 }, range: [-0.04, 1.04] }, bargap: 0.15 },
    `How likely each threshold is to be played next; the likeliest is ${top.toFixed(2)}.`);
}
