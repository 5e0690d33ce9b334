// The Content-Security-Policy admits style elements only with this answer's nonce. The terminal
// makes style elements itself and knows no nonces, so every style element gets it when it is made.
// Style attributes are refused; what code sets by element.style is allowed.
const meta = document.querySelector<HTMLMetaElement>('meta[name="csp-nonce"]');

export const nonce = meta?.content ?? '';

type Create = (name: string, options?: ElementCreationOptions) => HTMLElement;

export function giveStylesTheNonce(doc: Document = document): void {
  const create = doc.createElement.bind(doc) as Create;
  doc.createElement = ((name: string, options?: ElementCreationOptions) => {
    const element = create(name, options);
    if (element instanceof HTMLStyleElement) element.nonce = nonce;
    return element;
  }) as typeof doc.createElement;
}
