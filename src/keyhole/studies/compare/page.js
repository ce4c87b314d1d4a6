"use strict";
// The charts come without colours: they are given here, by who is followed and by day or night.
const charts = JSON.parse(document.getElementById("charts").textContent);
const places = [...document.querySelectorAll("[data-chart]")];
const chips = [...document.querySelectorAll(".chips button")];
const night = window.matchMedia("(prefers-color-scheme: dark)");
const LIGHT = ["#1d4ed8", "#059669", "#7c3aed", "#0891b2", "#dc2626", "#db2777", "#a16207", "#4d7c0f", "#ea580c", "#475569"];
const DARK = ["#60a5fa", "#34d399", "#a78bfa", "#22d3ee", "#f87171", "#f472b6", "#fbbf24", "#a3e635", "#fb923c", "#94a3b8"];
const FIRST = ["informed-tracker", "logit-tracker", "tracker", "unlock-hedge", "self-scaled", "ocp-unlock+", "sps"];
const order = [...FIRST, ...chips.map((chip) => chip.dataset.learner).filter((name) => !FIRST.includes(name))];
const drawn = new Set();

const colourOf = (name) => (night.matches ? DARK : LIGHT)[order.indexOf(name) % LIGHT.length];
const ink = (name) => getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();
const followed = () => new Set(chips.filter((chip) => chip.getAttribute("aria-pressed") === "true").map((chip) => chip.dataset.learner));

function paint(trace, chosen) {
  const { kind, learner } = trace.meta;
  if (kind === "frontier") return { ...trace, line: { color: ink("faint"), width: 1.5 } };
  const on = chosen.has(learner);
  const colour = on ? colourOf(learner) : ink("quiet");
  const marks = {
    dot: { color: colour, size: 7, opacity: on ? 0.5 : 0.35 },
    mean: { color: ink("paper"), size: 12, line: { color: colour, width: 3 } },
    curve: { color: colour, size: 6 },
  };
  return {
    ...trace,
    marker: marks[kind],
    line: { color: colour, width: on ? 2 : 1 },
    cliponaxis: kind === "curve",
  };
}

function dress(layout, chosen) {
  const axis = { gridcolor: ink("rule"), linecolor: ink("rule"), zeroline: false, fixedrange: true, automargin: true };
  const dressed = { ...layout, paper_bgcolor: "rgba(0,0,0,0)", plot_bgcolor: "rgba(0,0,0,0)", showlegend: false, hovermode: "closest" };
  dressed.font = { family: "system-ui, 'Segoe UI', Helvetica, Arial, sans-serif", size: 12, color: ink("faint") };
  for (const name of Object.keys(layout).filter((key) => key.includes("axis"))) dressed[name] = { ...axis, ...layout[name] };
  dressed.hoverlabel = { bgcolor: ink("wash"), bordercolor: ink("rule"), font: { color: ink("ink") } };
  dressed.shapes = (layout.shapes || []).map((shape) => ({ ...shape, line: { color: ink("target"), width: 1.4, dash: "dash" } }));
  dressed.annotations = (layout.annotations || []).map((note) => {
    const colour = note.name === "target" ? ink("target") : chosen.has(note.name) ? colourOf(note.name) : ink("faint");
    return { ...note, font: { color: colour }, arrowcolor: ink("quiet") };
  });
  return dressed;
}

function draw(place) {
  const chosen = followed();
  const { data, layout } = charts[place.dataset.chart];
  const painted = data.map((trace) => paint(trace, chosen));
  painted.sort((one, other) => chosen.has(one.meta.learner) - chosen.has(other.meta.learner));
  Plotly.react(place, painted, dress(layout, chosen), { responsive: true, displayModeBar: false });
  drawn.add(place);
}

function redraw() {
  for (const mark of document.querySelectorAll("i[data-learner]")) mark.style.setProperty("--c", colourOf(mark.dataset.learner));
  for (const chip of chips) chip.style.setProperty("--c", colourOf(chip.dataset.learner));
  drawn.forEach(draw);
}

for (const chip of chips) {
  chip.addEventListener("click", () => {
    chip.setAttribute("aria-pressed", String(chip.getAttribute("aria-pressed") !== "true"));
    redraw();
  });
}
night.addEventListener("change", redraw);
// A chart is drawn when it comes near the window: there may be dozens.
const watcher = new IntersectionObserver((seen) => {
  for (const { isIntersecting, target } of seen) {
    if (isIntersecting) {
      watcher.unobserve(target);
      draw(target);
    }
  }
}, { rootMargin: "600px" });
places.forEach((place) => watcher.observe(place));
redraw();
