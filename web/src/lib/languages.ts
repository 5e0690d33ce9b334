// Which language a file is in, by its name. Apart from the editor, which is a chunk of its own.
import type { Language } from '../ui/editor';

const ENDINGS: Record<string, Language> = {
  py: 'python',
  js: 'javascript',
  mjs: 'javascript',
  cjs: 'javascript',
  jsx: 'javascript',
  ts: 'typescript',
  tsx: 'typescript',
  json: 'json',
  ipynb: 'json',
  sh: 'shell',
  bash: 'shell',
  yml: 'yaml',
  yaml: 'yaml',
  toml: 'toml',
};

/** The language of a file by its name. */
export function languageOf(name: string): Language | undefined {
  const base = name.split('/').pop() ?? '';
  if (/^(Dockerfile|Containerfile)/.test(base)) return 'dockerfile';
  if (/^\.(bashrc|profile|bash_profile|zshrc)$/.test(base)) return 'shell';
  return ENDINGS[base.split('.').pop()?.toLowerCase() ?? ''];
}
