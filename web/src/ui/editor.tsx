// A text editor (CodeMirror). A chunk of its own: import Editor from './lazy'. Its languages are the
// small stream parsers; those with a full grammar cost more than the rest of the page.
import { defaultKeymap, history, historyKeymap, indentWithTab } from '@codemirror/commands';
import { bracketMatching, HighlightStyle, indentOnInput, StreamLanguage, syntaxHighlighting } from '@codemirror/language';
import { javascript, json, typescript } from '@codemirror/legacy-modes/mode/javascript';
import { dockerFile } from '@codemirror/legacy-modes/mode/dockerfile';
import { python } from '@codemirror/legacy-modes/mode/python';
import { shell } from '@codemirror/legacy-modes/mode/shell';
import { toml } from '@codemirror/legacy-modes/mode/toml';
import { yaml } from '@codemirror/legacy-modes/mode/yaml';
import { highlightSelectionMatches, search, searchKeymap } from '@codemirror/search';
import { Compartment, EditorState, type Extension } from '@codemirror/state';
import { drawSelection, EditorView, highlightActiveLine, highlightActiveLineGutter, keymap, lineNumbers, placeholder } from '@codemirror/view';
import { tags } from '@lezer/highlight';
import { useEffect, useRef } from 'preact/hooks';
import { nonce } from '../lib/nonce';

const LANGUAGES = { python, javascript, typescript, json, shell, yaml, toml, dockerfile: dockerFile } as const;
export type Language = keyof typeof LANGUAGES;

export interface EditorProps {
  label: string;
  value: string;
  onChange?: (text: string) => void;
  /** Ctrl-Enter or Shift-Enter. */
  onRun?: () => void;
  /** Ctrl-S. */
  onSave?: () => void;
  language?: Language;
  readOnly?: boolean;
  lineNumbers?: boolean;
  placeholder?: string;
  /** CSS heights; without them it is as high as its text. */
  height?: string;
  minHeight?: string;
  maxHeight?: string;
}

const colors = HighlightStyle.define([
  { tag: [tags.keyword, tags.operatorKeyword, tags.controlKeyword], color: 'var(--violet)' },
  { tag: [tags.string, tags.special(tags.string)], color: 'var(--ok)' },
  { tag: [tags.number, tags.bool, tags.null, tags.atom], color: 'var(--warn)' },
  { tag: tags.comment, color: 'var(--faint)', fontStyle: 'italic' },
  { tag: [tags.propertyName, tags.definition(tags.variableName), tags.function(tags.variableName)], color: 'var(--info)' },
  { tag: [tags.typeName, tags.className, tags.standard(tags.variableName)], color: 'var(--accent)' },
  { tag: tags.invalid, color: 'var(--bad)' },
]);

const look = EditorView.theme({
  '&': { backgroundColor: 'transparent', color: 'var(--text)', fontSize: '12.5px' },
  '&.cm-focused': { outline: 'none' },
  '.cm-scroller': { fontFamily: 'var(--mono)', lineHeight: '1.55' },
  '.cm-content': { caretColor: 'var(--accent)', padding: '6px 0' },
  '.cm-cursor': { borderLeftColor: 'var(--accent)' },
  '.cm-gutters': { backgroundColor: 'var(--bg)', color: 'var(--faint)', border: 'none' },
  '.cm-activeLine, .cm-activeLineGutter': { backgroundColor: 'color-mix(in srgb, var(--text) 5%, transparent)' },
  '.cm-selectionBackground, &.cm-focused > .cm-scroller > .cm-selectionLayer .cm-selectionBackground': {
    backgroundColor: 'color-mix(in srgb, var(--accent) 28%, transparent)',
  },
  '.cm-searchMatch, .cm-selectionMatch': { backgroundColor: 'color-mix(in srgb, var(--warn) 35%, transparent)' },
  '.cm-matchingBracket': { backgroundColor: 'var(--active)', outline: '1px solid var(--border-strong)' },
  '.cm-panels': { backgroundColor: 'var(--raised)', color: 'var(--text)' },
  '.cm-panels input, .cm-panels button': {
    backgroundColor: 'var(--bg)',
    backgroundImage: 'none',
    border: '1px solid var(--border-strong)',
    borderRadius: '4px',
    color: 'var(--text)',
  },
});

