// The source pane: the text with its cited passages, the pages of a PDF with boxes on them, and the coverage strip.

import * as api from './api.js';
import { count, element, find, number, pagesOf } from './dom.js';
import { cut, Positions } from './spans.js';

const NEAR = '800px 0px'; // how far from the visible part pages are drawn
const DRAWN_AHEAD = 12; // cited pages that are drawn before anybody clicks
const LONG = 300_000; // characters from which the browser lays out only what is visible

export class Source extends EventTarget {
  constructor() {
    super();
    this.record = null;
    this.passages = new Map(); // 'start-end' -> {start, end, sentences}
    this.active = null;
    this.boxes = new Map(); // 'start-end' -> what the server found
    this.view = 'text';
    this.images = new Map();
    find('view-pages').addEventListener('click', () => this.show('pages'));
    find('view-text').addEventListener('click', () => this.show('text'));
    find('strip').addEventListener('click', (event) => {
      if (event.target.dataset.passage) this.reveal(event.target.dataset.passage);
    });
    this.pane = find('source');
    for (const name of ['mouseover', 'focusin']) this.pane.addEventListener(name, (event) => this.hover(event));
    for (const name of ['mouseout', 'focusout']) this.pane.addEventListener(name, () => this.leave());
    this.pane.addEventListener('click', (event) => this.choose(event));
    this.pane.addEventListener('keydown', (event) => {
      if (event.key === 'Enter' || event.key === ' ') this.choose(event);
    });
    this.pane.addEventListener('scroll', () => this.moveWindow(), { passive: true });
  }

  /** Show another document. */
  async open(record) {
    this.close();
    this.record = record;
    find('views').hidden = !record.page_sizes.length;
    this.say('Click a sentence of the summary to see the passage it rests on.');
    const text = await api.text(`/api/documents/${record.id}/text`);
    if (this.record !== record) return;
    this.text = text;
    this.positions = new Positions(text);
    this.textView = this.makeText();
    this.pagesView = record.page_sizes.length ? this.makePages() : null;
    this.show(this.pagesView ? 'pages' : 'text');
    this.mark();
  }

  close() {
    this.record = null;
    this.text = '';
    this.active = null;
    this.passages = new Map();
    this.boxes = new Map();
    this.watcher?.disconnect();
    for (const url of this.images.values()) if (typeof url === 'string') URL.revokeObjectURL(url);
    this.images = new Map();
    this.pane.replaceChildren();
    find('strip').replaceChildren();
  }

  say(...what) {
    find('where').replaceChildren(...what);
  }

  // The text

  makeText() {
    const view = element('div', { class: `text${this.text.length > LONG ? ' long' : ''}`, dir: 'auto' });
    this.chunks = [];
    // Paragraphs with the white space after them: together they are the text.
    for (const found of this.text.matchAll(/[\s\S]+?(?:\n{2,}|$)/g)) {
      const start = found.index;
      const chunk = { start, end: start + found[0].length, node: element('p', { class: 'chunk' }), key: '' };
      chunk.node.textContent = found[0];
      this.chunks.push(chunk);
      view.append(chunk.node);
    }
    return view;
  }

  /** The passages that sentences rest on: [{start, end, text, sentences}], by the server's positions. */
  cite(passages) {
    this.passages = new Map(passages.map((passage) => [`${passage.start}-${passage.end}`, passage]));
    this.mark();
  }

  mark() {
    if (!this.record || !this.textView) return;
    const passages = [...this.passages].map(([key, passage]) => ({
      key,
      start: this.positions.at(passage.start),
      end: this.positions.at(passage.end),
    }));
    for (const chunk of this.chunks) {
      const pieces = cut(chunk.start, chunk.end, passages);
      const key = pieces.map((piece) => `${piece.start}:${piece.passages.map((each) => each.key)}`).join(' ');
      if (key !== chunk.key) {
        chunk.key = key;
        chunk.node.replaceChildren(...pieces.map((piece) => this.makePiece(piece)));
      }
    }
    this.drawStrip();
    this.locate();
    if (this.active) this.light(this.active);
  }

  makePiece(piece) {
    const text = this.text.slice(piece.start, piece.end);
    if (!piece.passages.length) return document.createTextNode(text);
    const key = piece.passages[0].key;
    const made = element('mark', { tabindex: '0', 'data-passage': key });
    made.textContent = text;
    return made;
  }

  // The pages of a PDF

