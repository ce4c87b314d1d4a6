// What is shown is asked for again every few seconds, and says how old it is. A page that nobody sees asks for
// nothing. What cannot be asked for stays as it was, under a line that says since when, and why.
import { askAgain } from "/page/api.js";
import { fill, h, moment } from "/page/dom.js";

const EVERY = 3, LATE = 6, OLD = 10; // seconds
const age = document.getElementById("age"), trouble = document.getElementById("trouble");
let view = null;

function tell() {
  const seconds = view ? Math.max(0, Math.round((Date.now() - view.seen) / 1000)) : 0;
  const look = seconds >= OLD ? "old" : seconds >= LATE || view?.fault ? "late" : "";
  age.hidden = !view;
  age.className = `age ${look}`;
  age.textContent = `updated ${seconds < 120 ? `${seconds} s` : `${Math.round(seconds / 60)} min`} ago`;
  trouble.hidden = !look || document.hidden;
  if (!look) return;
  trouble.className = `trouble ${look}`;
  const why = view.fault?.message ?? "The service has not answered since.";
  const ask = view.fault?.code === "token" ? h("button", { class: "plain", onclick: () => { askAgain(); view.again(); } }, "Enter a token") : null;
  fill(trouble, h("span", {}, `What you see is from ${moment(view.seen, "2-digit")}. ${why} `), ask ?? "It is asked again every few seconds.");
}

// Calls look now and then, until the signal; returns what makes it look at once.
export function keepFresh(look, signal) {
  const mine = { seen: Date.now(), fault: null, again: null };
  let timer = null, busy = false, wanted = false;
  mine.again = async () => {
    clearTimeout(timer);
    wanted = busy;
    if (busy || signal.aborted || document.hidden) return;
    busy = true;
    const began = Date.now();
    try {
      await look();
      [mine.seen, mine.fault] = [began, null];
    } catch (error) {
      mine.fault = error;
    }
    busy = false;
    if (signal.aborted) return;
    tell();
    timer = setTimeout(mine.again, wanted ? 0 : 1000 * EVERY);
  };
  view = mine;
  timer = setTimeout(mine.again, 1000 * EVERY);
  const ticks = setInterval(tell, 1000);
  document.addEventListener("visibilitychange", () => { tell(); mine.again(); }, { signal });
  signal.addEventListener("abort", () => {
    clearTimeout(timer);
    clearInterval(ticks);
    if (view === mine) view = null;
    tell();
  });
  tell();
  return mine.again;
}
