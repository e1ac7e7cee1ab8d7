// YAML to read or to edit, and the difference of two. CodeMirror is loaded when it is needed.
import type { EditorView } from "@codemirror/view";
import { useEffect, useRef } from "preact/hooks";
import type { Schema, Schemas } from "../api/openapi";

export function YamlText({
  text,
  label,
  onChange,
  schemas = null,
  schema,
}: {
  text: string;
  label: string;
  onChange?: (text: string) => void;
  schemas?: Schemas | null;
  schema?: Schema | undefined;
}) {
  const host = useRef<HTMLDivElement>(null);
  const changed = useRef(onChange);
  changed.current = onChange;
  const isEditable = onChange !== undefined;
  useEffect(() => {
    let view: EditorView | undefined;
    let isOver = false;
    void import("../editor/code_editor").then(({ openEditor }) => {
      if (isOver || !host.current) return;
      const options = isEditable ? { onChange: (value: string) => changed.current?.(value), schemas, schema } : {};
      view = openEditor(host.current, text, { label, ...options });
    });
    return () => {
      isOver = true;
      view?.destroy();
    };
    // An editor keeps what a person has typed: a new text does not replace it.
  }, [isEditable ? "" : text, isEditable, schemas, schema]);
  return <div class="code" ref={host} />;
}

export function YamlDiff({ before, after, label }: { before: string; after: string; label: string }) {
  const host = useRef<HTMLDivElement>(null);
  useEffect(() => {
    let view: EditorView | undefined;
    let isOver = false;
    void import("../editor/code_editor").then(({ openDiff }) => {
      if (!isOver && host.current) view = openDiff(host.current, before, after, label);
    });
    return () => {
      isOver = true;
      view?.destroy();
    };
  }, [before, after]);
  return <div class="code" ref={host} />;
}
