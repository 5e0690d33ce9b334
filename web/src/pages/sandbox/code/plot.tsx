// The data of a chart, drawn again: lines, points and bars. What else there is has its picture.
import uPlot from 'uplot';
import 'uplot/dist/uPlot.min.css';
import { useEffect, useRef } from 'preact/hooks';
import { color, theme } from '../../../lib/theme';
import type { Plot } from './chart';

const COLORS = ['--accent', '--info', '--violet', '--warn', '--bad', '--ok'];
const HEIGHT_PX = 280;

function options(plot: Plot, width: number): uPlot.Options {
  const axis: uPlot.Axis = {
    stroke: color('--faint'),
    grid: { stroke: color('--border'), width: 1 },
    ticks: { show: false },
    font: '11px system-ui, sans-serif',
    labelFont: '12px system-ui, sans-serif',
  };
  const names = plot.names;
  const bars = plot.type === 'bar' ? uPlot.paths.bars!({ size: [0.6, 80] }) : undefined;
  return {
    width,
    height: HEIGHT_PX,
    title: plot.title,
    scales: {
      x: { time: plot.time, range: names ? () => [-0.6, names.length - 0.4] : undefined },
      y: plot.type === 'bar' ? { range: (_u, low, high) => [Math.min(0, low), Math.max(0, high) * 1.08 || 1] } : {},
    },
    axes: [
      {
        ...axis,
        label: plot.x,
        labelSize: plot.x ? 20 : 0,
        ...(names ? { splits: () => names.map((_, i) => i), values: () => names, rotate: names.length > 8 ? -45 : 0, size: names.length > 8 ? 70 : 30 } : {}),
      },
      { ...axis, label: plot.y, labelSize: plot.y ? 20 : 0, size: 60 },
    ],
    series: [
      {},
      ...plot.series.map((series, i) => {
        const stroke = color(COLORS[i % COLORS.length]!);
        return {
          label: series.label || plot.y || 'y',
          stroke,
          width: plot.type === 'scatter' ? 0 : 1.5,
          fill: plot.type === 'bar' ? `${stroke}99` : undefined,
          paths: bars ?? (plot.type === 'scatter' ? () => null : undefined),
          points: { show: plot.type === 'scatter', size: 6, fill: stroke },
          spanGaps: true,
        };
      }),
    ],
  };
}

export default function PlotView({ plot }: { plot: Plot }) {
  const box = useRef<HTMLDivElement>(null);
  const look = theme.value;
  useEffect(() => {
    const element = box.current!;
    const made = new uPlot(options(plot, Math.min(720, element.clientWidth || 600)), plot.data as uPlot.AlignedData, element);
    return () => made.destroy();
  }, [plot, look]);
  return <div class="chart" ref={box} role="img" aria-label={plot.title || 'Chart'} />;
}
