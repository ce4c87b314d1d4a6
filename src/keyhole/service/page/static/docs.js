// The routes as the service describes them in /openapi.json; nothing is fetched from elsewhere.
import { h, show } from "/page/dom.js";

const fetched = async (path) => (await fetch(path)).json();
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

function shorten(value) {
  const text = JSON.stringify(value);
  return text.length > 60 ? `${text.slice(0, 57)}…` : text;
}

function fields(rows) {
  if (!rows.length) return null;
  return h("div", { class: "scroll" }, h("table", { class: "fields" },
    h("thead", {}, h("tr", {}, ["field", "kind", "for example", "what it is"].map((name) => h("th", { scope: "col" }, name)))),
    h("tbody", {}, rows.map(([name, type, needed, example, text]) => h("tr", {},
      h("td", {}, h("code", {}, name), needed ? h("small", { class: "quiet" }, " required") : null), h("td", { class: "quiet" }, type),
      h("td", {}, example === undefined ? "" : h("code", {}, shorten(example))), h("td", {}, text ?? ""))))));
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
  return [h("h3", {}, name), h("p", { class: "quiet small" }, found.description), fields(rows), ...below];
}

function example(schema) {
  const found = examples.whole[named(schema)];
  return found === undefined ? null : h("pre", { class: "scroll", tabindex: "0" }, h("code", {}, JSON.stringify(found, null, 1)));
}

function operation(path, method, about) {
  const body = about.requestBody?.content?.["application/json"]?.schema;
  const parameters = (about.parameters ?? []).map((one) => [one.name, `${one.in}: ${kind(one.schema)}`, one.required, one.schema.examples?.[0] ?? one.schema.default, one.description]);
  const good = Object.entries(about.responses).find(([status]) => status.startsWith("2"));
  const answer = good?.[1].content?.["application/json"]?.schema;
  return h("section", { class: "card route", id: `${method}-${path}` },
    h("h2", {}, h("span", { class: "pill kept" }, method.toUpperCase()), " ", h("code", {}, path)),
    h("p", {}, about.description ?? about.summary), fields(parameters),
    body ? h("details", {}, h("summary", {}, "Takes"), example(body), schemas(named(body), true)) : null,
    named(answer) ? h("details", {}, h("summary", {}, `Returns ${good[0]}`), example(answer), schemas(named(answer), false)) : null);
}

const operations = Object.entries(described.paths).flatMap(([path, methods]) =>
  Object.entries(methods).map(([method, about]) => [path, method, about]));
show(
  h("h1", {}, "Routes"),
  h("p", { class: "quiet" }, "As described in ", h("a", { href: "/openapi.json" }, "/openapi.json"), ". Times are in ISO form, in UTC. Where a number is not finite it is null. Errors have the form ",
    h("code", {}, '{"error": {"code", "message", "field"}}'), "."),
  h("nav", { class: "contents", "aria-label": "Routes" }, operations.map(([path, method]) => h("a", { href: `#${method}-${path}` }, `${method.toUpperCase()} ${path}`))),
  h("div", { class: "stack" }, operations.map((one) => operation(...one))));
