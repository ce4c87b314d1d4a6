// The endpoints as the service describes them in /openapi.json; nothing is fetched from elsewhere.
import { h, show } from "/page/dom.js";

const KEY = "keyhole token"; // where the page keeps it, for this tab alone
const SECONDS_TO_RETRY = 3;
async function fetched(path) {
  for (;;) {
    try {
      return await (await fetch(path)).json();
    } catch {
      show(h("p", { role: "alert" }, `The service does not answer; it is asked again every ${SECONDS_TO_RETRY} seconds.`));
      await new Promise((resolve) => setTimeout(resolve, 1000 * SECONDS_TO_RETRY));
    }
  }
}
const [described, examples] = await Promise.all([fetched("/openapi.json"), fetched("/page/examples.json")]);
const named = (schema) => schema?.$ref?.split("/").pop();
const resolved = (schema) => (named(schema) ? described.components.schemas[named(schema)] : schema) ?? {};

function kind(schema) {
  if (schema.$ref) return named(schema);
  if (schema.const !== undefined) return JSON.stringify(schema.const);
  if (schema.enum) return schema.enum.map((value) => JSON.stringify(value)).join(" or ");
  if (schema.anyOf) return schema.anyOf.map(kind).filter((name) => name !== "null").join(" or ");
  if (schema.type === "array") return `list of ${schema.items ? kind(schema.items) : "anything"}`;
  if (schema.additionalProperties?.type) return `map to ${schema.additionalProperties.type}`;
  return schema.type ?? "anything";
}

// What a description sets between marks is code.
const prose = (text = "") => text.split("``").map((part, place) => (place % 2 ? h("code", {}, part) : part));

function shorten(value) {
  const text = JSON.stringify(value);
  return text.length > 60 ? `${text.slice(0, 57)}…` : text;
}

function fields(rows) {
  if (!rows.length) return null;
  return h("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": "Fields" }, h("table", { class: "fields" },
    h("thead", {}, h("tr", {}, ["field", "kind", "for example", "what it is"].map((name) => h("th", { scope: "col" }, name)))),
    h("tbody", {}, rows.map(([name, type, needed, example, text]) => h("tr", {},
      h("td", {}, h("code", {}, name), needed ? h("small", { class: "quiet" }, " required") : null), h("td", { class: "quiet" }, type),
      h("td", {}, example === undefined ? "" : h("code", {}, shorten(example))), h("td", {}, prose(text)))))));
}

const inner = (schema) => [schema, schema.items, ...(schema.anyOf ?? []), ...(schema.anyOf ?? []).map((part) => part.items)].filter((part) => part?.$ref).map(named);

// The fields of a schema, and below them those of every schema it is made of.
function schemas(name, asked, seen = new Set()) {
  if (seen.has(name)) return [];
  seen.add(name);
  const found = described.components.schemas[name];
  if (!found?.properties) return [];
  const rows = Object.entries(found.properties).map(([field, one]) =>
    [field, kind(one), asked && found.required?.includes(field), examples.fields[name]?.[field] ?? one.examples?.[0] ?? one.default, one.description ?? resolved(one).description ?? ""]);
  const below = Object.values(found.properties).flatMap(inner).flatMap((other) => schemas(other, asked, seen));
  return [h("h3", {}, name), h("p", { class: "quiet small" }, prose(found.description)), fields(rows), ...below];
}

function example(schema) {
  const found = examples.whole[named(schema)];
  return found === undefined ? null : h("pre", { class: "scroll short", tabindex: "0", role: "region", "aria-label": `Example of ${named(schema)}` }, h("code", {}, JSON.stringify(found, null, 1)));
}

// An example of what is sent, and beside it one of what comes back.
const side = (title, schema) => (schema ? h("div", {}, h("h3", {}, title), example(schema)) : null);

