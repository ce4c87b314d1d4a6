// Requests carry the token, if there is one, in a header; no cookie is ever used.
import { h, sentence } from "/page/dom.js";

const SECONDS_TO_READ = 8, SECONDS_TO_WRITE = 30, SECONDS_FOR_TABS = 0.15;
const KEY = "keyhole token";
const token = () => sessionStorage.getItem(KEY);
const refused = new Set(); // Tokens that did not serve.
export const hasToken = () => token() !== null;

// The tabs of a browser give each other the token: one of them asks for it.
const tabs = new BroadcastChannel("keyhole");
let heard = () => {};
tabs.addEventListener("message", ({ data }) => {
  if (data.wanted && token()) tabs.postMessage({ token: token() });
  if (data.token && !token() && !refused.has(data.token)) {
    sessionStorage.setItem(KEY, data.token);
    heard();
  }
});

function askTabs() {
  tabs.postMessage({ wanted: true });
  return new Promise((resolve) => {
    heard = resolve;
    setTimeout(resolve, 1000 * SECONDS_FOR_TABS);
  });
}

// Who closed the question is not asked again, until they say so.
let asking = null, declined = null;
export function useAnotherToken() {
  refused.add(token());
  sessionStorage.removeItem(KEY);
  declined = null;
}
export const askAgain = () => { declined = null; };

async function askForToken(fault) {
  if (declined) throw Object.assign(new Error(declined), { code: "token" });
  await askTabs();
  if (token()) return;
  const field = h("input", { id: "token", type: "password", autocomplete: "off", spellcheck: "false", required: true });
  const dialog = h("dialog", { id: "ask", "aria-labelledby": "ask-title" }, h("form", { method: "dialog" },
    h("h2", { id: "ask-title" }, "This service requires a token"),
    h("p", {}, h("code", {}, "keyhole token"), " shows the one that the first start made. The tabs of this browser share it, and forget it when they are closed."),
    h("p", { id: "ask-fault", class: "miss", role: "alert" }, sentence(fault ?? "")),
    h("label", { for: "token" }, "Token"), field,
    h("div", { class: "actions" }, h("button", { class: "main-action", value: "ok" }, "Continue"), h("button", { class: "plain", value: "no", formnovalidate: true }, "Not now"))));
  document.body.append(dialog);
  dialog.showModal();
  await new Promise((resolve) => dialog.addEventListener("close", resolve, { once: true }));
  dialog.remove();
  if (dialog.returnValue === "ok") sessionStorage.setItem(KEY, field.value.trim());
  else {
    declined = sentence(fault ?? "this service shows nothing without a token");
    await askForToken(fault);
  }
}

const lost = (message, about = {}) => Object.assign(new Error(message), { lost: true, ...about });

async function send(path, { seconds, signal, ...options }) {
  const signals = [signal, seconds && AbortSignal.timeout(1000 * seconds)].filter(Boolean);
  try {
    const response = await fetch(path, { ...options, signal: AbortSignal.any(signals) });
    const json = response.headers.get("content-type")?.startsWith("application/json");
    return { response, body: json ? await response.json() : null };
  } catch (error) {
    if (signal?.aborted) throw error;
    throw lost(error.name === "TimeoutError" ? `The service has not answered within ${seconds} seconds.` : "The service cannot be reached.");
  }
}

async function request(path, options = {}) {
  for (;;) {
    const sent = token();
    const headers = sent ? { ...options.headers, Authorization: `Bearer ${sent}` } : options.headers;
    const found = await send(path, { ...options, headers }), fault = found.body?.error;
    if (found.response.status !== 401 || !fault) return found;
    if (sent) refused.add(sent);
    if (sent && sent === token()) sessionStorage.removeItem(KEY);
    if (!token()) await (asking ??= askForToken(sent ? fault.message : null).finally(() => { asking = null; }));
  }
}

// What our service says it says in JSON; anything else comes from a proxy before it.
function read({ response, body }) {
  if (response.ok && body !== null) return body;
  const { status } = response;
  if (!body?.error) throw lost(`Instead of the service something before it answers, with ${status}.`, { status });
  const { code, message } = body.error;
  throw Object.assign(new Error(sentence(message)), { status, code, lost: status >= 500 || status === 429 });
}

export const get = async (path, signal) => read(await request(path, { signal, seconds: SECONDS_TO_READ }));

export const post = async (path, body = {}) =>
  read(await request(path, {
    method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify(body), seconds: SECONDS_TO_WRITE,
  }));

export async function download(path, name) {
  const found = await request(path);
  if (!found.response.ok) return read(found);
  const link = document.createElement("a");
  link.href = URL.createObjectURL(await found.response.blob());
  link.download = name;
  link.click();
  URL.revokeObjectURL(link.href);
}
