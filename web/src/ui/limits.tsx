// Fields for the limits of a team or a key, and a short text of them.
import { count, megabytes } from '../lib/format';
import { LIMITS, type Limits, type LimitTexts } from '../lib/limits';
import { Field } from './basics';

export function LimitFields({ value, onChange }: { value: LimitTexts; onChange: (next: LimitTexts) => void }) {
  return (
    <fieldset class="plain">
      <legend class="label">Limits, each empty for none</legend>
      <div class="limit-fields">
        {LIMITS.map(([name, label]) => (
          <Field label={label} key={name}>
            {(id) => (
              <input id={id} type="number" min={0} step={1} value={value[name]} placeholder="none" onInput={(event) => onChange({ ...value, [name]: event.currentTarget.value })} />
            )}
          </Field>
        ))}
      </div>
    </fieldset>
  );
}

const one = (name: keyof Limits, value: number): string =>
  name === 'memoryMB' || name === 'diskMB' ? `${megabytes(value)} ${name === 'memoryMB' ? 'memory' : 'disk'}` : `${count(value)} ${name === 'cpus' ? 'CPUs' : name}`;

export const limitsText = (limits: Limits | undefined): string =>
  LIMITS.flatMap(([name]) => (limits?.[name] === null || limits?.[name] === undefined ? [] : [one(name, limits[name])])).join(', ') || 'none';