  makePages() {
    const view = element('div', { class: 'pages' });
    this.pages = this.record.page_sizes.map(([width, height], index) => {
      const image = element('img', { alt: `Page ${index + 1}`, draggable: 'false' });
      const overlay = element('div', { class: 'overlay' });
      const node = element('figure', { class: 'page', 'data-page': index + 1 }, image, overlay,
        element('figcaption', {}, `${index + 1}`));
      node.style.aspectRatio = `${Math.max(width, 1)} / ${Math.max(height, 1)}`;
      view.append(node);
      return { node, image, overlay };
    });
    this.watcher = new IntersectionObserver((entries) => {
      for (const entry of entries) if (entry.isIntersecting) this.draw(Number(entry.target.dataset.page));
    }, { root: this.pane, rootMargin: NEAR });
    for (const page of this.pages) this.watcher.observe(page.node);
    return view;
  }

  async draw(page) {
    if (this.images.has(page)) return;
    const { record } = this;
    this.images.set(page, null);
    try {
      const width = Math.min(1800, Math.round(Math.max(this.pane.clientWidth, 320) * Math.min(devicePixelRatio, 2)));
      const image = await api.blob(`/api/documents/${record.id}/pages/${page}?width=${width}`);
      if (this.record !== record) return;
      const url = URL.createObjectURL(image);
      this.images.set(page, url);
      this.pages[page - 1].image.src = url;
      this.pages[page - 1].node.classList.add('drawn');
    } catch (error) {
      if (this.record !== record) return;
      this.images.delete(page);
      this.pages[page - 1].node.classList.add('failed');
      this.pages[page - 1].node.dataset.problem = error.message;
    }
  }

  /** Ask where the new passages stand on the pages. */
  async locate() {
    if (!this.pagesView) return;
    const { record } = this;
    const unknown = [...this.passages].filter(([key]) => !this.boxes.has(key));
    if (unknown.length) {
      for (const [key] of unknown) this.boxes.set(key, null);
      try {
        const spans = unknown.map(([, passage]) => [passage.start, passage.end]);
        const answer = await (await api.post(`/api/documents/${record.id}/boxes`, { spans })).json();
        if (this.record !== record) return;
        unknown.forEach(([key], index) => this.boxes.set(key, answer.spans[index]));
      } catch {
        for (const [key] of unknown) this.boxes.set(key, { located: false, pages: [] });
      }
    }
    this.drawBoxes();
  }

  drawBoxes() {
    for (const page of this.pages) page.overlay.replaceChildren();
    const cited = new Set();
    for (const key of this.passages.keys()) {
      for (const { page, boxes } of this.boxes.get(key)?.pages ?? []) {
        cited.add(page);
        boxes.forEach(([left, top, right, bottom], index) => {
          const box = element('div', {
            class: `box${key === this.active ? ' active' : ''}`,
            'data-passage': key,
            ...(index ? { 'aria-hidden': 'true' } : { tabindex: '0', role: 'button', 'aria-label': this.describe(key) }),
          });
          box.style.left = `${left * 100}%`;
          box.style.top = `${top * 100}%`;
          box.style.width = `${(right - left) * 100}%`;
          box.style.height = `${(bottom - top) * 100}%`;
          this.pages[page - 1]?.overlay.append(box);
        });
      }
    }
    for (const page of [...cited].sort((one, other) => one - other).slice(0, DRAWN_AHEAD)) this.draw(page);
  }

  describe(key) {
    const sentences = this.passages.get(key)?.sentences ?? [];
    return `Used by: ${sentences.map((sentence) => sentence.text).join(' / ')}`;
  }

  // What is shown

  show(view) {
    this.view = view;
    find('view-pages').setAttribute('aria-pressed', String(view === 'pages'));
    find('view-text').setAttribute('aria-pressed', String(view === 'text'));
    this.pane.setAttribute('aria-label', view === 'pages' ? 'Pages of the document' : 'Text of the document');
    this.pane.replaceChildren(view === 'pages' ? this.pagesView : this.textView);
    if (this.active) this.scrollTo(this.active);
    this.moveWindow();
  }

