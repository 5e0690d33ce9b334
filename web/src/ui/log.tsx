// Lines of a log: only those in view are drawn, a text is searched and marked, and the end is
// followed until somebody scrolls up.
import { useVirtualizer } from '@tanstack/react-virtual';
import type { ComponentChildren } from 'preact';
import { useEffect, useMemo, useRef, useState } from 'preact/hooks';
import { count, dateTime, time } from '../lib/format';
import { Button, copyText, SearchField } from './basics';

export interface LogLine {
  text: string;
  at?: string | number;
  level?: string;
}

interface LogProps {
  label: string;
  lines: LogLine[];
  /** Whether more lines may come. */
  live?: boolean;
  /** More in the bar: a choice of levels, a button. */
  bar?: ComponentChildren;
  empty?: ComponentChildren;
  height?: string;
}

const LINE_PX = 19;
const SHOWN_CHARS = 4000; // one endless line must not stop the page
const LEVELS: Record<string, string> = { warn: 'warn', warning: 'warn', error: 'error', fatal: 'error', debug: 'debug', trace: 'debug' };

function marked(text: string, search: string): ComponentChildren {
  const shown = text.length > SHOWN_CHARS ? `${text.slice(0, SHOWN_CHARS)} …` : text;
  if (!search) return shown;
  const parts: ComponentChildren[] = [];
  const low = shown.toLowerCase();
  let from = 0;
  for (let i = low.indexOf(search); i >= 0; i = low.indexOf(search, from)) {
    parts.push(shown.slice(from, i), <mark>{shown.slice(i, i + search.length)}</mark>);
    from = i + search.length;
  }
  parts.push(shown.slice(from));
  return parts;
}

export function LogView({ label, lines, live, bar, empty, height }: LogProps) {
  const [search, setSearch] = useState('');
  const [following, setFollowing] = useState(true);
  const box = useRef<HTMLDivElement>(null);
  const text = search.trim().toLowerCase();
  const shown = useMemo(
    () => (text ? lines.filter((line) => line.text.toLowerCase().includes(text)) : lines),
    [lines, text],
  );
  const virtual = useVirtualizer({
    count: shown.length,
    getScrollElement: () => box.current,
    estimateSize: () => LINE_PX,
    overscan: 20,
  });
  useEffect(() => {
    if (following && box.current) box.current.scrollTop = box.current.scrollHeight;
  }, [shown, following]);
  const scrolled = () => {
    const element = box.current!;
    const bottom = element.scrollHeight - element.scrollTop - element.clientHeight < LINE_PX * 2;
    if (bottom !== following) setFollowing(bottom);
  };
  return (
    <div class="log" style={height ? { height, flex: 'none' } : undefined}>
      <div class="log-bar">
        <SearchField label="Search in the log" value={search} onInput={setSearch} />
        {bar}
        <span class="grow" />
        <span class="muted small" role="status">
          {text ? `${count(shown.length)} of ${count(lines.length)} lines` : `${count(lines.length)} lines`}
        </span>
        {live && (
          <Button small icon="down" aria-pressed={following} onClick={() => setFollowing(!following)}>
            {following ? 'Following' : 'Follow'}
          </Button>
        )}
        <Button small kind="quiet" icon="copy" label="Copy the lines" onClick={() => copyText(shown.map((line) => line.text).join('\n'))} />
      </div>
      <div class="log-lines" ref={box} role="log" aria-label={label} aria-live="off" tabIndex={0} onScroll={scrolled}>
        {shown.length === 0 && empty}
        <div class="log-inner" style={{ height: `${virtual.getTotalSize()}px` }}>
          {virtual.getVirtualItems().map((item) => {
            const line = shown[item.index]!;
            return (
              <div key={item.key} class={`log-line ${LEVELS[line.level ?? ''] ?? ''}`} style={{ transform: `translateY(${item.start}px)` }}>
                {line.at !== undefined && (
                  <span class="at" title={dateTime(line.at)}>
                    {time(line.at)}
                  </span>
                )}
                <span class="text">{marked(line.text, text)}</span>
              </div>
            );
          })}
        </div>
      </div>
    </div>
  );
}
