// The tags of a template: names of its builds.
import { useState } from 'preact/hooks';
import { del, post } from '../../lib/api';
import { age, dateTime } from '../../lib/format';
import { shortName, type Build, type Tag, type Template } from '../../lib/templates';
import { Button, Card, ErrorNote, Field, Writable } from '../../ui/basics';
import { confirm } from '../../ui/dialog';
import { Form } from '../../ui/form';
import { toast } from '../../ui/toast';

interface Props {
  template: Template;
  tags: Tag[];
  builds: Build[];
  error: string | null;
  onChange: () => void;
}

export function TagCard({ template, tags, builds, error, onChange }: Props) {
  const name = shortName(template);
  const ready = builds.filter((build) => build.status === 'ready' || build.status === 'uploaded');
  const [tag, setTag] = useState('');
  const [target, setTarget] = useState('');
  const build = target || ready[0]?.buildID;
  const assign = async () => {
    await post('/templates/tags', { target: `${name}:${build}`, tags: [tag.trim()] });
    toast(`${name}:${tag.trim()} names that build.`);
    setTag('');
    onChange();
  };
  const remove = (one: string) =>
    confirm({
      title: `Remove the tag ${one}?`,
      text: `${name}:${one} then names no build. The build itself stays.`,
      action: 'Remove',
      danger: true,
      run: async () => {
        await del('/templates/tags', { name, tags: [one] });
        onChange();
      },
    });
  return (
    <Card title="Tags">
      <div class="column">
        <ErrorNote error={error} />
        {tags.length === 0 && <span class="muted">No tags yet.</span>}
        <ul class="plain-list" aria-label="Tags">
          {tags.map((one) => (
            <li class="row" key={one.tag}>
              <span class="tag">{one.tag}</span>
              <span class="mono small">{one.buildID.slice(0, 8)}</span>
              <span class="grow muted small" title={dateTime(one.createdAt)}>
                {age(one.createdAt)} ago
              </span>
              <Button write small kind="quiet" icon="close" label={`Remove the tag ${one.tag}`} onClick={() => void remove(one.tag)} />
            </li>
          ))}
        </ul>
        <Writable>
          {ready.length > 0 && (
            <Form submit="Assign" onSubmit={assign} disabled={tag.trim() === ''}>
              <div class="two">
                <Field label="New tag">
                  {(id) => <input id={id} value={tag} spellcheck={false} autocomplete="off" placeholder="v2" onInput={(event) => setTag(event.currentTarget.value)} />}
                </Field>
                <Field label="of build">
                  {(id) => (
                    <select id={id} value={build} onChange={(event) => setTarget(event.currentTarget.value)}>
                      {ready.map((one) => (
                        <option value={one.buildID}>
                          {one.buildID.slice(0, 8)}, {age(one.createdAt)} ago
                        </option>
                      ))}
                    </select>
                  )}
                </Field>
              </div>
            </Form>
          )}
        </Writable>
      </div>
    </Card>
  );
}
