// Compresses what was built with brotli, each file into NAME.br beside it, and fails when all of it
// is larger than the dashboard may be. Browsers take brotli over TLS and from localhost; the daemon
// also has every file in gzip, for a browser elsewhere that comes without TLS. The texts of the licences
// are not counted: they come later (tools/build-web), and no page loads them.
import { readdirSync, readFileSync, statSync, writeFileSync } from 'node:fs';
import { join, relative } from 'node:path';
import { brotliCompressSync, constants, gzipSync } from 'node:zlib';

const LIMIT_BYTES = { brotli: 400_000, gzip: 430_000 };
const dir = process.argv[2] ?? process.env.ATOLL_WEB_OUT ?? new URL('dist', import.meta.url).pathname;

function* files(at) {
  for (const name of readdirSync(at)) {
    const path = join(at, name);
    if (statSync(path).isDirectory()) yield* files(path);
    else if (!path.endsWith('.br')) yield path;
  }
}

function compress(path) {
  const plain = readFileSync(path);
  const packed = brotliCompressSync(plain, { params: { [constants.BROTLI_PARAM_SIZE_HINT]: plain.length } });
  writeFileSync(`${path}.br`, packed);
  return { name: relative(dir, path), brotli: packed.length, gzip: gzipSync(plain, { level: 9 }).length };
}

const rows = [...files(dir)].map(compress).sort((a, b) => b.brotli - a.brotli);
const total = { name: 'all of it', brotli: 0, gzip: 0 };
for (const row of rows) {
  total.brotli += row.brotli;
  total.gzip += row.gzip;
}
console.log('  brotli    gzip');
for (const row of [...rows, total, { name: 'at most', ...LIMIT_BYTES }]) {
  console.log(`${String(row.brotli).padStart(8)}${String(row.gzip).padStart(8)}  ${row.name}`);
}
if (total.brotli > LIMIT_BYTES.brotli || total.gzip > LIMIT_BYTES.gzip) {
  console.error('compress.mjs: the dashboard is too large: make a library smaller or leave one out');
  process.exit(1);
}
