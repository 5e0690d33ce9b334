// Fails when what is built, compressed with gzip, is larger than the dashboard may be. The same
// files are what the daemon embeds. The texts of licences (licenses.txt) come beside them later: no page
// loads them.
import { readdirSync, readFileSync, statSync } from 'node:fs';
import { join, relative } from 'node:path';
import { gzipSync } from 'node:zlib';

const LIMIT_BYTES = 400_000;
const dir = process.argv[2] ?? process.env.ATOLL_WEB_OUT ?? new URL('dist', import.meta.url).pathname;

function* files(at) {
  for (const name of readdirSync(at)) {
    const path = join(at, name);
    if (statSync(path).isDirectory()) yield* files(path);
    else yield path;
  }
}

const rows = [...files(dir)].map((path) => [relative(dir, path), gzipSync(readFileSync(path), { level: 9 }).length]);
rows.sort((a, b) => b[1] - a[1]);
const total = rows.reduce((sum, row) => sum + row[1], 0);
for (const [name, bytes] of rows) console.log(`${String(bytes).padStart(8)}  ${name}`);
console.log(`${String(total).padStart(8)}  all of it, of ${LIMIT_BYTES} bytes that it may have`);
if (total > LIMIT_BYTES) {
  console.error('size.mjs: the dashboard is too large: make a library smaller or leave one out');
  process.exit(1);
}
