// The heavy pieces, each loaded when it is first drawn.
import { lazy, Suspense } from 'preact/compat';
import type { ChartProps } from './chart';
import type { EditorProps } from './editor';

const ChartPart = lazy(() => import('./chart'));
const EditorPart = lazy(() => import('./editor'));

export function Chart(props: ChartProps) {
  const height = (props.height ?? 180) + (props.spark ? 0 : 26);
  return (
    <Suspense fallback={<div style={{ height: `${height}px` }} />}>
      <ChartPart {...props} />
    </Suspense>
  );
}

export function Editor(props: EditorProps) {
  return (
    <Suspense fallback={<div style={{ height: props.height ?? props.minHeight ?? '120px' }} />}>
      <EditorPart {...props} />
    </Suspense>
  );
}
