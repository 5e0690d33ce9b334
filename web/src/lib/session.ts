// Who is logged in. The page holds no key: the session's cookie cannot be read by scripts, and the
// token that must come with it is asked for each time the page is loaded.
import { computed, signal } from '@preact/signals';
import { ApiError, del, get, post, sentence, setHooks } from './api';

export interface Session {
  team: { id: string; name: string };
  key: { id: string; name: string };
  readOnly: boolean;
  operator: boolean;
  csrf: string;
  expiresAt?: string;
  version?: string;
  domain?: string | null;
}

export const session = signal<Session | null>(null);
/** False until the daemon has said whether there is a session. */
export const known = signal(false);
/** Why the login page is shown, if there is a reason to tell. */
export const notice = signal<string | null>(null);

/** Whether buttons that change something are shown. */
export const canWrite = computed(() => session.value !== null && !session.value.readOnly);
export const isOperator = computed(() => session.value?.operator === true);

/* What this tab keeps of sandboxes is not for the next one who logs in. */
function leave(): void {
  session.value = null;
  try {
    sessionStorage.clear();
  } catch {
    // the browser keeps nothing
  }
}

setHooks({
  csrf: () => session.value?.csrf,
  ended: () => {
    if (!session.value) return;
    leave();
    notice.value = 'Your session has ended. Log in again to go on where you were.';
  },
});

const withoutSession: Session = {
  team: { id: '', name: 'development' },
  key: { id: '', name: 'E2B_API_KEY' },
  readOnly: false,
  operator: false,
  csrf: '',
};

async function ask(): Promise<void> {
  try {
    session.value = await get<Session>('/dashboard/session', undefined, { keep401: true });
  } catch (error) {
    leave();
    // `npm run dev` adds a key to every request: there is no session, and none is needed.
    if (import.meta.env.DEV && error instanceof ApiError) session.value = withoutSession;
    else if (!(error instanceof ApiError && error.status === 401)) notice.value = sentence(error);
  }
}

/** The daemon adds this where a link of another page led here. */
const ELSEWHERE = '?from=elsewhere';

/** Takes the token out of `#login=TOKEN`, so that neither the history nor a copied address has it.
 * A link that another page brought is not used: it may be a login of somebody else. */
function takeLink(): string | null {
  const found = /^#\/?login=([^&]+)/.exec(location.hash);
  if (!found) return null;
  history.replaceState(null, '', location.pathname + location.search + '#/');
  if (location.search === ELSEWHERE) {
    notice.value = 'Another page brought this link to log in. It was not used: run `atoll open`, or paste the address yourself.';
    return null;
  }
  return decodeURIComponent(found[1]!);
}

/** Whether an address that a sandbox named leads to another origin. At this one it could be a login. */
export function isElsewhere(address: string): boolean {
  return /^https?:\/\//i.test(address) && URL.canParse(address) && new URL(address).origin !== location.origin;
}

async function useLink(link: string): Promise<void> {
  try {
    await login({ link });
  } catch (error) {
    await ask(); // an older session may still be good
    notice.value = sentence(error);
  }
}

export async function start(): Promise<void> {
  const link = takeLink();
  if (link) await useLink(link);
  else await ask();
  known.value = true;
  window.addEventListener('hashchange', () => {
    const later = takeLink();
    if (later) void useLink(later);
  });
}

export async function login(body: { apiKey: string } | { link: string } | { adminKey: string }): Promise<void> {
  session.value = await post<Session>('/dashboard/session', body, { keep401: true });
  notice.value = null;
}

export async function logout(): Promise<void> {
  try {
    await del('/dashboard/session', undefined, { keep401: true });
  } finally {
    leave();
    notice.value = 'You are logged out.';
  }
}
