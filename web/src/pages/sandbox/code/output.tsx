// What a cell printed and made.
import type { ComponentChildren } from 'preact';
import { lazy, Suspense } from 'preact/compat';
import { useMemo, useState } from 'preact/hooks';
import { toBase64 } from '../../../lib/agent';
import { Button, Note } from '../../../ui/basics';
import { JsonView } from '../../../ui/json';
import { plotOf } from './chart';
import type { Output, Result } from './run';

const Html = lazy(() => import('./html'));
const PlotView = lazy(() => import('./plot'));

/* Colours of a terminal have no place here. */
// eslint-disable-next-line no-control-regex
const plain = (text: string) => text.replace(/\u001b\[[0-9;]*[A-Za-z]/g, '');
const base64 = (text: string) => (/^[A-Za-z0-9+/=\s]*$/.test(text) ? text.replace(/\s+/g, '') : '');
const isText = (value: unknown): value is string => typeof value === 'string' && value !== '';

type Form = [string, () => ComponentChildren];

/* Every form in which a result can be shown, the best first. A picture is never a document: an <img>
 * runs no script, whatever its SVG holds. */
function forms(result: Result): Form[] {
  const found: Form[] = [];
  const plot = plotOf(result.chart);
  if (isText(result.png)) found.push(['Picture', () => <img src={`data:image/png;base64,${base64(result.png!)}`} alt="A picture that the code made" />]);
  if (isText(result.jpeg)) found.push(['JPEG', () => <img src={`data:image/jpeg;base64,${base64(result.jpeg!)}`} alt="A picture that the code made" />]);
  if (isText(result.svg)) {
    found.push(['SVG', () => <img src={`data:image/svg+xml;base64,${toBase64(new TextEncoder().encode(result.svg))}`} alt="A drawing that the code made" />]);
  }
  if (plot) found.push(['Chart', () => <PlotView plot={plot} />]);
  if (isText(result.html)) found.push(['HTML', () => <Html html={result.html!} />]);
  if (isText(result.markdown)) found.push(['Markdown', () => <pre>{result.markdown}</pre>]);
  if (isText(result.latex)) found.push(['LaTeX', () => <pre>{result.latex}</pre>]);
  if (result.json !== undefined && result.json !== null) found.push(['JSON', () => <JsonView value={result.json} />]);
  if (isText(result.text)) found.push(['Text', () => <pre>{result.text}</pre>]);
  if (result.data) found.push(['Data', () => <JsonView value={result.data} />]);
  if (result.chart && !plot) found.push(['Chart data', () => <JsonView value={result.chart} />]);
  if (isText(result.javascript)) found.push(['JavaScript', () => <pre>{result.javascript}</pre>]);
  return found;
}

function ResultView({ result }: { result: Result }) {
  const all = useMemo(() => forms(result), [result]);
  const [at, setAt] = useState(0);
  const shown = all[at] ?? all[0];
  if (!shown) return null;
  return (
    <div class="column">
      {all.length > 1 && (
        <div class="row wrap" role="group" aria-label="Forms of the result">
          {all.map(([name], i) => (
            <Button small kind={i === at ? undefined : 'quiet'} aria-pressed={i === at} onClick={() => setAt(i)}>
              {name}
            </Button>
          ))}
        </div>
      )}
      <Suspense fallback={<div />}>{shown[1]()}</Suspense>
    </div>
  );
}

export function Outputs({ outputs }: { outputs: Output[] }) {
  return (
    <>
      {outputs.map((output) => {
        if (output.kind === 'result') return <ResultView result={output.result} />;
        if (output.kind === 'note') return <Note tone="warn">{output.text}</Note>;
        if (output.kind === 'error') {
          return (
            <div role="alert" class="column">
              <strong class="bad-text">
                {output.name}: {plain(output.value)}
              </strong>
              <pre class="traceback">{plain(output.traceback)}</pre>
            </div>
          );
        }
        return <pre class={output.kind}>{plain(output.text)}</pre>;
      })}
    </>
  );
}
