// Curves and bars as SVG, in the colours of the style sheet: they follow its theme, and print as they are.
// Each says in words, for those who cannot see it, what it shows.
import { h, svg } from "/page/dom.js";

const LEFT = 46, RIGHT = 14, TOP = 10, LETTER = 6.2, TICK_EVERY = 95; // pixels
const SECOND = 1000, MINUTE = 60 * SECOND, HOUR = 60 * MINUTE, DAY = 24 * HOUR;
const STEPS = [1, 5, 15, 30].map((n) => n * SECOND).concat([1, 5, 15, 30].map((n) => n * MINUTE), [1, 3, 6, 12].map((n) => n * HOUR), [1, 2, 7, 14, 30, 90, 365].map((n) => n * DAY));

function stepOf(width, most) {
  const rough = width / Math.max(1, most), power = 10 ** Math.floor(Math.log10(rough));
  return [1, 2, 5, 10].map((factor) => factor * power).find((step) => step >= rough);
}

function ticks([low, high], most, step = stepOf(high - low, most), zero = 0) {
  const first = Math.ceil((low - zero) / step - 1e-9);
  return Array.from({ length: Math.max(0, Math.floor((high - zero) / step + 1e-9) - first + 1) }, (_, k) => zero + (first + k) * step);
}

const day = (at) => new Date(at).toLocaleDateString("en-GB", { day: "numeric", month: "short" });
const clock = (at, step) => new Date(at).toLocaleTimeString("en-GB", { hour: "2-digit", minute: "2-digit", second: step < MINUTE ? "2-digit" : undefined });

// The ticks of an axis, each with its lines of text: a time has its day below it.
function label(axis, most) {
  if (!axis.time) return ticks(axis.range, most).map((at) => [at, [axis.format(at)]]);
  const width = axis.range[1] - axis.range[0], step = STEPS.find((one) => one >= width / most) ?? STEPS.at(-1);
  const midnight = new Date(axis.range[0]).setHours(0, 0, 0, 0);
  return ticks(axis.range, most, step, midnight).map((at) => [at, step >= DAY ? [day(at)] : [clock(at, step), day(at)]]);
}

const path = (points) => points.map(([x, y], place) => (y === null ? "" : `${place && points[place - 1][1] !== null ? "L" : "M"}${x.toFixed(1)} ${y.toFixed(1)}`)).join("");

function layers(spec, to, bottom) {
  const { xs, ys } = to, points = (line) => line.at.map((x, place) => [xs(x), line.values[place] === null ? null : ys(line.values[place])]);
  const band = ({ at, pairs }) => path([...at.map((x, place) => [xs(x), ys(pairs[place][0])]), ...at.map((x, place) => [xs(x), ys(pairs[place][1])]).reverse()]);
  const curve = (line) => (line.at.length === 1 ? svg("circle", { class: "dot", cx: xs(line.at[0]), cy: ys(line.values[0] ?? 0), r: 3 }) : svg("path", { class: `curve ${line.look}`, d: path(points(line)) }));
  const bar = (at, value, width) => svg("rect", { class: "bar", x: xs(at) - width / 2, y: ys(value), width, height: Math.max(0, bottom - ys(value)) });
  return [
    ...(spec.spans ?? []).map((span) => svg("rect", { class: `span ${span.look}`, x: xs(span.from), y: TOP, width: Math.max(2, xs(span.to) - xs(span.from)), height: bottom - TOP })),
    ...(spec.bands ?? []).filter((one) => one.at.length > 1).map((one) => svg("path", { class: one.look ?? "band", d: band(one) })),
    ...(spec.rules ?? []).map((rule) => svg("path", { class: "rule", d: `M${xs(rule.at)} ${TOP}V${bottom}` })),
    ...(spec.lines ?? []).filter((line) => line.at.length).map(curve),
    ...(spec.dots ?? []).map(([x, y, look = "bad"]) => svg("circle", { class: `dot ${look}`, cx: xs(x), cy: ys(y), r: 2.6 })),
    ...(spec.bars ? spec.bars.map(([x, y]) => bar(x, y, Math.max(1.5, (0.8 * (xs(1) - xs(0))) / spec.bars.length))) : []),
  ];
}

