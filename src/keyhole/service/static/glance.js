import { get } from "/page/api.js";
import { count, h, percent, pill, show, size } from "/page/dom.js";

function meter(stream) {
  const top = Math.max(3 * stream.alpha, stream.miss_rate ?? 0);
  const bar = h("i"), target = h("b");
  bar.style.width = `${(100 * (stream.miss_rate ?? 0)) / top}%`;
  target.style.left = `${(100 * stream.alpha) / top}%`;
  return h("div", { class: "meter", "aria-hidden": "true" }, bar, target);
}

function card(stream) {
  return h("a", { class: "card", href: `#/streams/${encodeURIComponent(stream.name)}` },
    h("div", { class: "row" }, h("h2", {}, stream.name), pill(stream)),
    h("p", { class: "quiet small" }, `${stream.learner} · ${stream.regime}`),
    h("div", { class: "big" }, percent(stream.miss_rate), h("small", {}, ` missed, target ${percent(stream.alpha)}`)),
    meter(stream),
    h("div", { class: "row small quiet" },
      h("span", {}, `${count(stream.rounds)} answered`),
      h("span", {}, `${count(stream.open)} open`),
      h("span", {}, `mean size ${size(stream.mean_size)}`)));
}

function empty() {
  return h("div", { class: "card" }, h("h2", {}, "No streams yet"),
    h("p", {}, "Make one, and its promise is watched here:"),
    h("pre", { class: "scroll" }, h("code", {},
      `curl -X POST ${location.origin}/v1/streams \\\n  -H 'Content-Type: application/json' \\\n  -d '{"name": "triage", "alpha": 0.1}'`)));
}

export async function glance(signal) {
  const draw = async () => {
    const { streams } = await get("/v1/streams");
    if (signal.aborted) return;
    show(h("h1", {}, "Streams"),
      h("p", { class: "quiet" }, "Each proposes sets of answers and promises that at most its target share of them misses the truth."),
      streams.length ? h("div", { class: "glance" }, streams.map(card)) : empty());
  };
  await draw();
  const timer = setInterval(() => draw().catch(() => {}), 3000);
  signal.addEventListener("abort", () => clearInterval(timer));
}
