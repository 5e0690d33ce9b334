// A Dockerfile as the steps of a template build: what `atoll template build` makes of it, without
// the parts that need files beside it. An instruction that cannot be built here is refused with a
// sentence that names its line.

export interface Step {
  type: 'RUN' | 'ENV' | 'ARG' | 'WORKDIR' | 'USER';
  args: string[];
}

export interface Built {
  fromImage?: string;
  fromTemplate?: string;
  steps: Step[];
  /** Of ENTRYPOINT and CMD, and of HEALTHCHECK. */
  start?: string;
  ready?: string;
  /** Sentences about instructions that have no effect. */
  notes: string[];
}

export class DockerfileError extends Error {
  readonly line: number;
  constructor(line: number, message: string) {
    super(line > 0 ? `line ${line}: ${message}` : message);
    this.line = line;
  }
}

type Vars = Map<string, string>;
type Command = string | string[];

const STEPS_MAX = 500; // what a build takes
const BYTES_MAX = 1024 * 1024;
const IGNORED = ['EXPOSE', 'VOLUME', 'LABEL', 'MAINTAINER', 'STOPSIGNAL'];
const ON_THE_COMMAND_LINE = 'it needs files beside the Dockerfile: use `atoll template build NAME DIRECTORY`';

/* -- words -- */

/* The value of the variable at text[at] === '$', and how long its name is. */
function variable(text: string, at: number, vars: Vars, keepUnknown: boolean): [string, number] | null {
  const braced = text[at + 1] === '{';
  const end = braced ? text.indexOf('}', at) : -1;
  if (braced && end < 0) return null;
  const inside = braced ? text.slice(at + 2, end) : text.slice(at + 1);
  const name = /^[A-Za-z_][A-Za-z0-9_]*/.exec(inside)?.[0];
  if (!name) return ['$', 1];
  const length = braced ? end + 1 - at : 1 + name.length;
  const rule = braced ? inside.slice(name.length) : '';
  const value = vars.get(name);
  if (rule.startsWith(':-')) return [value || rule.slice(2), length];
  if (rule.startsWith(':+')) return [value ? rule.slice(2) : '', length];
  if (value !== undefined) return [value, length];
  return [keepUnknown ? text.slice(at, at + length) : '', length];
}

/* One character, escape or variable; null when a brace does not end. */
function take(text: string, at: number, quote: string, vars: Vars, keepUnknown: boolean): [string, number] | null {
  const c = text[at]!;
  if (c === '$' && quote !== "'") return variable(text, at, vars, keepUnknown);
  if (c === '\\' && quote !== "'" && at + 1 < text.length) {
    const next = text[at + 1]!;
    const plain = quote === '"' && !'"\\$'.includes(next);
    return [plain ? `\\${next}` : next, 2];
  }
  return [c, 1];
}

/** The words of a line with quotes and variables resolved; null when a quote or a brace does not end. */
export function words(text: string, vars: Vars, keepUnknown = false): string[] | null {
  const found: string[] = [];
  let at = 0;
  for (;;) {
    while (at < text.length && /\s/.test(text[at]!)) at++;
    if (at >= text.length) return found;
    let word = '';
    let quote = '';
    while (at < text.length && (quote || !/\s/.test(text[at]!))) {
      const c = text[at]!;
      if (quote ? c === quote : c === '"' || c === "'") {
        quote = quote ? '' : c;
        at++;
        continue;
      }
      const taken = take(text, at, quote, vars, keepUnknown);
      if (!taken) return null;
      word += taken[0];
      at += taken[1];
    }
    if (quote) return null;
    found.push(word);
  }
}

/** Words as a line for a shell. */
export const quoted = (list: string[]): string =>
  list.map((word) => (/^[A-Za-z0-9@%_\-+=:,./]+$/.test(word) ? word : `'${word.replaceAll("'", "'\\''")}'`)).join(' ');

function jsonWords(text: string): string[] | null {
  if (!text.startsWith('[')) return null;
  try {
    const value: unknown = JSON.parse(text);
    return Array.isArray(value) && value.every((word) => typeof word === 'string') ? value : null;
  } catch {
    return null;
  }
}

/* -- instructions -- */

class Reader {
  line = 0;
  vars: Vars = new Map();
  built: Built = { steps: [], notes: [] };
  hasFrom = false;
  userSet = false;
  workdirSet = false;
  entrypoint?: Command;
  cmd?: Command;
  health?: Command;

  refuse(why: string): never {
    throw new DockerfileError(this.line, why);
  }

  words(text: string, keepUnknown = false): string[] {
    return words(text, this.vars, keepUnknown) ?? this.refuse('a quote or a brace does not end');
  }

  step(type: Step['type'], ...args: string[]): void {
    if (this.built.steps.length >= STEPS_MAX) this.refuse(`there are more than ${STEPS_MAX} instructions`);
    this.built.steps.push({ type, args });
  }

  from(text: string): void {
    if (this.hasFrom) this.refuse('the page builds one stage; several stages need `atoll template build NAME DIRECTORY`');
    const found = this.words(text.replace(/^(--\S+\s+)+/, ''));
    const [image, as, name] = found;
    if (!image) this.refuse('FROM names no image');
    if (found.length > 1 && !(found.length === 3 && as!.toUpperCase() === 'AS' && name)) {
      this.refuse('FROM takes an image and, optionally, AS with a name');
    }
    this.hasFrom = true;
    if (image.startsWith('template:')) this.built.fromTemplate = image.slice('template:'.length);
    else this.built.fromImage = image;
    this.step('USER', 'root');
    this.step('WORKDIR', '/');
  }

