// Elements are built from text, never from markup: names and labels are data.
export function h(tag, properties = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(properties)) {
    if (value === undefined || value === null || value === false) continue;
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else element.setAttribute(name, value === true ? "" : value);
  }
  element.append(...children.flat().filter((child) => child !== null && child !== undefined));
  return element;
}

export function show(...children) {
  document.getElementById("main").replaceChildren(...children);
}

export function entitle(text) {
  document.title = `${text} · Keyhole`;
}

// For those who listen instead of looking.
export function say(text) {
  document.getElementById("said").textContent = text;
}

export const percent = (share) => (share === null || share === undefined ? "–" : `${(100 * share).toFixed(1)}\u00a0%`);
export const aim = (share) => `${Number((100 * share).toFixed(3))} %`; // A target is a round number.
export const size = (value) => (value === null || value === undefined ? "–" : value.toLocaleString("en", { maximumFractionDigits: Math.abs(value) < 10 ? 2 : 1 }));
export const count = (value) => (value === null || value === undefined ? "–" : value.toLocaleString("en"));
export const sentence = (text) => text && text[0].toUpperCase() + text.slice(1);
export const plural = (number, one, many = `${one}s`) => `${count(number)} ${number === 1 ? one : many}`;
// What a round that breaks the promise is called: a set misses, an accepted answer is wrong.
export const fault = (stream) => (stream.kind === "gate" ? "wrong" : "missed");
export const time = (text) => new Date(text).toLocaleTimeString("en-GB");

// The time alone for today, with the day before it for another one.
export function moment(at) {
  const then = new Date(at), clock = then.toLocaleTimeString("en-GB", { hour: "2-digit", minute: "2-digit" });
  if (then.toDateString() === new Date().toDateString()) return clock;
  const year = then.getFullYear() === new Date().getFullYear() ? undefined : "numeric";
  return `${then.toLocaleDateString("en-GB", { day: "numeric", month: "short", year })}, ${clock}`;
}

const UNITS = [[86400, "day"], [3600, "hour"], [60, "minute"], [1, "second"]];
export function duration(seconds) {
  if (seconds === null || seconds === undefined) return "–";
  if (seconds < 1) return "< 1 second";
  const [unit, name] = UNITS.find(([least]) => seconds >= least), value = seconds / unit;
  return plural(value < 10 ? Number(value.toFixed(1)) : Math.round(value), name);
}

// Redraws children by key: what stays keeps its place in the document, and the focus stays with it.
export function reconcile(parent, items, key, draw) {
  const known = new Map([...parent.children].map((child) => [child.dataset.key, child]));
  const focused = document.activeElement?.closest("[data-key]")?.dataset.key;
  const wanted = items.map((item) => {
    const text = JSON.stringify(item), found = known.get(key(item));
    if (found && found.dataset.shown === text) return found;
    const element = draw(item);
    element.dataset.key = key(item);
    element.dataset.shown = text;
    return element;
  });
  if (wanted.length === parent.children.length && wanted.every((child, place) => parent.children[place] === child)) return;
  const inside = parent.contains(document.activeElement);
  parent.replaceChildren(...wanted);
  if (inside) wanted.find((child) => child.dataset.key === focused)?.querySelector("a, button")?.focus({ preventScroll: true });
}
