// The summary pane: the summaries of one document and the answers to questions about it, growing as they are written.

import * as api from './api.js';
import { announce, count, duration, element, find, number, pagesOf } from './dom.js';
import { forget } from './summaries.js';

const FORMATS = [['text', 'Text'], ['markdown', 'Markdown'], ['html', 'HTML page'], ['json', 'JSON'], ['docx', 'Word (DOCX)']];
const SUFFIX = { text: 'txt', markdown: 'md', html: 'html', json: 'json', docx: 'docx' };

const plain = (text) => text.split(/\s+/).filter(Boolean).join(' ');

export class Thread extends EventTarget {
  constructor(source) {
    super();
    this.source = source;
    this.node = find('thread');
    this.entries = [];
    this.document = null;
    source.addEventListener('hover', (event) => this.link(event.detail));
    source.addEventListener('choose', (event) => this.goTo(event.detail[0]));
    this.node.addEventListener('click', (event) => this.click(event));
    this.node.addEventListener('keydown', (event) => this.key(event));
  }

  open(document, summaries) {
    this.document = document;
    this.entries.forEach((entry) => entry.close());
    this.entries = [];
    this.node.replaceChildren();
    summaries.forEach((summary) => this.add(summary));
  }

  add(summary) {
    const entry = new Entry(this, summary, this.entries.length);
    this.entries.push(entry);
    this.node.append(entry.node);
    entry.update();
    if (this.entries.length > 1) entry.node.scrollIntoView({ block: 'start' });
    return entry;
  }

  drop(entry) {
    this.entries = this.entries.filter((each) => each !== entry);
    entry.close();
    entry.node.remove();
    this.cite();
    if (!this.entries.length) this.dispatchEvent(new Event('empty'));
  }

  /** Tell the source which of its passages are used, by which sentences. */
  cite() {
    const passages = new Map();
    for (const entry of this.entries) {
      for (const sentence of entry.sentences) {
        const { start, end, text } = sentence.source;
        const key = `${start}-${end}`;
        if (!passages.has(key)) passages.set(key, { start, end, text, sentences: [] });
        passages.get(key).sentences.push(sentence);
      }
    }
    this.source.cite([...passages.values()].sort((one, other) => one.start - other.start));
  }

  click(event) {
    const sentence = event.target.closest('.sentence');
    if (sentence) this.choose(sentence);
  }

  choose(node) {
    for (const other of this.node.querySelectorAll('.sentence[aria-pressed="true"]')) other.setAttribute('aria-pressed', 'false');
    node.setAttribute('aria-pressed', 'true');
    this.source.reveal(node.dataset.passage);
    this.dispatchEvent(new Event('chosen'));
  }

  goTo(id) {
    const node = this.node.querySelector(`[data-sentence="${CSS.escape(id)}"]`);
    if (!node) return;
    for (const other of this.node.querySelectorAll('.sentence[aria-pressed="true"]')) other.setAttribute('aria-pressed', 'false');
    node.setAttribute('aria-pressed', 'true');
    node.scrollIntoView({ block: 'nearest' });
  }

  link(ids) {
    const wanted = new Set(ids);
    for (const node of this.node.querySelectorAll('.sentence')) node.classList.toggle('linked', wanted.has(node.dataset.sentence));
  }

  key(event) {
    const here = event.target.closest('.sentence');
    if (!here) return;
    if (event.key === 'Enter' || event.key === ' ') {
      event.preventDefault();
      this.choose(here);
    } else if (event.key === 'ArrowDown' || event.key === 'ArrowUp') {
      event.preventDefault();
      const all = [...this.node.querySelectorAll('.sentence')];
      const next = all[all.indexOf(here) + (event.key === 'ArrowDown' ? 1 : -1)];
      next?.focus();
    } else if (event.key === 'Escape') {
      here.setAttribute('aria-pressed', 'false');
      this.source.clear();
    }
  }
}

