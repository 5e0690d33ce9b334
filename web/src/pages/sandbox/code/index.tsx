// Cells of code that run in the sandbox's interpreter, with what they make.
import { signal, type Signal } from '@preact/signals';
import { useEffect, useState } from 'preact/hooks';
import { sentence } from '../../../lib/api';
import type { Language } from '../../../ui/editor';
import { Button, EmptyState, ErrorNote, Field, Spinner } from '../../../ui/basics';
import { Dialog } from '../../../ui/dialog';
import { Form } from '../../../ui/form';
import { Editor } from '../../../ui/lazy';
import { attempt } from '../../../ui/toast';
import type { Box } from '../box';
import { Outputs } from './output';
import { contexts, isMissing, newCell, newContext, remove, restart, run, type Cell, type Context } from './run';

interface Notebook {
  cells: Signal<Cell[]>;
  contexts: Signal<Context[] | null>;
}

const kept = new WeakMap<Box, Notebook>();

function notebookOf(box: Box): Notebook {
  let found = kept.get(box);
  if (!found) kept.set(box, (found = { cells: signal([]), contexts: signal(null) }));
  return found;
}

const LANGUAGES = ['python', 'javascript', 'typescript', 'r', 'java', 'bash'];
const EDITED: Record<string, Language> = { python: 'python', javascript: 'javascript', typescript: 'typescript', bash: 'shell' };
const FIRST = "import pandas as pd\npd.DataFrame({'n': range(5), 'square': [n * n for n in range(5)]})";

function label(all: Context[], context: Context): string {
  const same = all.filter((other) => other.language === context.language);
  return same.length > 1 ? `${context.language} ${same.indexOf(context) + 1}` : context.language;
}

function CellView({ box, cell, all, notebook }: { box: Box; cell: Cell; all: Context[]; notebook: Notebook }) {
  const running = cell.running.value;
  const language = all.find((context) => context.id === cell.context.value)?.language ?? '';
  const index = notebook.cells.value.indexOf(cell);
  const go = () => {
    void run(box, cell);
    if (index === notebook.cells.value.length - 1) notebook.cells.value = [...notebook.cells.value, newCell(cell.context.value)];
  };
  return (
    <section class="cell" aria-label={`Cell ${index + 1}`}>
      <div class="cell-bar">
        <span class="faint mono small" aria-label="Number of the execution">
          [{running ? '*' : (cell.number.value ?? ' ')}]
        </span>
        <select class="input" aria-label="Runs in" value={cell.context.value} onChange={(event) => (cell.context.value = event.currentTarget.value)}>
          {all.map((context) => (
            <option value={context.id}>{label(all, context)}</option>
          ))}
        </select>
        <span class="grow" />
        {running ? (
          <Button small icon="stop" onClick={() => running.abort()}>
            Interrupt
          </Button>
        ) : (
          <Button small kind="primary" icon="play" onClick={go}>
            Run
          </Button>
        )}
        <Button
          small
          kind="quiet"
          icon="trash"
          label={`Remove cell ${index + 1}`}
          onClick={() => {
            running?.abort();
            notebook.cells.value = notebook.cells.value.filter((other) => other !== cell);
          }}
        />
      </div>
      <Editor
        label={`Code of cell ${index + 1}`}
        value={cell.code.value}
        onChange={(text) => (cell.code.value = text)}
        onRun={go}
        language={EDITED[language]}
        placeholder="Shift-Enter runs the cell"
        minHeight="56px"
        maxHeight="420px"
      />
      {cell.outputs.value.length > 0 && (
        <div class="cell-out" role="region" aria-label={`Output of cell ${index + 1}`} aria-live="polite" tabIndex={0}>
          <Outputs outputs={cell.outputs.value} />
        </div>
      )}
    </section>
  );
}

function NewContext({ box, onClose, onMade }: { box: Box; onClose: () => void; onMade: (context: Context) => void }) {
  const [language, setLanguage] = useState('python');
  const [cwd, setCwd] = useState('/home/user');
  return (
    <Dialog title="New context" onClose={onClose}>
      <Form
        submit="Make it"
        onCancel={onClose}
        onSubmit={async () => {
          onMade(await newContext(box, language.trim(), cwd.trim() || undefined));
          onClose();
        }}
      >
        <div class="muted">A context keeps its variables apart from those of other contexts.</div>
        <div class="two">
          <Field label="Language">
            {(id) => (
              <>
                <input id={id} list={`${id}-names`} value={language} spellcheck={false} onInput={(event) => setLanguage(event.currentTarget.value)} />
                <datalist id={`${id}-names`}>
                  {LANGUAGES.map((name) => (
                    <option value={name} />
                  ))}
                </datalist>
              </>
            )}
          </Field>
          <Field label="Directory">{(id) => <input id={id} value={cwd} spellcheck={false} onInput={(event) => setCwd(event.currentTarget.value)} />}</Field>
        </div>
      </Form>
    </Dialog>
  );
}

