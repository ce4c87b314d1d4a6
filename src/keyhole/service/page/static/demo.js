import { get, post } from "/page/api.js";
import * as charts from "/page/charts.js";
import { entitle, fill, h, say, show } from "/page/dom.js";
import { keepFresh } from "/page/fresh.js";
import { table } from "/page/rounds.js";
import { tiles } from "/page/stream.js";

const NAME = "digits";
const PATH = `/v1/streams/${NAME}`;
const NONE_KEYS = ["n", "N", "x"];

const SIDE = 8, EDGE = 1, WHOLE = SIDE + 2 * EDGE; // A margin, as on paper.

function paint(canvas, picture) {
  const small = new OffscreenCanvas(WHOLE, WHOLE), pixels = new ImageData(SIDE, SIDE);
  picture.flat().forEach((value, place) => {
    const grey = 255 - Math.round((value / 16) * 235);
    pixels.data.set([grey, grey, grey, 255], 4 * place);
  });
  const brush = small.getContext("2d");
  brush.fillStyle = "#fff";
  brush.fillRect(0, 0, WHOLE, WHOLE);
  brush.putImageData(pixels, EDGE, EDGE);
  const large = canvas.getContext("2d");
  large.imageSmoothingQuality = "high";
  large.drawImage(small, 0, 0, canvas.width, canvas.height);
}

function meaning(labels, alpha) {
  if (labels.length === 0) return "The model proposes nothing this time. Say so: it counts as a miss, and the model learns to propose more.";
  if (labels.length === 10) return "The model rules nothing out.";
  const digits = labels.length === 1 ? "this digit" : `these ${labels.length} digits`;
  return `The model says it is one of ${digits}. At most 1 in ${Math.round(1 / alpha)} times, in the long run, it may be wrong.`.replace("one of this", "this");
}

export async function demo(signal) {
  const { alpha } = await get(PATH, signal);
  entitle("Label digits");
  const canvas = h("canvas", { width: 320, height: 320, role: "img" });
  const means = h("p", { class: "means quiet small" });
  const choices = h("div", { class: "choices", role: "group", "aria-label": "Proposed digits" });
  const none = h("button", { class: "none", onclick: () => answer(null) }, "None of these ", h("kbd", {}, "N"));
  const hint = h("p", { class: "hint", role: "alert" });
  const robot = h("button", { class: "switch", role: "switch", "aria-checked": "false", onclick: () => toggle() },
    h("i", { "aria-hidden": "true" }), h("span", {}, "Let a simulated person answer"));
  const numbers = h("dl", { class: "tiles" }), last = h("div");
  const misses = h("div", { class: "chart" }), sizes = h("div", { class: "chart" });
  show(
    h("div", { class: "head" }, h("div", {}, h("h1", {}, "Which digit is this?"),
      h("p", { class: "quiet" }, "Choose it if it is there. Your choice is all that the model ever learns about the truth."))),
    h("div", { class: "loop" },
      h("div", { class: "stack" },
        h("section", { class: "card", "aria-label": "Answer" }, h("div", { class: "picture" }, canvas), means, choices, hint, none,
          h("div", { class: "foot" }, robot,
            h("p", { class: "quiet small keys" }, "Keys: ", h("kbd", {}, "0"), " to ", h("kbd", {}, "9"), " for a digit, ", h("kbd", {}, "N"), " for none, ", h("kbd", {}, "S"), " for the switch.")))),
      h("div", { class: "stack" }, numbers,
        h("section", { class: "card" }, h("h2", {}, "Overall miss rate", h("small", {}, "dashed: the target; shaded: what chance allows")), misses),
        h("section", { class: "card" }, h("h2", {}, "Mean set size", h("small", {}, "thin: recent; thick: overall")), sizes),
        h("section", { class: "card" }, h("h2", {}, "Last rounds"), last))));

  let now = null, answering = false, simulating = false, again = () => {};

  async function present() {
    const { prediction, picture } = await post("/v1/demo/next");
    now = prediction;
    if (signal.aborted) return;
    paint(canvas, picture);
    canvas.setAttribute("aria-label", `Picture ${now.round + 1}: a handwritten digit, 8 by 8 grey squares`);
    const labels = [...now.labels].sort();
    means.textContent = meaning(labels, alpha);
    choices.replaceChildren(...(labels.length
      ? labels.map((label) => h("button", { class: "choice", "data-label": label, onclick: () => answer(label) }, label))
      : [h("p", { class: "nothing quiet" }, "nothing proposed")]));
    choices.dataset.round = now.round;
    again();
  }

  async function answer(label) {
    if (answering || simulating || !now) return;
    answering = true;
    try {
      const counted = await post(`/v1/predictions/${now.id}/feedback`, label === null ? { miss: true } : { label });
      hint.textContent = "";
      await present();
      say(`${counted.missed ? "None of these" : `Digit ${label}`} counted. Next picture: ${now.labels.length} digits proposed.`);
    } catch (error) {
      hint.textContent = error.message;
      if (!error.lost) await present();
    } finally {
      answering = false;
    }
  }

  async function toggle() {
    simulating = !simulating;
    robot.setAttribute("aria-checked", String(simulating));
    try {
      while (simulating && !signal.aborted) {
        await post("/v1/demo/simulate", { rounds: 5 });
        await present();
        await new Promise((resolve) => setTimeout(resolve, 150));
      }
    } catch (error) {
      hint.textContent = `The simulated person stopped: ${error.message}`;
    }
    simulating = false;
    robot.setAttribute("aria-checked", "false");
  }

  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || event.target.matches("input")) return;
    if (NONE_KEYS.includes(event.key)) answer(null);
    else if (event.key === "s" || event.key === "S") toggle();
    else if (/^[0-9]$/.test(event.key)) {
      if (now?.labels.includes(event.key)) answer(event.key);
      else hint.textContent = `${event.key} is not among the proposed digits. If none of them is right, press N.`;
    }
  }, { signal });

  async function look() {
    const [stands, history, log] = await Promise.all([get(PATH, signal), get(`${PATH}/history`, signal), get(`${PATH}/rounds?limit=9`, signal)]);
    if (signal.aborted) return;
    fill(numbers, tiles(stands, history));
    charts.missRate(misses, history);
    charts.setSize(sizes, history, "digits");
    fill(last, table(log.rounds.filter((round) => round.answer !== null).slice(0, 8)));
  }

  await present();
  await look();
  again = keepFresh(look, signal);
}
