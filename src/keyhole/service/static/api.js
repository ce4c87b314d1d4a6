// Requests carry the token, if there is one, in a header; no cookie is ever used.
const KEY = "keyhole token";

function headers(extra = {}) {
  const token = sessionStorage.getItem(KEY);
  return token ? { ...extra, Authorization: `Bearer ${token}` } : extra;
}

let asking = null;
function askForToken() {
  asking ??= new Promise((resolve) => {
    const dialog = document.getElementById("ask");
    dialog.addEventListener("close", () => {
      sessionStorage.setItem(KEY, document.getElementById("token").value.trim());
      asking = null;
      resolve();
    }, { once: true });
    dialog.showModal();
  });
  return asking;
}

async function request(path, options = {}) {
  for (;;) {
    const response = await fetch(path, { ...options, headers: headers(options.headers) });
    if (response.status !== 401) return response;
    sessionStorage.removeItem(KEY);
    await askForToken();
  }
}

async function parsed(response) {
  const body = await response.json();
  if (response.ok) return body;
  throw Object.assign(new Error(body.error.message), { status: response.status, code: body.error.code });
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
    } catch (error) {
      if (signal.aborted) return;
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
    } finally {
      busy = false;
    }
  };
}
