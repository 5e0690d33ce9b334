// A form made from a tool's JSON schema. The values stay texts until they are sent, so that a field
// that is empty is left out and the tool's own default holds.
import { Field } from '../../ui/basics';
import { fromPairs, Pairs, type Pair } from '../../ui/form';
import { Editor } from '../../ui/lazy';

export interface Schema {
  type?: string | string[];
  title?: string;
  description?: string;
  enum?: unknown[];
  default?: unknown;
  examples?: unknown[];
  items?: Schema;
  properties?: Record<string, Schema>;
  required?: string[];
  additionalProperties?: boolean | Schema;
  minimum?: number;
  maximum?: number;
  minLength?: number;
  maxLength?: number;
}

export type Value = string | Pair[];
export type Values = Record<string, Value>;

const LONG_CHARS = 4097; // a field that may be longer than that is a text of several lines
const typeOf = (schema: Schema): string => (Array.isArray(schema.type) ? (schema.type.find((type) => type !== 'null') ?? '') : (schema.type ?? ''));

/** What a field begins with: nothing, or what the tool cannot do without and has an example for. */
export const emptyOf = (schema: Schema): Value => (isMap(schema) ? [] : '');

const isMap = (schema: Schema) => typeOf(schema) === 'object' && typeof schema.additionalProperties === 'object' && !schema.properties;

/** What is sent for a field; undefined: it is left out. Throws a sentence. */
function read(name: string, schema: Schema, value: Value | undefined): unknown {
  if (value === undefined || value === '') return undefined;
  if (typeof value !== 'string') return fromPairs(value);
  const type = typeOf(schema);
  if (type === 'integer' || type === 'number') return Number(value);
  if (type === 'boolean') return value === 'true';
  if (type === 'string') return value;
  if (type === 'array' && schema.items && ['string', 'integer', 'number'].includes(typeOf(schema.items)) && !value.trim().startsWith('[')) {
    const lines = value.split('\n').filter((line) => line.trim() !== '');
    return typeOf(schema.items) === 'string' ? lines : lines.map(Number);
  }
  try {
    return JSON.parse(value);
  } catch {
    if (type === '') return value;
    throw new Error(`${name}: is not JSON`);
  }
}

export function inputOf(schema: Schema, values: Values): Record<string, unknown> {
  const input: Record<string, unknown> = {};
  for (const [name, field] of Object.entries(schema.properties ?? {})) {
    const value = read(name, field, values[name]);
    if (value !== undefined) input[name] = value;
  }
  return input;
}

const shown = (value: unknown): string => (typeof value === 'string' ? value : JSON.stringify(value));

function placeholderOf(schema: Schema): string {
  if (schema.default !== undefined) return shown(schema.default);
  const example = schema.examples?.[0];
  if (example === undefined) return '';
  return Array.isArray(example) ? example.map(shown).join('\n') : shown(example);
}

interface InputProps {
  name: string;
  schema: Schema;
  value: Value | undefined;
  required: boolean;
  onChange: (next: Value) => void;
  /** Sandboxes to choose from. */
  known?: string[];
}

export function SchemaField({ name, schema, value, required, onChange, known }: InputProps) {
  const label = required ? `${name} *` : name;
  const hint = schema.description;
  const text = typeof value === 'string' ? value : '';
  const type = typeOf(schema);
  if (isMap(schema)) {
    return (
      <div class="column tight">
        <Pairs label={label} value={typeof value === 'string' || value === undefined ? [] : value} onChange={onChange} />
        {hint && <span class="muted small">{hint}</span>}
      </div>
    );
  }
  if (name === 'code') {
    return (
      <div class="field">
        <span class="label">{label}</span>
        <Editor label={name} value={text} onChange={onChange} language="python" minHeight="110px" maxHeight="320px" />
        {hint && <span class="hint">{hint}</span>}
      </div>
    );
  }
  return (
    <Field label={label} hint={hint}>
      {(id, hintId) => {
        const common = { id, 'aria-describedby': hintId, 'aria-required': required, spellcheck: false, autocomplete: 'off' as const };
        if (schema.enum || type === 'boolean') {
          const choices = schema.enum ?? [true, false];
          return (
            <select {...common} value={text} onChange={(event) => onChange(event.currentTarget.value)}>
              <option value="">{schema.default !== undefined ? `${shown(schema.default)} (default)` : '–'}</option>
              {choices.map((choice) => (
                <option value={shown(choice)}>{shown(choice)}</option>
              ))}
            </select>
          );
        }
        if (type === 'integer' || type === 'number') {
          return (
            <input
              {...common}
              type="number"
              min={schema.minimum}
              max={schema.maximum}
              step={type === 'integer' ? 1 : 'any'}
              value={text}
              placeholder={placeholderOf(schema)}
              onInput={(event) => onChange(event.currentTarget.value)}
            />
          );
        }
        if (type !== 'string' || (schema.maxLength ?? 0) >= LONG_CHARS || ['content', 'text', 'input'].includes(name)) {
          const many = type === 'array' ? 'one on each line' : type === 'string' ? '' : 'JSON';
          return (
            <textarea {...common} rows={type === 'string' ? 4 : 2} value={text} placeholder={placeholderOf(schema) || many} onInput={(event) => onChange(event.currentTarget.value)} />
          );
        }
        const secret = /token|password|secret|api_key/.test(name);
        return (
          <>
            <input
              {...common}
              type={secret ? 'password' : 'text'}
              autocomplete={secret ? 'new-password' : 'off'}
              value={text}
              list={name === 'sandbox_id' && known?.length ? `${id}-known` : undefined}
              placeholder={placeholderOf(schema)}
              onInput={(event) => onChange(event.currentTarget.value)}
            />
            {name === 'sandbox_id' && known && (
              <datalist id={`${id}-known`}>
                {known.map((one) => (
                  <option value={one} />
                ))}
              </datalist>
            )}
          </>
        );
      }}
    </Field>
  );
}
