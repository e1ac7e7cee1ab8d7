// The YAML of an object, and its editor: a server-side dry run shows the difference before a write.
import { useEffect, useState } from "preact/hooks";
import { parse, stringify } from "yaml";
import { ApiError, type KubeObject, request } from "../../api/client";
import { type Kind, pathOf } from "../../api/discovery";
import { loadSchemas, type Schema, type Schemas } from "../../api/openapi";
import { ErrorBox } from "../../parts/states";
import { YamlDiff, YamlText } from "../../parts/yaml_text";
import { at } from "../../recording";

const MANAGER = "kapiserver-ui";
type Method = "update" | "apply";

export function yamlOf(object: KubeObject): string {
  const { managedFields: _, ...metadata } = object.metadata;
  return stringify({ ...object, metadata }, { lineWidth: 0 });
}

export function YamlTab({
  kind,
  object,
  isHidden,
  isGone,
}: {
  kind: Kind;
  object: KubeObject;
  isHidden: boolean;
  isGone: boolean;
}) {
  const [base, setBase] = useState<KubeObject | null>(null);
  if (base) return <ObjectEditor kind={kind} base={base} newer={object} onClose={() => setBase(null)} />;
  const canEdit = at.value === null && !isGone && kind.verbs.includes("update");
  return (
    <div class="yaml">
      {canEdit && (
        <div class="toolbar">
          <button type="button" disabled={isHidden} onClick={() => setBase(object)}>
            Edit
          </button>
          {isHidden && <span class="hint">Show the values first to edit this Secret.</span>}
        </div>
      )}
      <YamlText text={yamlOf(object)} label={`YAML of ${object.metadata.name}`} />
    </div>
  );
}

interface Preview {
  before: string;
  after: string;
  /** The text whose dry run this is. */
  text: string;
  warnings: string[];
}

function ObjectEditor({
  kind,
  base,
  newer,
  onClose,
}: {
  kind: Kind;
  base: KubeObject;
  newer: KubeObject;
  onClose: () => void;
}) {
  const isOutdated = newer.metadata.resourceVersion !== base.metadata.resourceVersion;
  return (
    <>
      {isOutdated && (
        <p class="note" role="status">
          Somebody has changed the object since you began. An update of the old revision is refused; close and edit
          again, or apply.
        </p>
      )}
      <Editor
        kind={kind}
        initial={yamlOf(base)}
        before={yamlOf(newer)}
        methods={["update", "apply"]}
        write={(text, method, query) => writeObject(kind, text, method, query)}
        onDone={onClose}
        onCancel={onClose}
      />
    </>
  );
}

/** An editor with the steps check, difference, write. */
export function Editor({
  kind,
  initial,
  before,
  methods,
  write,
  onDone,
  onCancel,
}: {
  kind: Kind;
  initial: string;
  before: string;
  methods: Method[];
  write: (text: string, method: Method, query: Record<string, string>) => Promise<KubeObject>;
  onDone: (object: KubeObject) => void;
  onCancel: () => void;
}) {
  const [text, setText] = useState(initial);
  const [method, setMethod] = useState<Method>(methods[0]!);
  const [isForced, setForced] = useState(false);
  const [preview, setPreview] = useState<Preview | null>(null);
  const [error, setError] = useState<unknown>(null);
  const [isBusy, setBusy] = useState(false);
  const [schemas, setSchemas] = useState<{ all: Schemas; root: Schema | undefined } | null>(null);
  const [isSchemaKnown, setSchemaKnown] = useState(false);
  useEffect(() => {
    loadSchemas(kind)
      .then((all) => setSchemas({ all, root: all.of(kind) }))
      .catch(() => setSchemas(null)) // without a schema, the dry run alone checks
      .finally(() => setSchemaKnown(true));
  }, [kind]);

  const query = { fieldManager: MANAGER, fieldValidation: "Strict", ...(isForced ? { force: "true" } : {}) };
  const run = async (action: () => Promise<void>) => {
    setBusy(true);
    setError(null);
    try {
      await action();
    } catch (problem) {
      setError(problem);
    }
    setBusy(false);
  };
  const check = () =>
    run(async () => {
      const result = await write(text, method, { ...query, dryRun: "All" });
      setPreview({ before, after: yamlOf(result), text, warnings: [] });
    });
  const save = () => run(async () => onDone(await write(text, method, query)));
  const isConflict = error instanceof ApiError && error.code === 409 && method === "apply";
  return (
    <div class="editor">
      <div class="toolbar">
        {methods.length > 1 && (
          <label class="filter">
            <span>Method</span>
            <select
              value={method}
              onChange={(event) => {
                setMethod(event.currentTarget.value as Method);
                setPreview(null);
              }}
            >
              <option value="update">update (replace the object)</option>
              <option value="apply">server-side apply</option>
            </select>
          </label>
        )}
        <button type="button" disabled={isBusy} onClick={() => void check()}>
          Check by dry run
        </button>
        <button
          type="button"
          class="primary"
          disabled={isBusy || preview?.text !== text}
          title={preview?.text === text ? "" : "The dry run comes first"}
          onClick={() => void save()}
        >
          {methods.length > 1 ? "Apply" : "Create"}
        </button>
        <button type="button" onClick={onCancel}>
          Cancel
        </button>
        <span class="hint">Ctrl+Space completes fields.</span>
      </div>
      {error !== null && <ErrorBox error={error} />}
      {isConflict && (
        <label class="check">
          <input type="checkbox" checked={isForced} onChange={(event) => setForced(event.currentTarget.checked)} /> Take
          these fields from their owners (force)
        </label>
      )}
      <div class="panes">
        {isSchemaKnown && (
          <YamlText text={initial} label="YAML to edit" onChange={setText} schemas={schemas?.all ?? null} schema={schemas?.root} />
        )}
        {preview && (
          <section class="preview" aria-label="Difference">
            <h2>
              {preview.before === preview.after ? "The dry run changes nothing" : "What the dry run changes"}
              {preview.text !== text && <span class="hint"> of an older text: check again</span>}
            </h2>
            <YamlDiff before={preview.before} after={preview.after} label="Difference" />
          </section>
        )}
      </div>
    </div>
  );
}

async function writeObject(
  kind: Kind,
  text: string,
  method: Method,
  query: Record<string, string>,
): Promise<KubeObject> {
  const object = parseObject(text);
  const { namespace = "", name } = object.metadata;
  const path = pathOf(kind, namespace, name);
  if (method === "update") {
    const { force: _, ...parameters } = query;
    return request<KubeObject>(path, { method: "PUT", query: parameters, body: JSON.stringify(object) });
  }
  return request<KubeObject>(path, {
    method: "PATCH",
    query,
    contentType: "application/apply-patch+yaml",
    body: JSON.stringify(appliedFields(object)),
  });
}

/** What a person applies: the fields that the server sets are left out. */
function appliedFields(object: KubeObject): unknown {
  const { status: _, metadata, ...rest } = object;
  const { name, namespace, labels, annotations, ownerReferences, finalizers } = metadata as any;
  return { ...rest, metadata: { name, namespace, labels, annotations, ownerReferences, finalizers } };
}

/** Return the object that a text describes. Throws Error. */
export function parseObject(text: string): KubeObject {
  const object = parse(text) as KubeObject | null;
  if (!object?.metadata?.name) throw new Error("The YAML must be an object with metadata.name.");
  return object;
}
