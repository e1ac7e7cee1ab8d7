// Checks of YAML against the schema of its kind: unknown fields, wrong types, missing fields. The
// server's dry run is the judge; these show most mistakes while a person types.
import type { Diagnostic } from "@codemirror/lint";
import { isMap, isPair, isScalar, isSeq, type Node, parseDocument } from "yaml";
import type { Schema, Schemas } from "../api/openapi";

const MAX_PROBLEMS = 50;

export function checkYaml(text: string, schemas: Schemas | null, root: Schema | undefined): Diagnostic[] {
  const document = parseDocument(text, { prettyErrors: false });
  const problems: Diagnostic[] = [...document.errors, ...document.warnings].map((error) => ({
    from: error.pos[0],
    to: Math.max(error.pos[1], error.pos[0]),
    severity: "error",
    message: error.message,
  }));
  if (problems.length === 0 && schemas && root && document.contents) {
    check(document.contents as Node, root, "", schemas, problems);
  }
  return problems.slice(0, MAX_PROBLEMS);
}

function check(node: Node, unresolved: Schema, path: string, schemas: Schemas, problems: Diagnostic[]): void {
  const schema = schemas.resolve(unresolved);
  if (!schema) return;
  const report = (message: string, at: Node = node, severity: Diagnostic["severity"] = "error") => {
    const [from = 0, to = 0] = at.range ?? [];
    problems.push({ from, to, severity, message });
  };
  if (isMap(node)) {
    if (schema.type && schema.type !== "object") return report(`${path} must be ${words(schema)}, not a map`);
    const names = new Set<string>();
    for (const pair of node.items) {
      if (!isPair(pair) || !isScalar(pair.key)) continue;
      const name = String(pair.key.value);
      names.add(name);
      const below = path ? `${path}.${name}` : name;
      const field = schema.properties?.[name] ?? schema.additionalProperties;
      if (field === undefined || field === false) {
        const isOpen = schema["x-kubernetes-preserve-unknown-fields"] === true || !schema.properties;
        if (!isOpen) report(`${below} is no field of this kind`, pair.key as Node);
      } else if (typeof field === "object" && pair.value) {
        check(pair.value as Node, field, below, schemas, problems);
      }
    }
    for (const name of schema.required ?? []) {
      if (!names.has(name)) report(`${path ? `${path}.` : ""}${name} is required`, node, "warning");
    }
  } else if (isSeq(node)) {
    if (schema.type && schema.type !== "array") return report(`${path} must be ${words(schema)}, not a list`);
    node.items.forEach((item, index) => {
      if (schema.items) check(item as Node, schema.items, `${path}[${index}]`, schemas, problems);
    });
  } else if (isScalar(node) && node.value !== null) {
    if (!fits(node.value, schema)) report(`${path} must be ${words(schema)}`);
    else if (schema.enum && !schema.enum.includes(node.value)) {
      report(`${path} must be one of ${schema.enum.join(", ")}`);
    }
  }
}

function fits(value: unknown, schema: Schema): boolean {
  const isNumber = typeof value === "number" || typeof value === "bigint";
  if (schema["x-kubernetes-int-or-string"] || schema.format === "int-or-string" || schema.oneOf) return true;
  switch (schema.type) {
    case "string":
      return typeof value === "string";
    case "integer":
      return isNumber && Number.isInteger(Number(value));
    case "number":
      return isNumber;
    case "boolean":
      return typeof value === "boolean";
    case "array":
    case "object":
      return false;
    default:
      return true;
  }
}

const WORDS: Record<string, string> = {
  string: "text",
  integer: "a whole number",
  number: "a number",
  boolean: "true or false",
  array: "a list",
  object: "a map",
};

function words(schema: Schema): string {
  return WORDS[schema.type ?? ""] ?? "of another type";
}
