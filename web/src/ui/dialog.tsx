// Dialogs are the browser's own: it keeps the focus inside, closes them with Escape and gives the
// focus back. `ask` and `confirm` open one from anywhere; <Dialogs/> in the shell shows them.
import { signal } from '@preact/signals';
import type { ComponentChildren } from 'preact';
import { useEffect, useId, useRef } from 'preact/hooks';
import { Button } from './basics';
import { Form } from './form';

interface DialogProps {
  title: string;
  onClose: () => void;
  wide?: boolean;
  children: ComponentChildren;
}

export function Dialog({ title, onClose, wide, children }: DialogProps) {
  const box = useRef<HTMLDialogElement>(null);
  const id = useId();
  useEffect(() => {
    const dialog = box.current!;
    const before = document.activeElement;
    dialog.showModal();
    // The browser would take the first button, which closes it: Enter would do nothing but that.
    const body = dialog.querySelector('.dialog-body');
    (body?.querySelector<HTMLElement>('input, select, textarea') ?? body?.querySelector<HTMLElement>('button'))?.focus();
    return () => {
      dialog.close();
      if (before instanceof HTMLElement && before.isConnected) before.focus();
    };
  }, []);
  return (
    <dialog
      ref={box}
      class={`dialog ${wide ? 'wide' : ''}`}
      aria-labelledby={id}
      onCancel={(event) => {
        event.preventDefault();
        onClose();
      }}
      onMouseDown={(event) => event.target === box.current && onClose()}
    >
      <div class="dialog-head">
        <h2 id={id}>{title}</h2>
        <Button kind="quiet" icon="close" label="Close" onClick={onClose} />
      </div>
      <div class="dialog-body">{children}</div>
    </dialog>
  );
}

interface Question {
  title: string;
  text: ComponentChildren;
  action: string;
  danger?: boolean;
  /** Does it; what it throws is shown in the dialog. Without it, confirm() only answers. */
  run?: () => Promise<void>;
}

const open = signal<{ question: Question; answer: (yes: boolean) => void } | null>(null);

/** Asks before something is done. True when it was confirmed (and done, with `run`). */
export function confirm(question: Question): Promise<boolean> {
  open.value?.answer(false);
  return new Promise((resolve) => {
    open.value = {
      question,
      answer: (yes) => {
        open.value = null;
        resolve(yes);
      },
    };
  });
}

export function Dialogs() {
  const now = open.value;
  if (!now) return null;
  const { question, answer } = now;
  return (
    <Dialog title={question.title} onClose={() => answer(false)}>
      <Form
        submit={question.action}
        danger={question.danger}
        onCancel={() => answer(false)}
        onSubmit={async () => {
          await question.run?.();
          answer(true);
        }}
      >
        <div>{question.text}</div>
      </Form>
    </Dialog>
  );
}
