// How programs reach this daemon, and what is kept in this browser.
import { get } from '../lib/api';
import { dateTime } from '../lib/format';
import { useLoad } from '../lib/load';
import { session } from '../lib/session';
import { choice, choose, type Choice } from '../lib/theme';
import { Card, CopyLine, Facts, Note, PageHead, StateBadge } from '../ui/basics';

interface Health {
  status: string;
  version: string;
  degraded: { what: string; message: string }[];
}

const THEMES: [Choice, string][] = [
  ['system', 'as the system'],
  ['light', 'light'],
  ['dark', 'dark'],
];
const AGAIN_MS = 15_000;

function environment(): string {
  const domain = session.value?.domain;
  const url = location.origin;
  return [
    ...(domain ? [`export E2B_DOMAIN='${domain}'`] : []),
    `export E2B_API_KEY='YOUR_API_KEY'`,
    `export E2B_API_URL='${url}'`,
    `export E2B_SANDBOX_URL='${url}'`,
    `export E2B_VOLUME_API_URL='${url}'`,
  ].join('\n');
}

export default function Settings() {
  const who = session.value!;
  const health = useLoad((signal) => get<Health>('/health', undefined, { signal, headers: { Accept: 'application/json' } }), [], AGAIN_MS);
  return (
    <div class="page">
      <PageHead title="Help and settings" />
      <div class="grid wide">
        <Card title="Use it from a program">
          <div class="column">
            <p>On the machine of the daemon, one line sets everything, the key included:</p>
            <CopyLine block text={'eval "$(atoll env)"'} />
            <p>
              Elsewhere, with <a href="#/keys">a key</a> in place of YOUR_API_KEY:
            </p>
            <CopyLine block text={environment()} />
            <p class="muted">
              The official SDKs then work as they are. A daemon with a certificate of its own also needs <code>SSL_CERT_FILE</code> for names below the domain:{' '}
              <code>atoll env</code> prints it.
            </p>
          </div>
        </Card>
        <Card title="First example">
          <div class="column">
            <CopyLine block text={`pip install e2b\npython3 - <<'END'\nfrom e2b import Sandbox\nwith Sandbox.create() as sandbox:\n    print(sandbox.commands.run("echo hello from $(hostname)").stdout)\nEND`} />
            <p>Without any SDK:</p>
            <CopyLine block text={'atoll run echo hello'} />
            <CopyLine block text={`curl "$E2B_API_URL/tools/run_code" -H "X-API-Key: $E2B_API_KEY" -d '{"code": "print(6 * 7)"}'`} />
          </div>
        </Card>
        <Card title="This daemon">
          <Facts
            of={[
              ['Version', who.version ?? health.data?.version],
              ['State', health.data && <StateBadge state={health.data.status === 'ok' ? 'running' : health.data.status} />],
              ['Address', <span class="mono">{location.origin}</span>],
              ['Domain of ports', who.domain && <span class="mono">{`PORT-ID.${who.domain}`}</span>],
              ['API', <a href="/openapi.json">openapi.json</a>],
            ]}
          />
          {health.data?.degraded?.map((one) => (
            <Note tone="warn" key={one.what}>
              {one.message}
            </Note>
          ))}
        </Card>
        <Card title="This session">
          <div class="column">
            <Facts
              of={[
                ['Team', who.team.name],
                ['Key', who.key.name],
                ['May', who.readOnly ? 'only read' : 'read and change'],
                ['Operator', who.operator ? 'yes' : 'no'],
                ['Ends', who.expiresAt ? `${dateTime(who.expiresAt)}, or 12 hours after its last use` : undefined],
              ]}
            />
            <fieldset class="plain">
              <legend class="label">Colours</legend>
              <div class="row wrap">
                {THEMES.map(([name, label]) => (
                  <label class="check" key={name}>
                    <input type="radio" name="theme" checked={choice.value === name} onChange={() => choose(name)} />
                    {label}
                  </label>
                ))}
              </div>
            </fieldset>
            <p class="muted">
              <kbd>?</kbd> shows the keyboard shortcuts of a page.
            </p>
          </div>
        </Card>
      </div>
    </div>
  );
}
