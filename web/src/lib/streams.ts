// A browser opens six connections at most to a host that speaks HTTP/1.1, in all its windows
// together; over TLS the daemon speaks HTTP/2, which has no such limit. An answer that stays open
// holds one of the six, and when all are held, every other request waits without a word. So they are
// counted here, and one too many is refused with a sentence.
import { ApiError } from './api-error';

const HTTP1_STREAMS_MAX = 5; // one connection is left for requests

let open = 0;

function limited(): boolean {
  const entry = performance.getEntriesByType('navigation')[0] as PerformanceNavigationTiming | undefined;
  return entry?.nextHopProtocol.startsWith('http/1') ?? true;
}

/** Counts a stream. Call what is returned when it is over. */
export function takeStream(): () => void {
  if (open >= HTTP1_STREAMS_MAX && limited()) {
    throw new ApiError(
      429,
      'This page holds as many connections as a browser opens without TLS: close a terminal, or reach the daemon by HTTPS.',
    );
  }
  open++;
  let over = false;
  return () => {
    if (!over) open--;
    over = true;
  };
}
