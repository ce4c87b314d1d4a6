// Requests carry the token, if there is one, in a header; no cookie is ever used.
import { moment, sentence } from "/page/dom.js";

const KEY = "keyhole token";
const token = () => sessionStorage.getItem(KEY);
export const hasToken = () => token() !== null;
export const forgetToken = () => sessionStorage.removeItem(KEY);

let asking = null;
function askForToken(fault) {
  asking ??= new Promise((resolve, reject) => {
    const dialog = document.getElementById("ask"), field = document.getElementById("token");
    document.getElementById("ask-fault").textContent = sentence(fault ?? "");
    dialog.returnValue = "";
    dialog.addEventListener("close", () => {
      asking = null;
      if (dialog.returnValue !== "ok") return reject(new Error("This service shows nothing without a token."));
      sessionStorage.setItem(KEY, field.value.trim());
      field.value = "";
      resolve();
    }, { once: true });
    dialog.showModal();
  });
  return asking;
}

// What cannot be asked for now stays on the page as it was, under a line that says since when.
const trouble = document.getElementById("trouble");
function lose(what) {
  if (!trouble || !trouble.hidden) return;
  trouble.replaceChildren(`${what} This page is from ${moment(new Date())}; it retries every few seconds.`);
  trouble.hidden = false;
}
function regain() {
  if (trouble) trouble.hidden = true;
}

async function ask(path, options) {
  try {
    return await fetch(path, options);
  } catch (error) {
    if (!options.signal?.aborted) lose("The service cannot be reached.");
    throw Object.assign(new Error("The service cannot be reached. Is it running?"), { lost: true });
  }
}

async function request(path, options = {}) {
  for (;;) {
    const sent = token();
    const headers = sent ? { ...options.headers, Authorization: `Bearer ${sent}` } : options.headers;
    const response = await ask(path, { ...options, headers });
    if (response.status === 503) lose("The service is running, but its database does not respond.");
    else regain();
    if (response.status !== 401) return response;
    const { error } = await response.json();
    if (sent && sent === token()) forgetToken();
    if (sent === token() || !token()) await askForToken(sent ? error.message : null);
  }
}

async function parsed(response) {
  const body = await response.json();
  if (response.ok) return body;
  const about = { status: response.status, code: body.error.code, lost: response.status === 503 };
  throw Object.assign(new Error(body.error.message), about);
}

export const get = async (path) => parsed(await request(path));

export const post = async (path, body = {}) =>
  parsed(await request(path, {
    method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify(body),
  }));

export async function download(path, name) {
  const response = await request(path);
  if (!response.ok) return parsed(response);
  const link = document.createElement("a");
  link.href = URL.createObjectURL(await response.blob());
  link.download = name;
  link.click();
  URL.revokeObjectURL(link.href);
}

// EventSource cannot send a token, so the events are read from the body of a fetch.
export function listen(name, heard, signal) {
  const path = `/v1/streams/${encodeURIComponent(name)}/events`;
  const again = async () => {
    try {
      const response = await request(path, { signal });
      if (response.ok) await read(response.body.getReader(), heard);
      if (!signal.aborted) lose("The connection was lost.");
    } catch (error) {
      if (signal.aborted) return;
      lose("The connection was lost.");
    }
    if (!signal.aborted) setTimeout(again, 2000);
  };
  again();
}

async function read(reader, heard) {
  const decoder = new TextDecoder();
  let text = "";
  for (;;) {
    const { value, done } = await reader.read();
    if (done) return;
    text += decoder.decode(value, { stream: true });
    const events = text.split("\n\n");
    text = events.pop();
    for (const event of events) {
      const line = event.split("\n").find((part) => part.startsWith("data: "));
      if (line) heard(JSON.parse(line.slice(6)));
    }
  }
}

// Calls draw with the newest value it was given, one call at a time, and drops those in between.
export function keepUp(draw, signal) {
  let newest = null, busy = false;
  return async (value) => {
    newest = value;
    if (busy) return;
    busy = true;
    try {
      while (newest && !signal.aborted) {
        const now = newest;
        newest = null;
        await draw(now);
      }
    } catch (error) {
      if (!error.lost) throw error; // The page says so already, and asks again.
    } finally {
      busy = false;
    }
  };
}