  /** Light the passage that a sentence rests on, and only that. */
  reveal(key) {
    const passage = this.passages.get(key);
    if (!passage || !this.textView) return;
    this.active = key;
    this.light(key);
    const found = this.boxes.get(key);
    const pages = this.pagesFor(passage);
    const place = pages.length ? pagesOf(pages) : '';
    const span = `characters ${number(passage.start)}–${number(passage.end)}`;
    const exact = this.text.slice(this.positions.at(passage.start), this.positions.at(passage.end)) === passage.text;
    if (!exact) {
      this.say(element('strong', {}, 'This passage cannot be located.'), ' The source no longer has these characters.');
    } else if (this.view === 'pages' && found && !found.located) {
      this.show('text');
      this.say(element('strong', {}, 'It cannot be located on the page'), `: shown in the text instead (${place}, ${span}).`);
    } else {
      const [first] = passage.sentences;
      const how = first.isCopy ? 'word for word' : `support ${first.support.toFixed(2)}`;
      this.say(element('strong', {}, [place, span].filter(Boolean).join(', ')), ` · ${how}`);
    }
    this.scrollTo(key);
    this.dispatchEvent(new CustomEvent('reveal', { detail: passage }));
  }

  light(key) {
    for (const node of this.textView.querySelectorAll('mark')) node.classList.toggle('active', node.dataset.passage === key);
    for (const node of this.pagesView?.querySelectorAll('.box') ?? []) node.classList.toggle('active', node.dataset.passage === key);
    for (const node of find('strip').querySelectorAll('i')) node.classList.toggle('active', node.dataset.passage === key);
  }

  scrollTo(key) {
    const node = this.pane.querySelector(`[data-passage="${CSS.escape(key)}"]`);
    if (!node) return;
    const still = matchMedia('(prefers-reduced-motion: reduce)').matches;
    const [pane, place] = [this.pane.getBoundingClientRect(), node.getBoundingClientRect()];
    const top = this.pane.scrollTop + place.top - pane.top - pane.height / 3;
    const far = Math.abs(top - this.pane.scrollTop) > 3 * pane.height;
    this.pane.scrollTo({ top, behavior: still || far ? 'auto' : 'smooth' });
  }

  clear() {
    this.active = null;
    this.light('');
    this.say('Click a sentence of the summary to see the passage it rests on.');
  }

  pagesFor(passage) {
    const starts = this.record.page_starts;
    return starts.map((start, index) => [start, starts[index + 1] ?? Infinity, index + 1])
      .filter(([start, end]) => start < passage.end && end > passage.start && start < end)
      .map(([, , page]) => page);
  }

  hover(event) {
    const key = event.target.dataset?.passage;
    if (!key || !this.passages.has(key)) return;
    const { sentences } = this.passages.get(key);
    const tip = find('tip');
    tip.replaceChildren(
      element('b', {}, count(sentences.length, 'sentence')), ' of the summary rest', sentences.length === 1 ? 's' : '', ' on this',
      ...sentences.slice(0, 4).map((sentence) => element('span', {}, sentence.text)));
    tip.hidden = false;
    const place = event.target.getBoundingClientRect();
    const width = tip.offsetWidth;
    tip.style.left = `${Math.max(8, Math.min(place.left, innerWidth - width - 8))}px`;
    const above = place.top - tip.offsetHeight - 8;
    tip.style.top = `${above > 8 ? above : place.bottom + 8}px`;
    this.dispatchEvent(new CustomEvent('hover', { detail: sentences.map((sentence) => sentence.id) }));
  }

  leave() {
    find('tip').hidden = true;
    this.dispatchEvent(new CustomEvent('hover', { detail: [] }));
  }

  choose(event) {
    const key = event.target.dataset?.passage;
    if (!key || !this.passages.has(key)) return;
    event.preventDefault();
    this.reveal(key);
    this.dispatchEvent(new CustomEvent('choose', { detail: this.passages.get(key).sentences.map((each) => each.id) }));
  }

  // The coverage strip

  drawStrip() {
    const strip = find('strip');
    const total = Math.max(this.record.characters, 1);
    const ticks = [...this.passages].map(([key, passage]) => {
      const tick = element('i', { 'data-passage': key });
      tick.style.left = `${(passage.start / total) * 100}%`;
      tick.style.width = `${Math.max(((passage.end - passage.start) / total) * 100, 0.4)}%`;
      return tick;
    });
    this.window = element('b', {});
    strip.replaceChildren(this.window, ...ticks);
    const tenths = new Set([...this.passages.values()].map((passage) => Math.floor((10 * passage.start) / total)));
    strip.setAttribute('aria-label', this.passages.size
      ? `The summary draws on ${count(this.passages.size, 'passage')} in ${tenths.size} of the ten tenths of the document`
      : 'Nothing is summarized yet');
    this.moveWindow();
  }

  moveWindow() {
    if (!this.window || !this.pane.scrollHeight) return;
    this.window.style.left = `${(this.pane.scrollTop / this.pane.scrollHeight) * 100}%`;
    this.window.style.width = `${(this.pane.clientHeight / this.pane.scrollHeight) * 100}%`;
  }
}
