import { defineConfig, type Plugin } from 'vite';

// `npm run dev` serves the sources itself and passes everything else on to a daemon. The daemon
// asks for a key; the proxy adds it, so that a page under work needs no session. This is never
// part of what is built.
const daemon = process.env.E2B_API_URL ?? 'http://127.0.0.1:3000';
const key = process.env.E2B_API_KEY;

// Large libraries are loaded when they are needed, with the modules that are made for them. All else
// is one file: it is small, and compresses better than forty files do.
const LARGE = /node_modules\/(@xterm|@codemirror|@lezer|style-mod|w3c-keyname|crelt|@marijn|@novnc|uplot|dompurify)\//;

type Info = (id: string) => { importedIds: readonly string[] } | null;

function needsLarge(id: string, info: Info, seen = new Set<string>()): boolean {
  if (LARGE.test(id)) return true;
  if (seen.has(id)) return false;
  seen.add(id);
  return (info(id)?.importedIds ?? []).some((next) => needsLarge(next, info, seen));
}

// Parts of noVNC for logins that no sandbox asks for: RSA-AES, Apple's, MS-Logon.
const NOT_NEEDED = /^\.{1,2}\/(?:[a-z]+\/)?(ra2|aes|rsa|dh|md5)\.js$/;
const notNeeded: Plugin = {
  name: 'leave-out',
  enforce: 'pre',
  resolveId(source, importer) {
    return importer?.includes('/@novnc/') && NOT_NEEDED.test(source) ? '\0not-needed' : null;
  },
  load(id) {
    if (id !== '\0not-needed') return null;
    const names = ['AESECBCipher', 'AESEAXCipher', 'RSACipher', 'DHCipher'];
    const none = 'class None { constructor() { throw new Error("this is left out of the dashboard"); } }';
    return `${none} export { ${names.map((name) => `None as ${name}`).join(', ')}, None as MD5, None as default };`;
  },
};

export default defineConfig({
  plugins: [notNeeded],
  base: '/',
  resolve: {
    alias: {
      'react-dom': 'preact/compat',
      react: 'preact/compat',
    },
  },
  esbuild: { jsx: 'automatic', jsxImportSource: 'preact' },
  build: {
    target: 'es2022',
    outDir: process.env.ATOLL_WEB_OUT ?? 'dist',
    emptyOutDir: true,
    assetsInlineLimit: 0, // a data: address would need more room in the Content-Security-Policy
    cssCodeSplit: false,
    minify: 'terser', // slower than esbuild, and 3 % smaller
    terserOptions: { module: true, ecma: 2020, compress: { passes: 2, unsafe_arrows: true, pure_getters: true, keep_fargs: false } },
    rollupOptions: {
      output: {
        manualChunks: (id, { getModuleInfo }) => (LARGE.test(id) || needsLarge(id, getModuleInfo) ? undefined : 'app'),
      },
    },
    modulePreload: { polyfill: false },
    reportCompressedSize: false,
    chunkSizeWarningLimit: 1000,
  },
  server: {
    proxy: {
      '^/(?!@|src/|node_modules/|index\\.html|\\?|$).+': {
        target: daemon,
        changeOrigin: true,
        ws: true,
        headers: key ? { 'X-API-Key': key } : {},
      },
    },
  },
});
