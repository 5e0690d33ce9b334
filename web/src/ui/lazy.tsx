// The heavy pieces, each loaded when it is first drawn.
import { lazy, Suspense } from 'preact/compat';
import type { ChartProps } from './chart';

const ChartPart = lazy(() => import('./chart'));

export function Chart(props: ChartProps) {
  const height = (props.height ?? 180) + (props.spark ? 0 : 26);
  return (
    <Suspense fallback={<div style={{ height: `${height}px` }} />}>
      <ChartPart {...props} />
    </Suspense>
  );
}
