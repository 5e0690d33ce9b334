// Dark, light, or as the system says. The choice is kept in this browser.
import { computed, effect, signal } from '@preact/signals';

export type Choice = 'system' | 'dark' | 'light';
const NAME = 'atoll.theme';
const dark = matchMedia('(prefers-color-scheme: dark)');
const systemDark = signal(dark.matches);
dark.addEventListener('change', () => (systemDark.value = dark.matches));

function kept(): Choice {
  try {
    const value = localStorage.getItem(NAME);
    return value === 'dark' || value === 'light' ? value : 'system';
  } catch {
    return 'system';
  }
}

export const choice = signal<Choice>(kept());
export const theme = computed<'dark' | 'light'>(() =>
  choice.value === 'system' ? (systemDark.value ? 'dark' : 'light') : choice.value,
);

effect(() => {
  document.documentElement.dataset.theme = theme.value;
});

export function choose(next: Choice): void {
  choice.value = next;
  try {
    localStorage.setItem(NAME, next);
  } catch {
    // a browser that keeps nothing: the choice holds for this page
  }
}

/** The value of a CSS variable of the theme in use, for what draws on a canvas. */
export const color = (name: string): string => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