function build(spec, width, height) {
  const two = spec.x.time ? 14 : 0, bottom = height - 36 - two, [low, high] = spec.x.range, [least, most] = spec.y.range;
  const xs = (x) => LEFT + ((x - low) / (high - low || 1)) * (width - LEFT - RIGHT);
  const ys = (y) => bottom - ((Math.min(Math.max(y, least), most) - least) / (most - least || 1)) * (bottom - TOP);
  const text = (x, y, words, extra = {}) => svg("text", { x, y, ...extra }, words);
  const down = label(spec.y, (bottom - TOP) / 38).map(([at, [words]]) => [svg("path", { class: "grid", d: `M${LEFT} ${ys(at)}H${width - RIGHT}` }), text(LEFT - 6, ys(at) + 4, words, { class: "end" })]);
  const along = label(spec.x, (width - LEFT) / TICK_EVERY).map(([at, lines]) => lines.map((words, place) => text(Math.min(xs(at), width - (LETTER * words.length) / 2), bottom + 16 + 14 * place, words, { class: "middle" })));
  const notes = (spec.rules ?? []).map((rule) => {
    const left = xs(rule.at) > width / 2;
    return text(xs(rule.at) + (left ? -4 : 4), TOP + 10, rule.text, { class: left ? "end" : null });
  });
  const drawn = svg("svg", { viewBox: `0 0 ${width} ${height}`, width, height, "aria-hidden": "true" }, down, along,
    text((LEFT + width - RIGHT) / 2, height - 4, spec.x.title, { class: "middle" }), layers(spec, { xs, ys }, bottom), notes,
    spec.note ? text((LEFT + width) / 2, (TOP + bottom) / 2, spec.note, { class: "middle" }) : null);
  return { drawn, xs, bottom };
}

// What the curves say at the pointer.
function read(element, spec, { drawn, xs, bottom }) {
  const lines = (spec.lines ?? []).filter((line) => line.name && line.at.length);
  if (!lines.length) return;
  const mark = svg("path", { class: "mark" }), reading = element.querySelector(".reading");
  drawn.append(mark);
  drawn.addEventListener("pointermove", (event) => {
    const at = event.offsetX, near = (line) => line.at.reduce((best, x, place) => (Math.abs(xs(x) - at) < Math.abs(xs(line.at[best]) - at) ? place : best), 0);
    const main = lines.at(-1), x = main.at[near(main)];
    mark.setAttribute("d", `M${xs(x)} ${TOP}V${bottom}`);
    const values = lines.map((line) => [line.name, line.values[near(line)]]).filter(([, value]) => value !== null);
    reading.textContent = `${spec.x.read(x)}: ${values.map(([name, value]) => `${name} ${spec.y.read(value)}`).join(", ")}`;
  });
  drawn.addEventListener("pointerleave", () => {
    mark.removeAttribute("d");
    reading.textContent = "";
  });
}

const specs = new WeakMap();
const watcher = new ResizeObserver((entries) => entries.forEach(({ target }) => draw(target)));

function draw(element) {
  const spec = specs.get(element), { clientWidth: width, clientHeight: height } = element;
  if (!spec || !width || !height) return;
  const built = build(spec, width, height);
  element.replaceChildren(built.drawn, h("span", { class: "reading", "aria-hidden": "true" }));
  read(element, spec, built);
}

// x and y: {range, format, read, title, time}; lines: {at, values, look, name}; bands: {at, pairs}; dots and bars:
// [x, y]; spans: {from, to, look}; rules: {at, text}.
export function plot(element, spec) {
  element.setAttribute("role", "img");
  element.setAttribute("aria-label", spec.words);
  if (!specs.has(element)) watcher.observe(element);
  specs.set(element, spec);
  draw(element);
}

// A curve without axes, for a line of a table; the dashed line is the target.
export function sparkline(values, target) {
  const width = 96, height = 22, top = Math.max(3 * target, ...values), y = (value) => height - 2 - (value / top) * (height - 4);
  const points = values.map((value, place) => [1 + (place * (width - 2)) / Math.max(1, values.length - 1), y(value)]);
  return svg("svg", { class: "spark", viewBox: `0 0 ${width} ${height}`, width, height, "aria-hidden": "true" },
    svg("path", { class: "curve target", d: `M0 ${y(target)}H${width}` }), points.length > 1 ? svg("path", { class: "curve main", d: path(points) }) : null);
}
