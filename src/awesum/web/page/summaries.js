// Summaries on their way: what the server has told about each. Those who show one listen to its changes.

import * as api from './api.js';

const ENDED = new Set(['done', 'stopped', 'failed']);
const AT_ONCE = 2; // a browser opens six connections to a server: pages and texts need some of them
const PATIENCE = [1000, 2000, 4000, 8000];

const known = new Map();
const waiting = [];
let running = 0;

export class Summary extends EventTarget {
  constructor(record) {
    super();
    this.id = record.id ?? null;
    this.document = record.document;
    this.wanted = { length: record.length, query: record.query, style: record.style, strict: record.strict };
    this.state = record.state ?? 'waiting';
    this.error = record.error ?? null;
    this.created = record.created ?? Date.now() / 1000;
    this.parts = [];
    this.progress = null;
    this.result = null;
    this.leaving = null;
  }

  get isOver() {
    return ENDED.has(this.state);
  }

  get sentences() {
    return this.parts.flatMap((part) => part.sentences.map((sentence) => ({ ...sentence, pages: part.pages })));
  }

  change() {
    this.dispatchEvent(new Event('change'));
  }

  /** Load what was kept. */
  async load() {
    const kept = await api.get(`/api/summaries/${this.id}`);
    this.state = kept.state;
    this.error = kept.error;
    this.result = kept.summary;
    if (kept.summary) this.parts = kept.summary.parts;
    this.change();
    if (!this.isOver) this.resume();
  }

  /** Ask for it, or wait until there is a connection to spare. */
  begin() {
    this.state = 'waiting';
    waiting.push(this);
    startNext();
  }

  resume() {
    this.error = null;
    this.begin();
  }

  stop() {
    if (this.id && !this.isOver) api.post(`/api/summaries/${this.id}/stop`, {}).catch(() => this.leaving?.abort());
    else if (waiting.includes(this)) {
      waiting.splice(waiting.indexOf(this), 1);
      this.state = 'stopped';
      this.change();
    } else this.leaving?.abort();
  }

  async run() {
    for (let attempt = 0; ; attempt += 1) {
      const before = this.parts.length;
      try {
        await this.follow();
        if (this.isOver) return;
        throw new api.Refused(0, 'The connection was lost.');
      } catch (error) {
        if (error.name === 'AbortError') {
          this.fail('stopped', null);
          return;
        }
        const isBusy = error.status === 429;
        if (this.parts.length > before) attempt = 0;
        if (!isBusy && (error.status !== 0 || attempt >= PATIENCE.length)) {
          this.fail('failed', error.message);
          return;
        }
        this.progress = { stage: isBusy ? 'busy' : 'lost' };
        this.change();
        await new Promise((resolve) => setTimeout(resolve, isBusy ? (error.seconds ?? 2) * 1000 : PATIENCE[attempt]));
        if (isBusy) attempt -= 1;
      }
    }
  }

  fail(state, message) {
    this.state = state;
    this.error = message;
    this.change();
  }

  async follow() {
    this.leaving = new AbortController();
    const { signal } = this.leaving;
    const begun = this.id
      ? api.events(`/api/summaries/${this.id}/events`, { signal, headers: { 'Last-Event-ID': String(this.parts.length) } })
      : api.events('/api/summaries', {
        signal,
        method: 'POST',
        body: JSON.stringify({ document: this.document, ...this.wanted }),
        headers: { 'Content-Type': 'application/json' },
      });
    for await (const { event, data } of begun) {
      if (event === 'summary') {
        this.id = data.id;
        this.created = data.created;
        known.set(this.id, this);
      } else if (event === 'state') this.state = data.state;
      else if (event === 'progress') this.progress = data;
      else if (event === 'part') this.parts.push(data);
      else {
        this.state = event;
        this.error = data.error;
        this.result = data.summary;
        if (data.summary) this.parts = data.summary.parts;
      }
      this.change();
      if (this.isOver) return;
    }
  }
}

function startNext() {
  while (running < AT_ONCE && waiting.length) {
    const next = waiting.shift();
    running += 1;
    next.run().finally(() => {
      running -= 1;
      startNext();
    });
  }
}

/** A new summary of a document. */
export function ask(document, wanted) {
  const summary = new Summary({ document, ...wanted });
  summary.begin();
  return summary;
}

/** A summary that the server knows; the same object for the same one. */
export function open(record) {
  let summary = known.get(record.id);
  if (!summary) {
    summary = new Summary(record);
    known.set(record.id, summary);
    summary.load().catch((error) => summary.fail('failed', error.message));
  }
  return summary;
}

export function forget(summary) {
  known.delete(summary.id);
}