class Entry {
  constructor(thread, summary, index) {
    this.thread = thread;
    this.summary = summary;
    this.prefix = `${index}-${Math.random().toString(36).slice(2, 8)}`;
    this.sentences = [];
    this.shown = 0;
    this.title = element('h2', { dir: 'auto' });
    this.status = element('p', { class: 'status' });
    this.bar = element('div', { class: 'progress', role: 'progressbar', 'aria-label': 'Progress', 'aria-valuemin': '0', 'aria-valuemax': '100' }, element('i'));
    this.stop = element('button', { type: 'button', class: 'quiet', click: () => this.summary.stop() }, 'Stop');
    this.resume = element('button', { type: 'button', class: 'quiet', click: () => this.summary.resume() }, 'Continue');
    this.actions = this.makeActions();
    this.body = element('div', { class: 'prose', dir: 'auto' });
    this.notes = element('ul', { class: 'notes' });
    this.node = element('article', { class: 'entry' },
      element('header', { class: 'entry-head' }, this.title,
        element('div', { class: 'entry-line' }, this.status, this.stop, this.resume, this.actions)),
      this.bar, this.body, this.notes);
    this.listener = () => this.update();
    summary.addEventListener('change', this.listener);
  }

  close() {
    this.summary.removeEventListener('change', this.listener);
  }

  makeActions() {
    const menu = element('details', { class: 'menu' }, element('summary', {}, 'Export'));
    menu.append(element('div', { class: 'menu-items' },
      ...FORMATS.map(([format, name]) => element('button', { type: 'button', click: () => { menu.open = false; this.export(format); } }, name))));
    menu.addEventListener('focusout', (event) => { if (!menu.contains(event.relatedTarget)) menu.open = false; });
    menu.addEventListener('keydown', (event) => { if (event.key === 'Escape') { menu.open = false; menu.querySelector('summary').focus(); } });
    this.copied = element('button', { type: 'button', class: 'quiet', title: 'Copy with citations', click: () => this.copy() }, 'Copy');
    return element('div', { class: 'actions' }, this.copied, menu,
      element('button', { type: 'button', class: 'quiet', click: () => this.delete() }, 'Delete'));
  }

  update() {
    const { summary } = this;
    this.title.textContent = summary.wanted.query || 'Summary';
    if (summary.parts.length < this.shown) this.reset();
    this.showParts();
    this.node.dataset.state = summary.state;
    const isOver = summary.isOver;
    this.stop.hidden = isOver;
    this.resume.hidden = !(summary.state === 'stopped' || summary.state === 'failed');
    this.actions.hidden = !isOver || !summary.parts.length;
    this.status.textContent = this.describe();
    this.showProgress(isOver);
    this.notes.replaceChildren(...(summary.result?.notes ?? []).map((note) => element('li', {}, note)));
    if (isOver && !this.wasOver) announce(this.describe());
    this.wasOver = isOver;
  }

  reset() {
    this.body.replaceChildren();
    this.sentences = [];
    this.shown = 0;
  }

  showParts() {
    const { parts } = this.summary;
    if (this.shown === parts.length) return;
    for (const part of parts.slice(this.shown)) {
      const paragraph = element('p');
      for (const sentence of part.sentences) {
        const id = `${this.prefix}-${this.sentences.length}`;
        const key = `${sentence.source.start}-${sentence.source.end}`;
        const isCopy = plain(sentence.text) === plain(sentence.source.text);
        this.sentences.push({ ...sentence, id, isCopy, pages: part.pages });
        const node = element('span', {
          class: `sentence${isCopy ? '' : ' written'}`, role: 'button', tabindex: '0', 'aria-pressed': 'false',
          'data-sentence': id, 'data-passage': key,
        });
        node.append(sentence.text, element('sup', { 'aria-hidden': 'true' }, `${this.sentences.length}`));
        paragraph.append(node, ' ');
      }
      if (part.pages.length) paragraph.append(element('span', { class: 'tag' }, pagesOf(part.pages)));
      this.body.append(paragraph);
    }
    if (!this.shown && this.thread.entries.indexOf(this) > 0) this.node.scrollIntoView({ block: 'start' });
    this.shown = parts.length;
    this.thread.cite();
  }

