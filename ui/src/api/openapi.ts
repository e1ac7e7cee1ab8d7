// The schema of a kind, from OpenAPI v3.
import { request, type Tree } from "./client";
import { apiVersionOf, type Kind } from "./discovery";

export interface Schema {
  type?: string;
  description?: string;
  properties?: Record<string, Schema>;
  additionalProperties?: Schema | boolean;
  items?: Schema;
  required?: string[];
  enum?: unknown[];
  $ref?: string;
  allOf?: Schema[];
  format?: string;
  [extension: string]: unknown;
}

/** The schemas of one group and version. */
export class Schemas {
  constructor(private readonly components: Record<string, Schema>) {}

  of(kind: Kind): Schema | undefined {
    return Object.values(this.components).find((schema) =>
      ((schema["x-kubernetes-group-version-kind"] as Tree[] | undefined) ?? []).some(
        (name) => name.group === kind.group && name.version === kind.version && name.kind === kind.kind,
      ),
    );
  }

  /** Return the schema that a reference stands for, with the description beside the reference. */
  resolve(schema: Schema | undefined): Schema | undefined {
    const reference = schema?.$ref ?? schema?.allOf?.[0]?.$ref;
    if (!schema || !reference) return schema;
    const target = this.resolve(this.components[reference.split("/").pop()!]);
    return target && { ...target, description: schema.description ?? target.description ?? "" };
  }

  /** Return the schema of the field at a path; numbers are indexes of lists. */
  at(root: Schema, path: (string | number)[]): Schema | undefined {
    let schema = this.resolve(root);
    for (const part of path) {
      if (!schema) return undefined;
      if (typeof part === "number") schema = this.resolve(schema.items);
      else schema = this.resolve(schema.properties?.[part] ?? mapValues(schema));
    }
    return schema;
  }
}

function mapValues(schema: Schema): Schema | undefined {
  return typeof schema.additionalProperties === "object" ? schema.additionalProperties : undefined;
}

const documents = new Map<string, Promise<Schemas>>();

/** Read the schemas of the group and version of a kind; again after five minutes, as definitions of
 * custom resources change. Throws ApiError. */
export function loadSchemas(kind: Kind): Promise<Schemas> {
  const path = `/openapi/v3/${kind.group ? "apis" : "api"}/${apiVersionOf(kind)}`;
  let document = documents.get(path);
  if (!document) {
    document = request(path).then((answer) => new Schemas(answer.components?.schemas ?? {}));
    documents.set(path, document);
    const forget = () => documents.delete(path);
    document.catch(forget);
    setTimeout(forget, 300_000);
  }
  return document;
}
