// CodeMirror in a shadow root: there it adopts its style sheets, which the Content-Security-Policy
// allows, and writes no style element.
import { autocompletion, closeBrackets, completionKeymap } from "@codemirror/autocomplete";
import { defaultKeymap, history, historyKeymap } from "@codemirror/commands";
import { yaml } from "@codemirror/lang-yaml";
import { HighlightStyle, indentOnInput, syntaxHighlighting } from "@codemirror/language";
import { linter, lintGutter, lintKeymap } from "@codemirror/lint";
import { unifiedMergeView } from "@codemirror/merge";
import { highlightSelectionMatches, searchKeymap } from "@codemirror/search";
import { EditorState, type Extension } from "@codemirror/state";
import { drawSelection, EditorView, highlightActiveLine, keymap, lineNumbers } from "@codemirror/view";
import { tags } from "@lezer/highlight";
import type { Schema, Schemas } from "../api/openapi";
import { checkYaml } from "./yaml_checks";
import { yamlCompletion } from "./yaml_completion";

const THEME = EditorView.theme({
  "&": { color: "var(--text)", backgroundColor: "var(--surface)", fontSize: "13px", height: "100%" },
  "&.cm-focused": { outline: "2px solid var(--accent)", outlineOffset: "-2px" },
  ".cm-content": { fontFamily: "var(--mono)", caretColor: "var(--text)", padding: "8px 0" },
  ".cm-scroller": { fontFamily: "var(--mono)", lineHeight: "1.55" },
  ".cm-gutters": { backgroundColor: "var(--surface)", color: "var(--faint)", border: "none" },
  ".cm-activeLine, .cm-activeLineGutter": { backgroundColor: "var(--hover)" },
  ".cm-cursor": { borderLeftColor: "var(--text)" },
  "&.cm-focused > .cm-scroller > .cm-selectionLayer .cm-selectionBackground, .cm-selectionBackground": {
    backgroundColor: "var(--selection)",
  },
  ".cm-tooltip, .cm-panels": {
    backgroundColor: "var(--raised)",
    color: "var(--text)",
    border: "1px solid var(--line)",
    borderRadius: "6px",
  },
  ".cm-tooltip-autocomplete ul li[aria-selected]": { backgroundColor: "var(--accent)", color: "#fff" },
  ".cm-completionInfo": { maxWidth: "360px", padding: "8px", whiteSpace: "pre-wrap" },
  ".cm-changedLine, .cm-insertedLine": { backgroundColor: "var(--added) !important" },
  ".cm-deletedChunk": { backgroundColor: "var(--removed)" },
  ".cm-changedText, .cm-deletedChunk .cm-deletedText": { background: "var(--emphasis)" },
  ".cm-collapsedLines:before, .cm-collapsedLines:after": { content: '"⋯"' },
  ".cm-collapsedLines": { background: "var(--hover)", color: "var(--muted)" },
});

const COLORS = HighlightStyle.define([
  { tag: tags.propertyName, color: "var(--code-key)" },
  { tag: [tags.string, tags.content], color: "var(--code-text)" },
  { tag: [tags.number, tags.bool, tags.null, tags.keyword], color: "var(--code-value)" },
  { tag: [tags.comment, tags.punctuation, tags.separator], color: "var(--muted)" },
]);

const SHARED: Extension[] = [lineNumbers(), drawSelection(), yaml(), syntaxHighlighting(COLORS), THEME];

function rootOf(host: HTMLElement): ShadowRoot {
  return host.shadowRoot ?? host.attachShadow({ mode: "open" });
}

/** Show text that can be edited if `onChange` is given. */
export function openEditor(
  host: HTMLElement,
  text: string,
  options: {
    label: string;
    onChange?: (text: string) => void;
    schemas?: Schemas | null;
    schema?: Schema | undefined;
  },
): EditorView {
  const { label, onChange, schemas = null, schema } = options;
  const extensions: Extension[] = [...SHARED, EditorView.contentAttributes.of({ "aria-label": label })];
  if (onChange) {
    extensions.push(
      history(),
      indentOnInput(),
      closeBrackets(),
      highlightActiveLine(),
      highlightSelectionMatches(),
      lintGutter(),
      linter((view) => checkYaml(view.state.doc.toString(), schemas, schema), { delay: 300 }),
      autocompletion(schemas && schema ? { override: [yamlCompletion(schemas, schema)] } : {}),
      keymap.of([...completionKeymap, ...defaultKeymap, ...historyKeymap, ...searchKeymap, ...lintKeymap]),
      EditorView.updateListener.of((update) => {
        if (update.docChanged) onChange(update.state.doc.toString());
      }),
    );
  } else {
    extensions.push(
      EditorState.readOnly.of(true),
      EditorView.contentAttributes.of({ tabindex: "0" }),
      EditorView.editable.of(false),
      keymap.of([...defaultKeymap, ...searchKeymap]),
    );
  }
  return open(host, text, extensions);
}

/** Show the difference of two texts; unchanged lines are folded. */
export function openDiff(host: HTMLElement, before: string, after: string, label: string): EditorView {
  return open(host, after, [
    ...SHARED,
    EditorState.readOnly.of(true),
    EditorView.editable.of(false),
    EditorView.contentAttributes.of({ "aria-label": label, tabindex: "0" }),
    unifiedMergeView({ original: before, mergeControls: false, collapseUnchanged: { margin: 3, minSize: 6 } }),
  ]);
}

function open(host: HTMLElement, text: string, extensions: Extension[]): EditorView {
  const root = rootOf(host);
  return new EditorView({ doc: text, extensions, parent: root, root });
}