  showProgress(isOver) {
    const { progress, state } = this.summary;
    const share = isOver ? 1 : progress?.total && progress.stage === 'writing' ? progress.done / progress.total
      : progress?.total ? progress.done / progress.total / 4 : 0;
    this.bar.classList.toggle('over', isOver);
    this.bar.classList.toggle('unknown', !isOver && (state === 'waiting' || !share));
    this.bar.setAttribute('aria-valuenow', String(Math.round(share * 100)));
    this.bar.firstChild.style.width = `${share * 100}%`;
  }

  describe() {
    const { summary } = this;
    const { progress } = summary;
    if (summary.state === 'failed') return summary.error ?? 'Something went wrong.';
    if (summary.state === 'stopped') return summary.parts.length ? `Stopped after ${count(summary.parts.length, 'part')}` : 'Stopped before the first part';
    if (summary.state === 'done') return this.figures();
    if (progress?.stage === 'busy') return 'Waiting: the server is busy';
    if (progress?.stage === 'lost') return 'The connection was lost: trying again';
    if (summary.state === 'waiting') return 'Waiting to begin';
    const left = progress?.seconds_left ? ` · ${duration(progress.seconds_left)} left` : '';
    if (summary.state === 'reading') {
      const share = progress?.total ? ` ${Math.round((100 * progress.done) / progress.total)}%` : '';
      return `Reading${share}${left}`;
    }
    return progress?.stage === 'writing' && progress.total ? `Writing ${progress.done} of ${progress.total} parts${left}` : 'Writing';
  }

  figures() {
    const { result, parts } = this.summary;
    const words = parts.reduce((sum, part) => sum + plain(part.text).split(' ').length, 0);
    const style = result?.settings?.style === 'abstract' ? 'written' : 'verbatim';
    const read = result ? ` · all ${number(result.document.tokens)} tokens read` : '';
    return `${count(words, 'word')}, ${style}${read}`;
  }

  async copy() {
    const sentences = this.sentences;
    const text = this.summary.parts.map((part) => {
      const own = sentences.filter((sentence) => sentence.source.start >= part.start && sentence.source.end <= part.end && part.sentences.some((each) => each.text === sentence.text));
      return own.map((sentence) => `${plain(sentence.text)} [${sentences.indexOf(sentence) + 1}]`).join(' ');
    }).join('\n\n');
    const sources = sentences.map((sentence, index) => {
      const pages = this.thread.source.pagesFor(sentence.source);
      return `[${index + 1}] ${[this.thread.document.name, pagesOf(pages)].filter(Boolean).join(', ')}: “${plain(sentence.source.text)}”`;
    }).join('\n');
    try {
      await navigator.clipboard.writeText(`${text}\n\n${sources}\n`);
      this.copied.textContent = 'Copied';
      announce('Copied with citations');
    } catch {
      this.copied.textContent = 'Not allowed';
    }
    setTimeout(() => { this.copied.textContent = 'Copy'; }, 2000);
  }

  async export(format) {
    try {
      const file = await api.blob(`/api/summaries/${this.summary.id}/export?format=${format}`);
      const url = URL.createObjectURL(file);
      const stem = this.thread.document.name.replace(/\.[^.]*$/, '') || 'document';
      const link = element('a', { href: url, download: `${stem} - summary.${SUFFIX[format]}` });
      link.click();
      setTimeout(() => URL.revokeObjectURL(url), 10_000);
      announce(`Exported as ${format}`);
    } catch (error) {
      this.status.textContent = error.message;
    }
  }

  async delete() {
    try {
      await api.remove(`/api/summaries/${this.summary.id}`);
      forget(this.summary);
      this.thread.drop(this);
    } catch (error) {
      this.status.textContent = error.message;
    }
  }
}
