// What has no stream is asked again and again, while somebody looks.
import { useEffect, useState } from 'preact/hooks';
import { isAbort, sentence } from '../../lib/api';

export interface Polled<T> {
  value: T | null;
  error: string | null;
  again: () => void;
}

export function usePolled<T>(ask: (signal: AbortSignal) => Promise<T>, everyMs: number, deps: unknown[] = []): Polled<T> {
  const [value, setValue] = useState<T | null>(null);
  const [error, setError] = useState<string | null>(null);
  const [turn, setTurn] = useState(0);
  useEffect(() => {
    const stop = new AbortController();
    let timer: ReturnType<typeof setTimeout>;
    const run = async () => {
      try {
        if (!document.hidden) {
          const next = await ask(stop.signal);
          if (stop.signal.aborted) return;
          setValue(() => next);
          setError(null);
        }
      } catch (thrown) {
        if (stop.signal.aborted || isAbort(thrown)) return;
        setError(sentence(thrown));
      }
      timer = setTimeout(run, everyMs);
    };
    void run();
    return () => {
      stop.abort();
      clearTimeout(timer);
    };
  }, [turn, ...deps]);
  return { value, error, again: () => setTurn((n) => n + 1) };
}
