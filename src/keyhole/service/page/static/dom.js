// Elements are built from text, never from markup: names and labels are data.
const SVG = "http://www.w3.org/2000/svg";
const make = (element, properties, children) => {
  for (const [name, value] of Object.entries(properties)) {
    if (value === undefined || value === null || value === false) continue;
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else element.setAttribute(name, value === true ? "" : value);
  }
  element.append(...children.flat(2).filter((child) => child !== null && child !== undefined));
  return element;
};
export const h = (tag, properties = {}, ...children) => make(document.createElement(tag), properties, children);
export const svg = (tag, properties = {}, ...children) => make(document.createElementNS(SVG, tag), properties, children);
// Text that people chose: whatever direction it has, what stands beside it keeps its own.
export const given = (text) => h("bdi", {}, String(text));

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

// Makes the children of an element be these, and keeps the nodes that are alike: the focus, what is selected
// and how far it is scrolled stay. Where children have a data-key they are alike if they have the same one.
export function fill(parent, ...children) {
  const focused = document.activeElement;
  replace(parent, children.flat().filter((child) => child !== null && child !== undefined));
  if (focused !== document.activeElement && focused?.isConnected) focused.focus({ preventScroll: true });
}

function replace(parent, children) {
  const keyed = new Map([...parent.children].filter((child) => child.dataset?.key).map((child) => [child.dataset.key, child]));
  let place = parent.firstChild;
  for (const child of children.map((one) => (one instanceof Node ? one : document.createTextNode(one)))) {
    const key = child.dataset?.key;
    const found = child.parentNode === parent ? child : key ? keyed.get(key) : isAlike(place, child) ? place : null;
    if (found === place && found) place = place.nextSibling;
    else parent.insertBefore(found ?? child, place);
    if (found && found !== child) become(found, child);
  }
  while (place) {
    const following = place.nextSibling;
    place.remove();
    place = following;
  }
}

const isAlike = (one, other) => one && one.nodeName === other.nodeName && !one.dataset?.key;

function become(shown, wanted) {
  if (shown.nodeType === Node.TEXT_NODE) {
    if (shown.data !== wanted.data) shown.data = wanted.data;
    return;
  }
  for (const { name } of [...shown.attributes]) if (!wanted.hasAttribute(name) && name !== "open") shown.removeAttribute(name);
  for (const { name, value } of wanted.attributes) if (shown.getAttribute(name) !== value) shown.setAttribute(name, value);
  replace(shown, [...wanted.childNodes]);
}

export const percent = (share) => (share === null || share === undefined ? "–" : `${(100 * share).toFixed(1)}\u00a0%`);
export const aim = (share) => `${Number((100 * share).toFixed(3))}\u00a0%`; // A target is a round number.
export const aims = (shares) => `${shares.map((share) => Number((100 * share).toFixed(3))).join(", ")}\u00a0%`;
export const size = (value) => (value === null || value === undefined ? "–" : value.toLocaleString("en", { maximumFractionDigits: Math.abs(value) < 10 ? 2 : 1 }));
export const rounded = (value) => (typeof value === "number" ? Number(value.toPrecision(4)).toLocaleString("en", { maximumSignificantDigits: 4 }) : String(value));
export const count = (value) => (value === null || value === undefined ? "–" : value.toLocaleString("en", { maximumFractionDigits: 1 }));
export const sentence = (text) => text && text[0].toUpperCase() + text.slice(1) + (/[.!?]$/.test(text) ? "" : ".");
export const plural = (number, one, many = `${one}s`) => `${count(number)} ${number === 1 ? one : many}`;
// What a round that breaks the promise is called: a set misses, an accepted answer is wrong.
export const fault = (stream) => (stream.kind === "gate" ? "wrong" : "missed");

// The day and the time, and the year where it is another one.
export function moment(at, seconds = undefined) {
  const then = new Date(at), year = then.getFullYear() === new Date().getFullYear() ? undefined : "numeric";
  return `${then.toLocaleDateString("en-GB", { day: "numeric", month: "short", year })}, ${then.toLocaleTimeString("en-GB", { hour: "2-digit", minute: "2-digit", second: seconds })}`;
}

const UNITS = [[86400, "day"], [3600, "hour"], [60, "minute"], [1, "second"]];
export function duration(seconds) {
  if (seconds === null || seconds === undefined) return "–";
  if (seconds < 1) return "< 1 second";
  const [unit, name] = UNITS.find(([least]) => seconds >= least), value = seconds / unit;
  return plural(value < 10 ? Number(value.toFixed(1)) : Math.round(value), name);
}
