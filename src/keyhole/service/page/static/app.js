import { askAgain, hasToken, useAnotherToken } from "/page/api.js";
import { entitle, h, sentence, show } from "/page/dom.js";
import { demo } from "/page/demo.js";
import { list } from "/page/list.js";
import { stream } from "/page/stream.js";

const SECONDS_TO_RETRY = 3;
const main = document.getElementById("main"), withDemo = "demo" in document.body.dataset;
let leave = new AbortController();

function navigation(path) {
  const pages = [["#/", "Streams"], ...(withDemo ? [["#/demo", "Label digits"]] : []), ["/docs", "Endpoints"]];
  document.getElementById("nav").replaceChildren(...pages.map(([href, text]) =>
    h("a", { href, "aria-current": href === `#${path}` ? "page" : null }, text)));
}

function failed(error, signal) {
  const again = h("button", { class: "main-action", onclick: () => { askAgain(); route(); } }, "Try again");
  const other = h("button", { class: "plain", onclick: () => { useAnotherToken(); route(); } }, "Use another token");
  const titles = { scope: "This token may not see that", unknown_stream: "There is no such stream", quarantined: "This stream is quarantined", token: "Nothing without a token" };
  const title = error.lost ? "Waiting for the service" : titles[error.code] ?? "That did not work";
  entitle(title);
  show(h("div", { class: "card state" }, h("h1", {}, title), h("p", {}, sentence(error.message), error.lost ? ` It is asked again every ${SECONDS_TO_RETRY} seconds.` : ""),
    h("div", { class: "actions" }, again, hasToken() ? other : null, h("a", { href: "#/" }, "All streams"))));
  if (error.lost) {
    const timer = setTimeout(route, 1000 * SECONDS_TO_RETRY);
    signal.addEventListener("abort", () => clearTimeout(timer));
  }
}

async function route() {
  leave.abort();
  leave = new AbortController();
  const { signal } = leave;
  const path = location.hash.slice(1) || "/";
  navigation(path);
  try {
    const named = path.match(/^\/streams\/(.+)$/);
    if (path === "/demo") await demo(signal);
    else if (named) await stream(decodeURIComponent(named[1]), signal);
    else await list(signal);
  } catch (error) {
    if (!signal.aborted) failed(error, signal);
  }
}

window.addEventListener("hashchange", async () => {
  await route();
  main.focus({ preventScroll: true });
});
document.querySelector(".skip").addEventListener("click", (event) => {
  event.preventDefault(); // The part after # says which view is shown.
  main.focus();
});
if (withDemo && !location.hash) location.replace("#/demo");
else await route();
