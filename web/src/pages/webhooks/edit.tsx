// The dialog that makes or changes a webhook.
import { useState } from 'preact/hooks';
import { patch, path, post } from '../../lib/api';
import { Button, Field } from '../../ui/basics';
import { Dialog } from '../../ui/dialog';
import { Form } from '../../ui/form';
import { toast } from '../../ui/toast';

export interface Webhook {
  id: string;
  name: string;
  url: string;
  enabled: boolean;
  events: string[];
  createdAt: string;
}

export const TYPES: [string, string][] = [
  ['sandbox.lifecycle.created', 'A sandbox was created'],
  ['sandbox.lifecycle.updated', 'Its time or settings changed'],
  ['sandbox.lifecycle.paused', 'It was paused'],
  ['sandbox.lifecycle.resumed', 'It was resumed'],
  ['sandbox.lifecycle.snapshotted', 'A snapshot was made of it'],
  ['sandbox.lifecycle.checkpointed', 'A snapshot was made of it, as some clients call it'],
  ['sandbox.lifecycle.forked', 'It was forked'],
  ['sandbox.lifecycle.killed', 'It ended'],
  ['sandbox.shell.called', 'It used an API shell'],
];

/** "sandbox.lifecycle.created": created. */
export const shortType = (type: string): string => type.replace(/^sandbox\.(lifecycle\.)?/, '');

const SECRET_BYTES = 24;
const randomSecret = () => [...crypto.getRandomValues(new Uint8Array(SECRET_BYTES))].map((byte) => byte.toString(16).padStart(2, '0')).join('');

export function EditWebhook({ hook, onClose, onDone }: { hook: Webhook | null; onClose: () => void; onDone: (hook: Webhook) => void }) {
  const [name, setName] = useState(hook?.name ?? '');
  const [url, setUrl] = useState(hook?.url ?? 'https://');
  const [events, setEvents] = useState(hook?.events ?? TYPES.map(([type]) => type).filter((type) => !type.includes('shell')));
  const [secret, setSecret] = useState('');
  const [shown, setShown] = useState(false);
  const save = async () => {
    const body = { name: name.trim(), url: url.trim(), events, signatureSecret: secret || undefined };
    const made = hook ? await patch<Webhook>(path`/events/webhooks/${hook.id}`, body) : await post<Webhook>('/events/webhooks', body);
    toast(hook ? `${made.name} is changed.` : `${made.name} is there.`);
    onDone(made);
    onClose();
  };
  const toggle = (type: string, on: boolean) => setEvents(TYPES.map(([one]) => one).filter((one) => (one === type ? on : events.includes(one))));
  return (
    <Dialog title={hook ? `Change ${hook.name}` : 'Create a webhook'} onClose={onClose}>
      <Form submit={hook ? 'Change' : 'Create'} onSubmit={save} onCancel={onClose} disabled={name.trim() === '' || url.trim() === '' || events.length === 0 || (!hook && secret === '')}>
        <Field label="Name">{(id) => <input id={id} value={name} autocomplete="off" onInput={(event) => setName(event.currentTarget.value)} />}</Field>
        <Field label="Address" hint="Events are sent there with POST, as JSON.">
          {(id, hint) => <input id={id} aria-describedby={hint} value={url} spellcheck={false} autocomplete="off" onInput={(event) => setUrl(event.currentTarget.value)} />}
        </Field>
        <fieldset class="plain">
          <legend class="label">Events</legend>
          <div class="checks">
            {TYPES.map(([type, label]) => (
              <label class="check" key={type} title={type}>
                <input type="checkbox" checked={events.includes(type)} onChange={(event) => toggle(type, event.currentTarget.checked)} />
                {label}
              </label>
            ))}
          </div>
        </fieldset>
        <Field label="Signature secret" hint={hook ? 'Empty: it stays as it is. It is never shown.' : 'Needed: it signs each delivery, so that the receiver knows it is ours. It is never shown again: copy it now.'}>
          {(id, hint) => (
            <div class="row">
              <input
                id={id}
                class="grow"
                type={shown ? 'text' : 'password'}
                aria-describedby={hint}
                value={secret}
                spellcheck={false}
                autocomplete="new-password"
                onInput={(event) => setSecret(event.currentTarget.value)}
              />
              <Button
                onClick={() => {
                  setSecret(randomSecret());
                  setShown(true);
                }}
              >
                Make one
              </Button>
            </div>
          )}
        </Field>
      </Form>
    </Dialog>
  );
}
