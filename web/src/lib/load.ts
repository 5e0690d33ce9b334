// A view of something that the daemon has: loaded when the view is drawn, again when it is asked
// for, and by itself where no stream tells of changes.
import { useCallback, useEffect, useRef, useState } from 'preact/hooks';
import { isAbort, sentence } from './api';

export interface Loaded<T> {
  data: T | undefined;
  /** The daemon's sentence of the last try, if it failed. The data of the try before stays. */
  error: string | null;
  /** True until the first answer. */
  loading: boolean;
  reload: () => Promise<void>;
  /** Puts in what an answer to a change said, before the next load. */
  set: (next: T) => void;
}

/** `every`: again after so many milliseconds, while the window is in view. */
export function useLoad<T>(run: (signal: AbortSignal) => Promise<T>, deps: unknown[], every?: number): Loaded<T> {
  const [data, setData] = useState<T | undefined>(undefined);
  const [error, setError] = useState<string | null>(null);
  const [loading, setLoading] = useState(true);
  const latest = useRef(run);
  const stop = useRef<AbortController | null>(null); // of the load that is under way
  latest.current = run;

  const reload = useCallback(async () => {
    stop.current?.abort();
    const mine = (stop.current = new AbortController());
    try {
      const next = await latest.current(mine.signal);
      if (mine.signal.aborted) return;
      setData(() => next);
      setError(null);
    } catch (thrown) {
      if (mine.signal.aborted || isAbort(thrown)) return;
      setError(sentence(thrown));
    } finally {
      if (stop.current === mine) stop.current = null;
    }
    setLoading(false);
  }, []);

  useEffect(() => {
    setData(undefined);
    setLoading(true);
    void reload();
    return () => stop.current?.abort();
  }, deps);
  useEffect(() => {
    if (!every) return;
    const timer = setInterval(() => {
      if (!document.hidden && !stop.current) void reload(); // an answer that takes long is waited for
    }, every);
    return () => clearInterval(timer);
  }, [every, ...deps]);
  return { data, error, loading, reload, set: (next) => setData(() => next) };
}
