import { defineConfig } from 'vite';

// `npm run dev` serves the sources itself and passes everything else on to a daemon. The daemon
// asks for a key; the proxy adds it, so that a page under work needs no session. This is never
// part of what is built.
const daemon = process.env.E2B_API_URL ?? 'http://127.0.0.1:3000';
const key = process.env.E2B_API_KEY;

export default defineConfig({
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
