// The page's own reading of a Dockerfile. The expectations are those of tests/unit/test_dockerfile.c
// wherever both can build a file: the page and the command line must make the same of it.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { parse } from '../../web/src/pages/templates/dockerfile.ts';

const steps = (text) => parse(text).steps.slice(2).map((step) => `${step.type} ${step.args.join('|')}`);

test('a file becomes steps', () => {
  const text = '# syntax\nfrom debian:12 AS x\nRUN a && \\\n  b\nWORKDIR /app\nENV A=1 B=\'2 3\'\nUSER me\nCMD ["run", "it\'s"]\n';
  const built = parse(text);
  assert.equal(built.fromImage, 'debian:12');
  assert.equal(built.fromTemplate, undefined);
  assert.deepEqual(steps(text), ['RUN a &&   b', 'WORKDIR /app', 'ENV A|1|B|2 3', 'USER me']);
  assert.equal(built.start, "run 'it'\\''s'");
});

test('users and directories are those of the clients', () => {
  assert.deepEqual(
    parse('FROM a').steps.map((step) => `${step.type} ${step.args}`),
    ['USER root', 'WORKDIR /', 'USER user', 'WORKDIR /home/user'],
  );
  assert.equal(parse('FROM a').start, undefined);
});

test('a template of this machine', () => {
  const built = parse('FROM template:base');
  assert.equal(built.fromTemplate, 'base');
  assert.equal(built.fromImage, undefined);
});

test('variables are put in where Docker does', () => {
  const text = "ARG V=9\nFROM x:${V}\nARG N=m U\nENV P=$N:$PATH Q=${N:-z} R=${NONE:-z} S='$N'\nWORKDIR /$N/${NONE}x\nENV old $N is kept\nRUN echo $N\n";
  assert.equal(parse(text).fromImage, 'x:9');
  assert.deepEqual(steps(text).slice(0, 6), [
    'ARG N|m',
    'ARG U|',
    'ENV P|m:$PATH|Q|m|R|z|S|$N',
    'WORKDIR /m/x',
    'ENV old|m is kept',
    'RUN echo $N',
  ]);
});

test('quotes and backslashes', () => {
  assert.deepEqual(steps('FROM a\nENV A="x \\"y\\" \\z $" B=c\\ d\nUSER u\nWORKDIR /').slice(0, 1), ['ENV A|x "y" \\z $|B|c d']);
  assert.deepEqual(steps('FROM a\r\nRUN x\r\nUSER u\r\nWORKDIR /\r\n'), ['RUN x', 'USER u', 'WORKDIR /']);
  assert.deepEqual(steps('FROM a\nRUN ["a", "b c"]\n').slice(0, 1), ["RUN a 'b c'"]);
  assert.deepEqual(steps('FROM a\nRUN a \\\n# between\n\n  b').slice(0, 1), ['RUN a   b']);
  assert.deepEqual(steps('FROM a\nRUN echo $((1 << 2))').slice(0, 1), ['RUN echo $((1 << 2))']);
});

test('entrypoint takes cmd', () => {
  assert.equal(parse('FROM a\nENTRYPOINT ["e"]\nCMD ["c", "d"]').start, 'e c d');
  assert.equal(parse('FROM a\nENTRYPOINT e $X\nCMD ["c"]').start, 'e $X');
  assert.equal(parse('FROM a\nCMD exec x').start, 'exec x');
  assert.equal(parse('FROM a\nCMD x').ready, undefined);
  assert.equal(parse('FROM a\nHEALTHCHECK --interval=5s CMD curl -f localhost\nCMD x').ready, 'curl -f localhost');
  assert.equal(parse('FROM a\nHEALTHCHECK CMD ["a", "b c"]').ready, "a 'b c'");
});

test('what means nothing is noted', () => {
  assert.deepEqual(parse('FROM a\nEXPOSE 80\nLABEL a=b').notes, [
    'line 2: EXPOSE has no effect on a template and is ignored',
    'line 3: LABEL has no effect on a template and is ignored',
  ]);
});

const REFUSED = [
  ['', /empty/],
  ['RUN x', /^line 1: FROM must come first/],
  ['ARG A=1', /has no FROM/],
  ['FROM', /^line 1: FROM names no image/],
  ['FROM a b', /FROM takes an image/],
  ['FROM a\n\nCOPY x /y', /^line 3: COPY is not built here: .*atoll template build/],
  ['FROM a\nADD x /y', /^line 2: ADD is not built here: .*atoll template build/],
  ['FROM a\nFROM b', /^line 2: .*several stages.*atoll template build/],
  ['FROM a\nRUN --mount=type=cache x', /^line 2: RUN with --mount/],
  ['FROM a\nRUN cat <<EOF\nx\nEOF', /^line 2: here-documents/],
  ['FROM a\nRUN', /RUN names no command/],
  ['FROM a\nENV A', /^line 2: ENV needs/],
  ['FROM a\nENV A="x', /^line 2: a quote or a brace does not end/],
  ['FROM a\nUSER', /USER needs one word/],
  ['FROM a\nWORKDIR /a /b', /WORKDIR needs one word/],
  ['FROM a\nHEALTHCHECK x', /HEALTHCHECK needs CMD or NONE/],
  ['FROM a\nSHELL ["x"]', /^line 2: the instruction SHELL is not supported/],
  ['FROM a\n# one\nRUN a \\\n  b\nONBUILD x', /^line 5: the instruction ONBUILD/],
];

test('what cannot be built is refused by its line', () => {
  for (const [text, want] of REFUSED) assert.throws(() => parse(text), { message: want }, JSON.stringify(text));
});
