// The dialog that creates a sandbox.
import { useEffect, useState } from 'preact/hooks';
import { navigate } from 'wouter-preact/use-hash-location';
import { get, post } from '../../lib/api';
import { Field } from '../../ui/basics';
import { Dialog } from '../../ui/dialog';
import { Form, fromPairs, Pairs, type Pair } from '../../ui/form';
import { toast } from '../../ui/toast';

interface Template {
  templateID: string;
  names?: string[];
  aliases?: string[];
  buildStatus?: string;
}

type Net = 'open' | 'some' | 'closed';

const TIMEOUTS: [number, string][] = [
  [300, '5 minutes'],
  [900, '15 minutes'],
  [3600, '1 hour'],
  [4 * 3600, '4 hours'],
  [24 * 3600, '24 hours'],
];

const nameOf = (template: Template) => template.names?.[0] ?? template.aliases?.[0] ?? template.templateID;
const words = (text: string) => text.split(/[\s,]+/).filter(Boolean);

/* What the choice means to the API: a list of what is allowed needs everything else denied. */
function network(net: Net, allowed: string): Record<string, unknown> {
  if (net === 'closed') return { allow_internet_access: false };
  if (net === 'some') return { network: { allowOut: words(allowed), denyOut: ['0.0.0.0/0'] } };
  return {};
}

export function Create({ onClose, template }: { onClose: () => void; template?: string }) {
  const [templates, setTemplates] = useState<string[]>([]);
  const [name, setName] = useState(template ?? 'base');
  const [timeout, setTimeoutS] = useState(900);
  const [atEnd, setAtEnd] = useState<'kill' | 'pause'>('kill');
  const [metadata, setMetadata] = useState<Pair[]>([]);
  const [env, setEnv] = useState<Pair[]>([]);
  const [net, setNet] = useState<Net>('open');
  const [allowed, setAllowed] = useState('');
  useEffect(() => {
    get<Template[]>('/templates').then(
      (list) => setTemplates([...new Set(list.map(nameOf))]),
      () => {}, // a name can be typed all the same
    );
  }, []);
  const create = async () => {
    const made = await post<{ sandboxID: string }>('/v2/sandboxes', {
      templateID: name.trim(),
      timeout,
      autoPause: atEnd === 'pause' || undefined,
      metadata: fromPairs(metadata),
      envVars: fromPairs(env),
      ...network(net, allowed),
    });
    onClose();
    toast(`Sandbox ${made.sandboxID} runs.`);
    navigate(`/sandboxes/${encodeURIComponent(made.sandboxID)}`);
  };
  return (
    <Dialog title="Create a sandbox" onClose={onClose}>
      <Form submit="Create" onSubmit={create} onCancel={onClose} disabled={name.trim() === ''}>
        <Field label="Template" hint="A name or an id, with or without :tag.">
          {(id, hint) => (
            <>
              <input
                id={id}
                aria-describedby={hint}
                list={`${id}-names`}
                value={name}
                spellcheck={false}
                autocomplete="off"
                onInput={(event) => setName(event.currentTarget.value)}
              />
              <datalist id={`${id}-names`}>
                {templates.map((known) => (
                  <option value={known} />
                ))}
              </datalist>
            </>
          )}
        </Field>
        <div class="two">
          <Field label="Runs for">
            {(id) => (
              <select id={id} value={timeout} onChange={(event) => setTimeoutS(Number(event.currentTarget.value))}>
                {TIMEOUTS.map(([seconds, label]) => (
                  <option value={seconds}>{label}</option>
                ))}
              </select>
            )}
          </Field>
          <Field label="Then">
            {(id) => (
              <select id={id} value={atEnd} onChange={(event) => setAtEnd(event.currentTarget.value as 'kill' | 'pause')}>
                <option value="kill">it is killed</option>
                <option value="pause">it is paused</option>
              </select>
            )}
          </Field>
        </div>
        <Pairs label="Metadata" value={metadata} onChange={setMetadata} />
        <Pairs label="Environment" value={env} onChange={setEnv} />
        <Field label="Network">
          {(id) => (
            <select id={id} value={net} onChange={(event) => setNet(event.currentTarget.value as Net)}>
              <option value="open">The internet</option>
              <option value="some">Only some addresses and domains</option>
              <option value="closed">Nothing outside</option>
            </select>
          )}
        </Field>
        {net === 'some' && (
          <Field label="It may reach" hint="Addresses, blocks and domains, separated by spaces: pypi.org *.pythonhosted.org 10.0.0.0/8">
            {(id, hint) => (
              <input id={id} aria-describedby={hint} spellcheck={false} value={allowed} onInput={(event) => setAllowed(event.currentTarget.value)} />
            )}
          </Field>
        )}
      </Form>
    </Dialog>
  );
}
