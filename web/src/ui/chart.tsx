// Lines over time, drawn by uPlot in the colours of the theme. This file is a chunk of its own:
// import Chart from './lazy'.
import uPlot from 'uplot';
import 'uplot/dist/uPlot.min.css';
import { useEffect, useRef } from 'preact/hooks';
import { color, theme } from '../lib/theme';

export interface ChartSeries {
  label: string;
  /** A variable of the theme: "--accent", "--info", "--warn", "--bad", "--violet", "--ok". */
  color?: string;
  fill?: boolean;
}

export interface ChartProps {
  label: string;
  /** Seconds since 1970, then one list of values per series. */
  data: uPlot.AlignedData;
  series: ChartSeries[];
  format?: (value: number) => string;
  height?: number;
  /** The least that the axis reaches to. */
  max?: number;
  /** Seconds that the time axis reaches back from now, however few values there are. */
  span?: number;
  /** No axes and no legend: a small picture. */
  spark?: boolean;
}

const COLORS = ['--accent', '--info', '--violet', '--warn', '--bad', '--ok'];

/* Hours of the day; a date where the axis reaches over days. */
function clock(at: number, step: number): string {
  const when = new Date(at * 1000);
  if (step >= 86_400) return when.toLocaleDateString(undefined, { month: 'short', day: 'numeric' });
  const seconds = step < 60 ? ('2-digit' as const) : undefined;
  return when.toLocaleTimeString(undefined, { hour: '2-digit', minute: '2-digit', second: seconds, hour12: false });
}

function options(props: ChartProps, width: number): uPlot.Options {
  const format = props.format ?? ((value: number) => String(Math.round(value * 100) / 100));
  const axis: uPlot.Axis = {
    stroke: color('--faint'),
    grid: { stroke: color('--border'), width: 1 },
    ticks: { show: false },
    font: '11px system-ui, sans-serif',
  };
  return {
    width,
    height: props.height ?? 180,
    padding: props.spark ? [2, 0, 2, 0] : [10, 22, 0, 0],
    legend: { show: !props.spark },
    cursor: { show: !props.spark, points: { size: 6 }, y: false },
    scales: {
      x: props.span ? { range: () => [Date.now() / 1000 - props.span!, Date.now() / 1000] } : {},
      y: { range: (_u, low, high) => [Math.min(0, low ?? 0), Math.max(props.max ?? 0, (high ?? 0) * 1.08) || 1] },
    },
    axes: props.spark
      ? [{ show: false }, { show: false }]
      : [{ ...axis, size: 26, values: (_u, ticks, _i, _space, step) => ticks.map((at) => clock(at, step)) }, { ...axis, size: 52, values: (_u, ticks) => ticks.map(format) }],
    series: [
      { value: (_u, at) => (at ? new Date(at * 1000).toLocaleTimeString(undefined, { hour12: false }) : '–') },
      ...props.series.map((series, i) => {
        const stroke = color(series.color ?? COLORS[i % COLORS.length]!);
        return {
          label: series.label,
          stroke,
          width: 1.5,
          fill: series.fill === false ? undefined : `${stroke}1f`,
          points: { show: (u: uPlot) => u.data[0].length < 2, size: 5 },
          value: (_u: uPlot, value: number | null) => (value == null ? '–' : format(value)),
        };
      }),
    ],
  };
}

export default function Chart(props: ChartProps) {
  const box = useRef<HTMLDivElement>(null);
  const plot = useRef<uPlot | null>(null);
  const data = useRef(props.data);
  data.current = props.data;
  const shape = props.series.map((series) => series.label + series.color).join('|');
  const look = theme.value;
  useEffect(() => {
    const element = box.current!;
    const made = new uPlot(options(props, element.clientWidth || 300), data.current, element);
    plot.current = made;
    const watch = new ResizeObserver(() => {
      if (element.clientWidth) made.setSize({ width: element.clientWidth, height: props.height ?? 180 });
    });
    watch.observe(element);
    return () => {
      watch.disconnect();
      made.destroy();
      plot.current = null;
    };
  }, [look, shape, props.height, props.spark, props.max, props.span]);
  useEffect(() => plot.current?.setData(props.data), [props.data]);
  return <div class="chart" ref={box} role="img" aria-label={props.label} />;
}
