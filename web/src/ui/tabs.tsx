// A row of tabs. Left and right move between them, as in other programs.
import type { ComponentChildren } from 'preact';
import { useRef } from 'preact/hooks';
import { Icon, type IconName } from './icons';

export interface Tab {
  id: string;
  label: string;
  icon?: IconName;
  more?: ComponentChildren;
}

interface TabsProps {
  label: string;
  tabs: Tab[];
  at: string;
  onChange: (id: string) => void;
}

/** The panel beside it: <div role="tabpanel" aria-labelledby={`tab-${at}`}> */
export function Tabs({ label, tabs, at, onChange }: TabsProps) {
  const box = useRef<HTMLDivElement>(null);
  const move = (event: KeyboardEvent) => {
    const step = event.key === 'ArrowRight' ? 1 : event.key === 'ArrowLeft' ? -1 : 0;
    if (!step) return;
    event.preventDefault();
    const next = (tabs.findIndex((tab) => tab.id === at) + step + tabs.length) % tabs.length;
    onChange(tabs[next]!.id);
    box.current?.querySelectorAll<HTMLElement>('[role="tab"]')[next]?.focus();
  };
  return (
    <div class="tabs" role="tablist" aria-label={label} ref={box} onKeyDown={move}>
      {tabs.map((tab) => (
        <button
          key={tab.id}
          type="button"
          role="tab"
          class="tab"
          id={`tab-${tab.id}`}
          aria-selected={tab.id === at}
          tabIndex={tab.id === at ? 0 : -1}
          onClick={() => onChange(tab.id)}
        >
          {tab.icon && <Icon name={tab.icon} />}
          {tab.label}
          {tab.more}
        </button>
      ))}
    </div>
  );
}
