// What a tool answered: texts as they are, lists of objects as tables, pictures as pictures. All of
// it is text nodes and <img>: what a sandbox wrote stays what it is.
import type { ComponentChildren } from 'preact';
import { useState } from 'preact/hooks';
import { count } from '../../lib/format';
import { JsonView } from '../../ui/json';
import { Tabs } from '../../ui/tabs';

const ROWS_MAX = 200;
const DEPTH_MAX = 6;
const PICTURES: Record<string, string> = { png: 'image/png', jpeg: 'image/jpeg', jpg: 'image/jpeg', gif: 'image/gif', webp: 'image/webp' };

const isObject = (value: unknown): value is Record<string, unknown> => typeof value === 'object' && value !== null && !Array.isArray(value);
const isBase64 = (text: string) => /^[A-Za-z0-9+/\s]+=*\s*$/.test(text.slice(0, 400));

function pictureOf(name: string, value: unknown): string | null {
  if (typeof value !== 'string') return null;
  if (/^data:image\/(png|jpeg|gif|webp|svg\+xml);base64,/.test(value)) return value;
  const type = PICTURES[name];
  return type && value.length > 60 && isBase64(value) ? `data:${type};base64,${value}` : null;
}

function Rows({ list, depth }: { list: Record<string, unknown>[]; depth: number }) {
  const names = [...new Set(list.flatMap((row) => Object.keys(row)))];
  return (
    <div class="result-table" tabIndex={0}>
      <table>
        <thead>
          <tr>
            {names.map((name) => (
              <th scope="col">{name}</th>
            ))}
          </tr>
        </thead>
        <tbody>
          {list.slice(0, ROWS_MAX).map((row) => (
            <tr>
              {names.map((name) => (
                <td>
                  <Part name={name} value={row[name]} depth={depth + 1} />
                </td>
              ))}
            </tr>
          ))}
        </tbody>
      </table>
      {list.length > ROWS_MAX && <p class="muted">{count(list.length - ROWS_MAX)} more are in the JSON.</p>}
    </div>
  );
}

function Part({ name, value, depth }: { name: string; value: unknown; depth: number }): ComponentChildren {
  if (value === null || value === undefined) return <span class="faint">–</span>;
  const picture = pictureOf(name, value);
  if (picture) return <img class="result-picture" src={picture} alt={`Picture: ${name}`} />;
  if (typeof value === 'string') return value.includes('\n') || value.length > 120 ? <pre class="result-text">{value}</pre> : <span>{value === '' ? '–' : value}</span>;
  if (typeof value !== 'object') return <span class="num">{String(value)}</span>;
  if (depth >= DEPTH_MAX) return <code>{JSON.stringify(value)}</code>;
  if (Array.isArray(value)) {
    if (value.length === 0) return <span class="faint">none</span>;
    if (value.every(isObject)) return <Rows list={value} depth={depth} />;
    if (value.every((one) => typeof one === 'string')) {
      return value.some((one) => one.includes('\n')) ? <pre class="result-text">{value.join('')}</pre> : <span>{value.join(', ')}</span>;
    }
    return <code>{JSON.stringify(value)}</code>;
  }
  return <Entries value={value as Record<string, unknown>} depth={depth + 1} />;
}

function Entries({ value, depth }: { value: Record<string, unknown>; depth: number }) {
  return (
    <dl class="facts result">
      {Object.entries(value).map(([name, one]) => (
        <>
          <dt>{name}</dt>
          <dd>
            <Part name={name} value={one} depth={depth} />
          </dd>
        </>
      ))}
    </dl>
  );
}

export function ResultView({ value }: { value: unknown }) {
  const [at, setAt] = useState('read');
  return (
    <div class="column">
      <Tabs
        label="How the result is shown"
        tabs={[
          { id: 'read', label: 'Result' },
          { id: 'json', label: 'JSON' },
        ]}
        at={at}
        onChange={setAt}
      />
      <div role="tabpanel" aria-labelledby={`tab-${at}`}>
        {at === 'json' ? <JsonView value={value} label="The answer as JSON" /> : isObject(value) ? <Entries value={value} depth={0} /> : <Part name="" value={value} depth={0} />}
      </div>
    </div>
  );
}