function heights(props: EditorProps): Extension {
  const own: Record<string, string> = {};
  if (props.height) own.height = props.height;
  if (props.maxHeight) own.maxHeight = props.maxHeight;
  const scroller: Record<string, string> = { overflow: 'auto' };
  if (props.minHeight) scroller.minHeight = props.minHeight;
  return EditorView.theme({ '&': own, '.cm-scroller': scroller });
}

/* Typing over a selection: the browser would keep the look of the old text by a style attribute,
 * which the Content-Security-Policy refuses. */
const typeOver = EditorView.domEventHandlers({
  beforeinput(event, view) {
    if (event.inputType !== 'insertText' || event.data === null || view.composing || view.state.readOnly || view.state.selection.main.empty) return false;
    event.preventDefault();
    view.dispatch(view.state.replaceSelection(event.data), { userEvent: 'input.type', scrollIntoView: true });
    return true;
  },
});

const TOLD_MAX = 100;

function extensions(props: EditorProps, latest: { current: EditorProps }, language: Compartment, told: string[]): Extension[] {
  const call = (name: 'onRun' | 'onSave') => () => {
    const run = latest.current[name];
    run?.();
    return run !== undefined;
  };
  return [
    EditorView.cspNonce.of(nonce),
    props.lineNumbers === false ? [] : [lineNumbers(), highlightActiveLineGutter()],
    history(),
    drawSelection(),
    typeOver,
    indentOnInput(),
    bracketMatching(),
    highlightActiveLine(),
    highlightSelectionMatches(),
    search({ top: true }),
    keymap.of([
      { key: 'Mod-Enter', run: call('onRun') },
      { key: 'Shift-Enter', run: call('onRun') },
      { key: 'Mod-s', run: call('onSave'), preventDefault: true },
      ...defaultKeymap,
      ...searchKeymap,
      ...historyKeymap,
      indentWithTab,
    ]),
    syntaxHighlighting(colors),
    language.of(props.language ? StreamLanguage.define(LANGUAGES[props.language]) : []),
    props.placeholder ? placeholder(props.placeholder) : [],
    EditorState.readOnly.of(props.readOnly === true),
    EditorView.contentAttributes.of({ 'aria-label': props.label }),
    EditorView.updateListener.of((update) => {
      if (!update.docChanged) return;
      const text = update.state.doc.toString();
      told.push(text);
      if (told.length > TOLD_MAX) told.shift();
      latest.current.onChange?.(text);
    }),
    look,
    heights(props),
  ];
}

export default function Editor(props: EditorProps) {
  const box = useRef<HTMLDivElement>(null);
  const view = useRef<EditorView | null>(null);
  const latest = useRef(props);
  const language = useRef(new Compartment());
  // What was told to the page and has not come back as `value` yet. Somebody who types is faster
  // than the page draws: an old value that comes back must not undo what was typed since.
  const told = useRef<string[]>([]);
  latest.current = props;
  useEffect(() => {
    const made = new EditorView({
      parent: box.current!,
      state: EditorState.create({ doc: props.value, extensions: extensions(props, latest, language.current, told.current) }),
    });
    view.current = made;
    return () => made.destroy();
  }, [props.readOnly]);
  useEffect(() => {
    const now = view.current;
    const at = told.current.lastIndexOf(props.value);
    told.current.splice(0, at < 0 ? told.current.length : at + 1);
    if (at < 0 && now && now.state.doc.toString() !== props.value) {
      now.dispatch({ changes: { from: 0, to: now.state.doc.length, insert: props.value } });
    }
  }, [props.value]);
  useEffect(() => {
    const next = props.language ? StreamLanguage.define(LANGUAGES[props.language]) : [];
    view.current?.dispatch({ effects: language.current.reconfigure(next) });
  }, [props.language]);
  return <div class="editor" data-keys="own" ref={box} />;
}
