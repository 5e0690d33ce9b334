import './lib/nonce-start';
import './styles/theme.css';
import './styles/ui.css';
import './styles/pages.css';
import { render } from 'preact';
import { startEvents } from './lib/events';
import { startKeys } from './lib/keys';
import { known, session, start } from './lib/session';
import './lib/theme';
import { Login } from './pages/login';
import { Spinner } from './ui/basics';
import { Shell } from './ui/shell';

function App() {
  if (!known.value) return <Spinner label="Asking the daemon" />;
  return session.value ? <Shell /> : <Login />;
}

startKeys();
startEvents();
render(<App />, document.getElementById('app')!);
void start();