function Contexts({ box, notebook, all, onChange }: { box: Box; notebook: Notebook; all: Context[]; onChange: () => Promise<void> }) {
  const [at, setAt] = useState(all[0]?.id ?? '');
  const [asking, setAsking] = useState(false);
  const [busy, setBusy] = useState(false);
  const act = async (action: () => Promise<unknown>, done: string) => {
    setBusy(true);
    await attempt(action, done);
    await onChange();
    setBusy(false);
  };
  const chosen = all.find((context) => context.id === at) ?? all[0];
  return (
    <div class="row wrap">
      <select class="input" aria-label="Context" value={chosen?.id} onChange={(event) => setAt(event.currentTarget.value)}>
        {all.map((context) => (
          <option value={context.id}>
            {label(all, context)} in {context.cwd}
          </option>
        ))}
      </select>
      <Button small icon="plus" onClick={() => setAsking(true)}>
        New context
      </Button>
      {chosen && (
        <>
          <Button small icon="refresh" busy={busy} onClick={() => act(() => restart(box, chosen.id), 'Restarted: its variables are gone.')}>
            Restart
          </Button>
          <Button small kind="quiet" icon="trash" label="Remove the context" disabled={busy || all.length < 2} onClick={() => act(() => remove(box, chosen.id), 'Removed.')} />
        </>
      )}
      <span class="grow" />
      <Button
        small
        icon="play"
        onClick={async () => {
          for (const cell of notebook.cells.value) if (cell.code.value.trim()) await run(box, cell);
        }}
      >
        Run all
      </Button>
      <Button small icon="plus" onClick={() => (notebook.cells.value = [...notebook.cells.value, newCell(chosen?.id ?? '')])}>
        Cell
      </Button>
      {asking && (
        <NewContext
          box={box}
          onClose={() => setAsking(false)}
          onMade={(context) => {
            setAt(context.id);
            notebook.cells.value = [...notebook.cells.value, newCell(context.id)];
            void onChange();
          }}
        />
      )}
    </div>
  );
}

export default function CodeTab({ box }: { box: Box }) {
  const notebook = notebookOf(box);
  const [missing, setMissing] = useState(false);
  const [error, setError] = useState<string | null>(null);
  const load = async () => {
    try {
      const all = await contexts(box);
      notebook.contexts.value = all;
      if (notebook.cells.value.length === 0 && all[0]) {
        const first = all.find((context) => context.language === 'python') ?? all[0];
        notebook.cells.value = [newCell(first.id, first.language === 'python' ? FIRST : '')];
      }
      for (const cell of notebook.cells.value) {
        if (!all.some((context) => context.id === cell.context.value) && all[0]) cell.context.value = all[0].id;
      }
      setError(null);
    } catch (thrown) {
      if (isMissing(thrown)) setMissing(true);
      setError(sentence(thrown));
    }
  };
  useEffect(() => void load(), []);
  const all = notebook.contexts.value;
  if (missing) {
    return (
      <EmptyState title="This sandbox has no code interpreter" line="atoll run -it --template code-interpreter-v1 bash">
        Its template is {box.detail.value?.alias ?? box.detail.value?.templateID}. Sandboxes of the template <code>code-interpreter-v1</code> have one: create
        one in the list of sandboxes, or on the command line:
      </EmptyState>
    );
  }
  if (!all) return error ? <ErrorNote error={error} /> : <Spinner label="Asking the interpreter" />;
  return (
    <div class="scroll-panel">
      <ErrorNote error={error} />
      <Contexts box={box} notebook={notebook} all={all} onChange={load} />
      <div class="cells">
        {notebook.cells.value.map((cell) => (
          <CellView key={cell.key} box={box} cell={cell} all={all} notebook={notebook} />
        ))}
      </div>
    </div>
  );
}
