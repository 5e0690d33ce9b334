// A template from a Dockerfile. The page turns it into the steps of a build, as the command line
// does; what needs files beside it is left to the command line.
import { useMemo, useState } from 'preact/hooks';
import { navigate } from 'wouter-preact/use-hash-location';
import { keepDockerfile, keptDockerfile, requestBuild, startBuild } from '../../lib/templates';
import { canWrite } from '../../lib/session';
import { Card, CopyLine, Field, Note, PageHead } from '../../ui/basics';
import { Form } from '../../ui/form';
import { Editor } from '../../ui/lazy';
import { DockerfileError, parse, type Built } from './dockerfile';

const FIRST = `FROM template:base

# As root. Each step is kept and taken again when it has not changed.
RUN pip install --break-system-packages requests

ENV GREETING=hello
WORKDIR /home/user
USER user
`;
const READY_WITHOUT = 'sleep 20'; // what official clients wait for a start command without a ready command
const CPUS = [1, 2, 4, 6, 8, 16, 32];
const MEMORY = [256, 512, 1024, 2048, 4096, 8192, 16384, 32768];

function tryParse(text: string): { built?: Built; error?: string } {
  try {
    return { built: parse(text) };
  } catch (error) {
    if (error instanceof DockerfileError) return { error: error.message };
    throw error;
  }
}

export default function CreateTemplate({ params }: { params: Record<string, string> }) {
  const given = params.name ? decodeURIComponent(params.name) : '';
  const kept = useMemo(() => (given ? keptDockerfile(given) : null), [given]);
  const [name, setName] = useState(given);
  const [text, setText] = useState(kept?.text ?? FIRST);
  const [cpus, setCpus] = useState(kept?.cpus ?? 2);
  const [memory, setMemory] = useState(kept?.memory ?? 1024);
  const [start, setStart] = useState(kept?.start ?? '');
  const [ready, setReady] = useState(kept?.ready ?? '');
  const [force, setForce] = useState(false);
  const { built, error } = useMemo(() => tryParse(text), [text]);

  const build = async () => {
    const fresh = parse(text);
    const startCmd = start.trim() || fresh.start;
    const made = await requestBuild({ name: name.trim(), cpuCount: cpus, memoryMB: memory });
    await startBuild(made.templateID, made.buildID, {
      fromImage: fresh.fromImage,
      fromTemplate: fresh.fromTemplate,
      steps: fresh.steps,
      startCmd,
      readyCmd: startCmd ? ready.trim() || fresh.ready || READY_WITHOUT : ready.trim() || fresh.ready,
      force: force || undefined,
    });
    keepDockerfile(name.trim(), { text, start: start.trim(), ready: ready.trim(), cpus, memory });
    navigate(`/templates/${encodeURIComponent(made.templateID)}/builds/${encodeURIComponent(made.buildID)}`);
  };
  if (!canWrite.value) {
    return (
      <div class="page">
        <PageHead title="Build a template" />
        <Note>This session may only read. Log in with a key that may change things to build a template.</Note>
      </div>
    );
  }
  return (
    <div class="page">
      <PageHead title={given ? `Build ${given} again` : 'Create a template'} />
      {given && !kept && (
        <Note>
          The daemon keeps no Dockerfiles, and this browser has none of this template. Paste it here; the last build stays as it is until the new one is
          ready.
        </Note>
      )}
      <div class="split-form">
        <Card title="Dockerfile">
          <div class="column">
            <Editor label="Dockerfile" value={text} onChange={setText} language="dockerfile" minHeight="320px" maxHeight="60vh" />
            {error && <Note tone="bad">{error}</Note>}
            {built?.notes.map((note) => (
              <Note tone="warn" key={note}>
                {note}
              </Note>
            ))}
            <p class="hint muted">
              <code>FROM template:NAME</code> starts from a template of this machine, <code>FROM image</code> from an OCI image. <code>COPY</code> needs files:
              on the command line, a directory is built as it is.
            </p>
            <CopyLine text={`atoll template build ${name.trim() || 'mine'} ./app`} />
          </div>
        </Card>
        <Card title="Settings">
          <Form submit={given ? 'Build again' : 'Build'} onSubmit={build} disabled={name.trim() === '' || !built}>
            <Field label="Name" hint="Letters a-z, digits, - and _; with :tag for a tag of its own.">
              {(id, hint) => (
                <input
                  id={id}
                  aria-describedby={hint}
                  value={name}
                  spellcheck={false}
                  autocomplete="off"
                  placeholder="mine"
                  onInput={(event) => setName(event.currentTarget.value)}
                />
              )}
            </Field>
            <div class="two">
              <Field label="CPUs">
                {(id) => (
                  <select id={id} value={cpus} onChange={(event) => setCpus(Number(event.currentTarget.value))}>
                    {CPUS.map((n) => (
                      <option value={n}>{n}</option>
                    ))}
                  </select>
                )}
              </Field>
              <Field label="Memory">
                {(id) => (
                  <select id={id} value={memory} onChange={(event) => setMemory(Number(event.currentTarget.value))}>
                    {MEMORY.map((n) => (
                      <option value={n}>{n >= 1024 ? `${n / 1024} GiB` : `${n} MiB`}</option>
                    ))}
                  </select>
                )}
              </Field>
            </div>
            <Field label="Start command" hint="Runs when the template is built, and is still running in each sandbox. CMD of the Dockerfile if empty.">
              {(id, hint) => (
                <input
                  id={id}
                  aria-describedby={hint}
                  value={start}
                  placeholder={built?.start ?? 'none'}
                  spellcheck={false}
                  onInput={(event) => setStart(event.currentTarget.value)}
                />
              )}
            </Field>
            <Field label="Ready command" hint="Ends with 0 when the start command is ready. HEALTHCHECK if empty; without both the build waits 20 s.">
              {(id, hint) => (
                <input
                  id={id}
                  aria-describedby={hint}
                  value={ready}
                  placeholder={built?.ready ?? 'none'}
                  spellcheck={false}
                  onInput={(event) => setReady(event.currentTarget.value)}
                />
              )}
            </Field>
            <label class="check">
              <input type="checkbox" checked={force} onChange={(event) => setForce(event.currentTarget.checked)} />
              Build every step anew, without the cache
            </label>
          </Form>
        </Card>
      </div>
    </div>
  );
}
