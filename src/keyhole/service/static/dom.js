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

export function say(text) {
  document.getElementById("said").textContent = text;
}

export const percent = (share) => (share === null ? "–" : `${(100 * share).toFixed(1)} %`);
export const size = (value) => (value === null ? "–" : value.toLocaleString("en", { maximumFractionDigits: 2 }));
export const count = (value) => value.toLocaleString("en");
export const time = (text) => new Date(text).toLocaleTimeString([], { hour: "2-digit", minute: "2-digit", second: "2-digit" });

const PILLS = { kept: "kept", "too many misses": "many", "fewer misses than alpha": "few" };
const WORDS = { kept: "promise kept", "fewer misses than alpha": "fewer misses than promised" };

export function pill(stream) {
  if (stream.archived) return h("span", { class: "pill" }, "archived");
  const alert = stream.recent.alert;
  return h("span", { class: `pill ${PILLS[alert] ?? ""}` }, WORDS[alert] ?? alert);
}
