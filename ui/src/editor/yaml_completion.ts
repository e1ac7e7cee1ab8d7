// Completion of the names and values of fields, by the schema of the kind.
import type { Completion, CompletionContext, CompletionResult } from "@codemirror/autocomplete";
import type { Text } from "@codemirror/state";
import type { Schema, Schemas } from "../api/openapi";

const KEY = /^(\s*)((?:- )*)([\w.$/-]*)$/;
const VALUE = /^(\s*)((?:- )*)([\w.$/-]+):\s+(\S*)$/;
const FIELD = /^(\s*)((?:- )*)([\w.$/-]+):/;

/** Return a source of completions for CodeMirror. */
export function yamlCompletion(schemas: Schemas, root: Schema) {
  return (context: CompletionContext): CompletionResult | null => {
    const line = context.state.doc.lineAt(context.pos);
    const before = line.text.slice(0, context.pos - line.from);
    const value = VALUE.exec(before);
    if (value) {
      const path = pathAt(context.state.doc, line.number, indentOf(value), value[2] !== "");
      const schema = schemas.at(root, [...path, value[3]!]);
      const options = valuesOf(schema);
      return options.length ? { from: context.pos - value[4]!.length, options } : null;
    }
    const key = KEY.exec(before);
    if (!key || (!key[3] && !context.explicit)) return null;
    const path = pathAt(context.state.doc, line.number, indentOf(key), key[2] !== "");
    const schema = schemas.at(root, path);
    const options = Object.entries(schema?.properties ?? {}).map(([name, field]) =>
      optionOf(name, schemas.resolve(field), schema?.required?.includes(name) ?? false),
    );
    return options.length ? { from: context.pos - key[3]!.length, options, validFor: /^[\w.$/-]*$/ } : null;
  };
}

function indentOf(match: RegExpExecArray): number {
  return match[1]!.length + match[2]!.length;
}

/** The path of the map that a line with this indent belongs to, from the lines above it. `isItem`
 * says that the line begins an item of a list. Every item is number 0: its schema is the same. */
export function pathAt(document: Text, lineNumber: number, indent: number, isItem: boolean): (string | number)[] {
  const path: (string | number)[] = [];
  let limit = indent;
  let inItem = isItem;
  for (let number = lineNumber - 1; number >= 1 && (limit > 0 || inItem); number--) {
    const field = FIELD.exec(document.line(number).text);
    if (!field) continue;
    const dashes = field[2]!.length;
    const column = indentOf(field);
    if (column < limit || (inItem && dashes === 0 && column <= limit - 2)) {
      if (inItem) path.unshift(0);
      inItem = dashes > 0;
      path.unshift(field[3]!);
      limit = column;
      if (inItem && dashes) limit = column;
    } else if (column === limit && dashes > 0 && !inItem) {
      inItem = true; // the first field of the item that the line belongs to
    }
  }
  return path;
}

function optionOf(name: string, schema: Schema | undefined, isRequired: boolean): Completion {
  const isBranch = schema?.type === "object" || schema?.type === "array" || schema?.properties;
  return {
    label: name,
    type: "property",
    detail: `${schema?.type ?? ""}${isRequired ? ", required" : ""}`,
    info: schema?.description ?? "",
    apply: isBranch ? `${name}:` : `${name}: `,
    boost: isRequired ? 1 : 0,
  };
}

function valuesOf(schema: Schema | undefined): Completion[] {
  if (schema?.type === "boolean") return ["true", "false"].map((label) => ({ label, type: "keyword" }));
  return (schema?.enum ?? []).map((label) => ({ label: String(label), type: "enum" }));
}