// A form that sends the request from this page, with the token of this tab if there is one.
function trial(path, method, about) {
  const body = about.requestBody?.content?.["application/json"]?.schema;
  const inputs = (about.parameters ?? []).map((one) => [one, h("input", { value: one.required ? one.schema.examples?.[0] ?? "" : "", placeholder: one.required ? "required" : "" })]);
  const text = body ? h("textarea", { rows: 6, spellcheck: "false" }, JSON.stringify(examples.whole[named(body)] ?? {}, null, 1)) : null;
  const said = h("div", { role: "status" });
  const send = async (event) => {
    event.preventDefault();
    const given = inputs.filter(([, input]) => input.value !== "").map(([one, input]) => [one.in, one.name, input.value]);
    const of = (place) => given.filter(([where]) => where === place).map(([, name, value]) => [name, value]);
    const target = of("path").reduce((so, [name, value]) => so.replace(`{${name}}`, encodeURIComponent(value)), path);
    const query = new URLSearchParams(of("query")).toString(), token = sessionStorage.getItem(KEY);
    const headers = { ...Object.fromEntries(of("header")), ...(text ? { "Content-Type": "application/json" } : {}), ...(token ? { Authorization: `Bearer ${token}` } : {}) };
    const stop = AbortSignal.timeout(10_000);
    said.replaceChildren("Sent…");
    try {
      const response = await fetch(query ? `${target}?${query}` : target, { method: method.toUpperCase(), headers, body: text?.value, signal: stop });
      said.replaceChildren(h("p", {}, h("span", { class: `pill ${response.ok ? "kept" : "many"}` }, String(response.status)), ` ${response.statusText}`), h("pre", { class: "scroll", tabindex: "0" }, h("code", {}, await shortened(response))));
    } catch (error) {
      said.replaceChildren(h("p", {}, stop.aborted ? "No whole answer came within 10 seconds." : "The service cannot be reached."));
    }
  };
  const label = (name, field) => h("label", {}, h("span", { class: "quiet small" }, name), field);
  return h("details", {}, h("summary", {}, "Send one"), h("form", { class: "trial", onsubmit: send },
    inputs.map(([one, input]) => label(`${one.name} (${one.in})`, input)), text ? label("body", text) : null, h("button", { type: "submit" }, "Send"), said));
}

async function shortened(response) {
  const text = await response.text(), type = response.headers.get("content-type") ?? "";
  const shown = type.startsWith("application/json") ? JSON.stringify(JSON.parse(text), null, 1) : text;
  return shown.length > 20_000 ? `${shown.slice(0, 20_000)}…` : shown;
}

function operation(path, method, about) {
  const body = about.requestBody?.content?.["application/json"]?.schema;
  const parameters = (about.parameters ?? []).map((one) => [one.name, `${one.in}: ${kind(one.schema)}`, one.required, one.schema.examples?.[0] ?? one.schema.default, one.description]);
  const good = Object.entries(about.responses).find(([status]) => status.startsWith("2"));
  const answer = good?.[1].content?.["application/json"]?.schema;
  return h("section", { class: "card route", id: `${method}-${path}` },
    h("h2", {}, h("span", { class: "pill kept" }, method.toUpperCase()), " ", h("code", {}, path)),
    h("p", {}, prose(about.description ?? about.summary), ...(about.security ?? []).map((one) => h("small", { class: "quiet" }, ` Scope of the token: ${one.token}.`))), fields(parameters),
    body || named(answer) ? h("div", { class: "sides" }, side("Request", body), side(`Response ${good?.[0] ?? ""}`, named(answer) ? answer : null)) : null,
    body ? h("details", {}, h("summary", {}, "Fields of the request"), schemas(named(body), true)) : null,
    named(answer) ? h("details", {}, h("summary", {}, "Fields of the response"), schemas(named(answer), false)) : null,
    trial(path, method, about));
}

const operations = Object.entries(described.paths).flatMap(([path, methods]) =>
  Object.entries(methods).map(([method, about]) => [path, method, about]));
show(
  h("h1", {}, "Endpoints"),
  h("p", { class: "quiet" }, "As described in ", h("a", { href: "/openapi.json" }, "/openapi.json"), ". Times are in ISO form, in UTC. Where a number is not finite it is null. Errors have the form ",
    h("code", {}, '{"error": {"code", "message", "field"}}'), "."),
  h("form", { class: "trial", onsubmit: (event) => event.preventDefault() }, h("label", {}, h("span", { class: "quiet small" }, "Token to send with requests from here; it stays in this tab"),
    h("input", { type: "password", autocomplete: "off", value: sessionStorage.getItem(KEY) ?? "", onchange: ({ target }) => (target.value ? sessionStorage.setItem(KEY, target.value.trim()) : sessionStorage.removeItem(KEY)) }))),
  h("nav", { class: "contents", "aria-label": "Endpoints" }, operations.map(([path, method]) => h("a", { href: `#${method}-${path}` }, `${method.toUpperCase()} ${path}`))),
  h("div", { class: "stack" }, operations.map((one) => operation(...one))));