  run(text: string): void {
    if (text.startsWith('--')) this.refuse('RUN with --mount and the like is not supported');
    if (text === '') this.refuse('RUN names no command');
    if (text.includes('<<')) this.hereDocument(text);
    const list = jsonWords(text);
    this.step('RUN', list ? quoted(list) : text);
  }

  /* Its lines would be read as instructions. "1 << 2" is none. */
  hereDocument(text: string): void {
    if (/<<-?\s*["']?[A-Za-z_]\w*["']?\s*$/.test(text)) this.refuse('here-documents are not supported');
  }

  env(text: string): void {
    const older = /^([^\s=]+)\s+(.*)$/s.exec(text);
    let pairs: string[];
    if (older) {
      let value = '';
      for (let at = 0; at < older[2]!.length; ) {
        const c = older[2]![at]!;
        const taken = c === '$' ? variable(older[2]!, at, this.vars, true) : ([c, 1] as [string, number]);
        if (!taken) this.refuse('ENV needs pairs of the form name=value');
        value += taken[0];
        at += taken[1];
      }
      pairs = [older[1]!, value];
    } else {
      pairs = this.words(text, true).flatMap((word) => {
        const equals = word.indexOf('=');
        if (equals <= 0) this.refuse('ENV needs pairs of the form name=value');
        return [word.slice(0, equals), word.slice(equals + 1)];
      });
    }
    if (pairs.length === 0) this.refuse('ENV needs a name and a value');
    for (let i = 0; i + 1 < pairs.length; i += 2) this.vars.set(pairs[i]!, pairs[i + 1]!);
    this.step('ENV', ...pairs);
  }

  /* Before FROM an ARG is for FROM alone. */
  arg(text: string): void {
    const found = this.words(text);
    if (found.length === 0) this.refuse('ARG needs a name');
    for (const word of found) {
      const [name, value = ''] = word.split(/=(.*)/s) as [string, string?];
      this.vars.set(name, value);
      if (this.hasFrom) this.step('ARG', name, value);
    }
  }

  one(type: 'WORKDIR' | 'USER', text: string): void {
    const found = this.words(text);
    if (found.length !== 1 || found[0] === '') this.refuse(`${type} needs one word`);
    this.step(type, found[0]!);
  }

  healthcheck(text: string): void {
    const rest = text.replace(/^(--\S+\s+)+/, '');
    if (/^CMD\s/i.test(rest)) this.health = command(rest.slice(4).trim());
    else if (rest.toUpperCase() !== 'NONE') this.refuse('HEALTHCHECK needs CMD or NONE');
  }

  instruction(word: string, rest: string): void {
    const name = word.toUpperCase();
    if (name === 'ARG') return this.arg(rest);
    if (name === 'FROM') return this.from(rest);
    if (!this.hasFrom) this.refuse('FROM must come first');
    if (name === 'RUN') return this.run(rest);
    if (name === 'ENV') return this.env(rest);
    if (name === 'WORKDIR') {
      this.workdirSet = true;
      return this.one('WORKDIR', rest);
    }
    if (name === 'USER') {
      this.userSet = true;
      return this.one('USER', rest);
    }
    if (name === 'CMD') this.cmd = command(rest);
    else if (name === 'ENTRYPOINT') this.entrypoint = command(rest);
    else if (name === 'HEALTHCHECK') this.healthcheck(rest);
    else if (name === 'COPY' || name === 'ADD') this.refuse(`${name} is not built here: ${ON_THE_COMMAND_LINE}`);
    else if (IGNORED.includes(name)) this.built.notes.push(`line ${this.line}: ${word} has no effect on a template and is ignored`);
    else this.refuse(`the instruction ${word.slice(0, 40)} is not supported`);
  }

  finish(): Built {
    if (!this.hasFrom) throw new DockerfileError(0, 'the Dockerfile has no FROM');
    if (!this.userSet) this.step('USER', 'user');
    if (!this.workdirSet) this.step('WORKDIR', '/home/user');
    this.built.start = startOf(this.entrypoint, this.cmd);
    this.built.ready = this.health === undefined ? undefined : lineOf(this.health);
    return this.built;
  }
}

const command = (text: string): Command => jsonWords(text) ?? text;
const lineOf = (value: Command): string => (typeof value === 'string' ? value : quoted(value));

/* As Docker joins them: CMD is what ENTRYPOINT gets, unless that is a shell's line. */
function startOf(entrypoint: Command | undefined, cmd: Command | undefined): string | undefined {
  const first = entrypoint ?? cmd;
  if (first === undefined || first.length === 0) return undefined;
  if (typeof first === 'string') return first;
  return quoted(entrypoint && Array.isArray(cmd) ? [...first, ...cmd] : first);
}

/** Throws a DockerfileError. */
export function parse(text: string): Built {
  if (text.trim() === '' || text.length > BYTES_MAX || text.includes('\0')) throw new DockerfileError(0, 'the Dockerfile is empty or too long');
  const reader = new Reader();
  let gathered = '';
  text.split('\n').forEach((raw, i) => {
    const line = raw.replace(/\r$/, '');
    if (line.trim() === '' || line.trim().startsWith('#')) return;
    if (gathered === '') reader.line = i + 1;
    const goesOn = line.trimEnd().endsWith('\\');
    gathered += goesOn ? line.trimEnd().slice(0, -1) : line.trimEnd();
    if (goesOn) return;
    act();
  });
  if (gathered.trim()) act();
  return reader.finish();

  function act(): void {
    const [, word, rest] = /^(\S+)\s*(.*)$/s.exec(gathered.trim())!;
    gathered = '';
    reader.instruction(word!, rest!.trim());
  }
}
