// Elements and figures. Text only ever becomes text: nothing here, or anywhere on this page, parses markup.

export const find = (id) => document.getElementById(id);

/** An element with attributes (functions listen to events), and children: elements or text. */
export function element(name, attributes = {}, ...children) {
  const made = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) {
    if (value === null || value === undefined || value === false) continue;
    if (typeof value === 'function') made.addEventListener(key, value);
    else if (key === 'class') made.className = value;
    else made.setAttribute(key, value === true ? '' : value);
  }
  made.append(...children.filter((child) => child !== null && child !== undefined));
  return made;
}

/** Say something to those who cannot see the page. */
export function announce(text) {
  find('live').textContent = text;
}

export const number = (value) => value.toLocaleString('en');
export const count = (value, noun) => `${number(value)} ${noun}${value === 1 ? '' : 's'}`;

export function duration(seconds) {
  if (seconds < 10) return 'a few seconds';
  if (seconds < 90) return `${Math.round(seconds / 5) * 5} s`;
  return `${Math.round(seconds / 60)} min`;
}

export function when(seconds) {
  const date = new Date(seconds * 1000);
  const today = new Date();
  const time = date.toLocaleTimeString([], { hour: '2-digit', minute: '2-digit' });
  if (date.toDateString() === today.toDateString()) return `today ${time}`;
  return date.toLocaleDateString([], { day: 'numeric', month: 'short', year: 'numeric' });
}

/** `page 3`, `pages 3–4`. */
export function pagesOf(pages) {
  if (!pages.length) return '';
  const [first, last] = [pages[0], pages[pages.length - 1]];
  return first === last ? `page ${first}` : `pages ${first}–${last}`;
}
