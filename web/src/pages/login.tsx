// Shown in place of any page while nobody is logged in; after that the page that was asked for
// comes back by itself.
import { useState } from 'preact/hooks';
import icon from '../icon.svg';
import { login, notice } from '../lib/session';
import { CopyLine, Field, Note } from '../ui/basics';
import { Form } from '../ui/form';
import { ThemeChoice } from '../ui/shell';

export function Login() {
  const [key, setKey] = useState('');
  return (
    <main class="login">
      <div class="login-box">
        <h1 class="brand">
          <img src={icon} alt="" />
          atoll
        </h1>
        {notice.value && <Note tone="warn">{notice.value}</Note>}
        <section class="card">
          <div class="card-body column">
            <Form
              submit="Log in"
              disabled={key.trim() === ''}
              onSubmit={async () => {
                notice.value = null;
                await login({ apiKey: key.trim() });
              }}
            >
              <Field label="API key" hint="The key stays with the daemon: this browser keeps a session only.">
                {(id, hint) => (
                  <input
                    id={id}
                    aria-describedby={hint}
                    type="password"
                    autocomplete="current-password"
                    placeholder="e2b_…"
                    autofocus
                    value={key}
                    onInput={(event) => setKey(event.currentTarget.value)}
                  />
                )}
              </Field>
            </Form>
          </div>
        </section>
        <div class="column small muted">
          <div>No key at hand? On the daemon's machine, this opens the dashboard without one:</div>
          <CopyLine block text="atoll open" />
          <div>And this makes a new key:</div>
          <CopyLine block text="atoll key create my-key" />
        </div>
        <div class="row">
          <span class="grow" />
          <ThemeChoice />
        </div>
      </div>
    </main>
  );
}
