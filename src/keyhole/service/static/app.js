import { h, show } from "/page/dom.js";
import { demo } from "/page/demo.js";
import { glance } from "/page/glance.js";
import { stream } from "/page/stream.js";

let leave = new AbortController();
let withDemo = false;

function navigation(path) {
  const pages = [["#/", "Streams"], ...(withDemo ? [["#/demo", "Label digits"]] : []), ["/docs", "Routes"]];
  document.getElementById("nav").replaceChildren(...pages.map(([href, text]) =>
    h("a", { href, "aria-current": href === `#${path}` ? "page" : null }, text)));
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
    else await glance(signal, withDemo);
  } catch (error) {
    if (!signal.aborted) show(h("h1", {}, "That did not work"), h("p", {}, error.message), h("p", {}, h("a", { href: "#/" }, "All streams")));
  }
}

window.addEventListener("hashchange", async () => {
  await route();
  document.getElementById("main").focus({ preventScroll: true });
});
window.addEventListener("DOMContentLoaded", async () => {
  const paths = await (await fetch("/openapi.json")).json();
  withDemo = "/v1/demo/next" in paths.paths;
  if (withDemo && !location.hash) location.replace("#/demo");
  else await route();
});
