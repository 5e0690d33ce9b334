// HTML that code made, a table mostly. It is cleaned of everything that runs, loads, or looks like a
// part of this page; what is left is put there as nodes. There is no frame for it: the page's
// Content-Security-Policy admits none.
import createDOMPurify from 'dompurify';
import { useEffect, useRef } from 'preact/hooks';
import { isElsewhere } from '../../../lib/session';

const purify = createDOMPurify(window);

const TAGS = [
  ...['a', 'b', 'blockquote', 'br', 'caption', 'code', 'col', 'colgroup', 'dd', 'del', 'details', 'div', 'dl', 'dt', 'em'],
  ...['figcaption', 'figure', 'h1', 'h2', 'h3', 'h4', 'h5', 'h6', 'hr', 'i', 'img', 'ins', 'kbd', 'li', 'mark', 'ol', 'p', 'pre'],
  ...['q', 's', 'samp', 'small', 'span', 'strong', 'sub', 'summary', 'sup', 'table', 'tbody', 'td', 'tfoot', 'th', 'thead', 'tr'],
  ...['u', 'ul', 'var', 'wbr'],
];

purify.addHook('afterSanitizeAttributes', (node) => {
  if (node.nodeName === 'A') {
    if (!isElsewhere(node.getAttribute('href') ?? '')) node.removeAttribute('href');
    node.setAttribute('target', '_blank');
    node.setAttribute('rel', 'noopener noreferrer');
  }
  if (node.nodeName === 'IMG' && !/^data:image\//i.test(node.getAttribute('src') ?? '')) node.remove();
});

/* Where the text is read, the page's policy is asked about style and handlers already, and each is a
 * complaint in the console, though nothing is applied or run. So most are taken out as text before.
 * This is for silence alone: what is safe is decided below. */
function quiet(html: string): string {
  return html
    .replace(/<style\b[\s\S]*?(<\/style\s*>|$)/gi, '')
    .replace(/<[a-z][^>]*>/gi, (tag) => tag.replace(/\s(?:style|on[a-z]+)\s*=\s*(?:"[^"]*"|'[^']*'|[^\s>]+)/gi, ' '));
}

export function clean(html: string): DocumentFragment {
  return purify.sanitize(quiet(html), {
    ALLOWED_TAGS: TAGS,
    ALLOWED_ATTR: ['href', 'src', 'alt', 'title', 'colspan', 'rowspan', 'scope', 'span', 'start', 'open'],
    ALLOW_DATA_ATTR: false,
    ALLOW_ARIA_ATTR: false,
    RETURN_DOM_FRAGMENT: true,
  });
}

export default function Html({ html }: { html: string }) {
  const box = useRef<HTMLDivElement>(null);
  useEffect(() => box.current!.replaceChildren(clean(html)), [html]);
  return <div class="rich" ref={box} />;
}
