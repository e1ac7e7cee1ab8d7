// A new object of a kind, written as YAML.
import { parse, stringify } from "yaml";
import { type KubeObject, request } from "../api/client";
import { apiVersionOf, findKind, type Kind, pathOf } from "../api/discovery";
import { Empty } from "../parts/states";
import { go, objectHref, route, tableHref } from "../route";
import { Editor } from "./object/yaml_tab";

export function NewObject({ group, resource }: { group: string; resource: string }) {
  const kind = findKind(group, resource);
  if (!kind) return <Empty title={`The server has no ${resource}.`} />;
  const namespace = route.value.query.get("namespace") || "default";
  return (
    <section class="view" aria-labelledby="view-title">
      <header class="view-head">
        <div>
          <p class="crumbs">
            <a href={tableHref(kind)}>{kind.kind}</a>
          </p>
          <h1 id="view-title">New {kind.kind}</h1>
        </div>
      </header>
      <Editor
        kind={kind}
        initial={template(kind, namespace)}
        before=""
        methods={["update"]}
        write={(text, _, query) => create(kind, text, query)}
        onDone={(object) => go(objectHref(kind, object.metadata.namespace, object.metadata.name))}
        onCancel={() => go(tableHref(kind))}
      />
    </section>
  );
}

function template(kind: Kind, namespace: string): string {
  const metadata = kind.namespaced ? { name: "example", namespace } : { name: "example" };
  return stringify({ apiVersion: apiVersionOf(kind), kind: kind.kind, metadata });
}

async function create(kind: Kind, text: string, query: Record<string, string>): Promise<KubeObject> {
  const object = parse(text) as KubeObject | null;
  const path = pathOf(kind, object?.metadata?.namespace ?? "default");
  return request<KubeObject>(path, { method: "POST", query, body: JSON.stringify(object) });
}
