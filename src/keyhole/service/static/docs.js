// The routes as the service describes them in /openapi.json; nothing is fetched from elsewhere.
import { h, show } from "/page/dom.js";

const described = await (await fetch("/openapi.json")).json();

const resolved = (schema) => (schema?.$ref ? described.components.schemas[schema.$ref.split("/").pop()] : schema) ?? {};

function kind(schema) {
  if (schema.$ref) return schema.$ref.split("/").pop();
  if (schema.const !== undefined) return JSON.stringify(schema.const);
  if (schema.enum) return schema.enum.map((value) => JSON.stringify(value)).join(" or ");
  if (schema.anyOf) return schema.anyOf.map(kind).filter((name) => name !== "null").join(" or ");
  if (schema.type === "array") return `list of ${schema.items ? kind(schema.items) : "anything"}`;
  if (schema.additionalProperties?.type) return `map to ${schema.additionalProperties.type}`;
  return schema.type ?? "anything";
}

function fields(rows) {
  if (!rows.length) return null;
  return h("div", { class: "scroll" }, h("table", {}, h("tbody", {}, rows.map(([name, type, needed, text]) => h("tr", {},
    h("td", {}, h("code", {}, name)), h("td", { class: "quiet" }, type), h("td", { class: "quiet" }, needed ? "needed" : ""), h("td", {}, text ?? ""))))));
}

function properties(schema) {
  const found = resolved(schema);
  return Object.entries(found.properties ?? {}).map(([name, one]) =>
    [name, kind(one), found.required?.includes(name), one.description ?? one.anyOf?.find((part) => part.description)?.description]);
}

function operation(path, method, about) {
  const body = about.requestBody?.content?.["application/json"]?.schema;
  const parameters = (about.parameters ?? []).map((one) => [one.name, `${one.in}: ${kind(one.schema)}`, one.required, one.description]);
  const good = Object.entries(about.responses).find(([status]) => status.startsWith("2"));
  const answer = good?.[1].content?.["application/json"]?.schema;
  return h("section", { class: "card route" },
    h("h2", {}, h("span", { class: "pill kept" }, method.toUpperCase()), " ", h("code", {}, path)),
    h("p", {}, about.description ?? about.summary),
    fields([...parameters, ...(body ? properties(body) : [])]),
    answer && properties(answer).length ? h("details", {}, h("summary", {}, `Answers ${good[0]}`), fields(properties(answer))) : null);
}

const operations = Object.entries(described.paths).flatMap(([path, methods]) =>
  Object.entries(methods).map(([method, about]) => operation(path, method, about)));
show(
  h("h1", {}, "Routes"),
  h("p", { class: "quiet" }, "As described in ", h("a", { href: "/openapi.json" }, "/openapi.json"), ". Whatever is refused comes back as ",
    h("code", {}, '{"error": {"code", "message", "field"}}'), "."),
  h("div", { class: "stack" }, operations));
