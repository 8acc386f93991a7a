// What to summarize, and how: the form below the drop zone and below a summary is one and the same.

import { find, number } from './dom.js';

const KEY = 'awesum-settings';
const WORDS = [50, 75, 100, 150, 200, 250, 300, 400, 500, 600, 800, 1000, 1500, 2000, 3000];
const PERCENT = [0.5, 1, 2, 3, 4, 5, 7, 10, 15, 20, 25, 30, 40, 50];
const START = { unit: 'w', w: WORDS.indexOf(200), '%': PERCENT.indexOf(5), style: 'extract', strict: false };

export class SettingsForm {
  constructor(submit) {
    this.node = find('settings');
    this.values = { ...START, ...JSON.parse(localStorage.getItem(KEY) ?? '{}') };
    this.node.addEventListener('input', () => this.read());
    this.node.addEventListener('submit', (event) => {
      event.preventDefault();
      submit(this.wanted(), find('query').value.trim());
    });
    find('fold').addEventListener('click', () => this.fold(find('fold').getAttribute('aria-expanded') === 'true'));
    this.write();
  }

  fold(closed) {
    find('fold').setAttribute('aria-expanded', String(!closed));
  }

  /** Offer what the server can do. */
  offer(status) {
    find('style').hidden = !status.styles.includes('abstract');
    if (find('style').hidden) this.values.style = 'extract';
    this.write();
  }

  place(where, label) {
    find(where).append(this.node);
    find('go').textContent = label;
  }

  steps() {
    return this.values.unit === '%' ? PERCENT : WORDS;
  }

  write() {
    const { values } = this;
    this.node.querySelector(`[name="unit"][value="${values.unit}"]`).checked = true;
    this.node.querySelector(`[name="style"][value="${values.style}"]`).checked = true;
    find('strict').checked = values.strict;
    const amount = find('amount');
    amount.max = String(this.steps().length - 1);
    amount.value = String(values[values.unit] ?? 0);
    this.show();
  }

  read() {
    const { values } = this;
    const unit = this.node.querySelector('[name="unit"]:checked').value;
    if (unit !== values.unit) {
      values.unit = unit;
      this.write();
    } else if (unit !== 'auto') values[unit] = Number(find('amount').value);
    values.style = this.node.querySelector('[name="style"]:checked').value;
    values.strict = find('strict').checked;
    localStorage.setItem(KEY, JSON.stringify(values));
    this.show();
  }

  show() {
    const { values } = this;
    const isAuto = values.unit === 'auto';
    find('amount').disabled = isAuto;
    const amount = this.steps()[values[values.unit]];
    const shown = isAuto ? 'as people would' : values.unit === '%' ? `${amount}%` : `${number(amount)} words`;
    find('amount-shown').textContent = shown;
    find('amount').setAttribute('aria-valuetext', shown);
    find('strict').disabled = values.style !== 'abstract';
    const style = values.style === 'abstract' ? (values.strict ? 'written, strict' : 'written') : 'verbatim';
    find('fold').textContent = `${isAuto ? 'Automatic length' : shown}, ${style}`;
  }

  wanted() {
    const { values } = this;
    const length = values.unit === 'auto' ? 'auto' : `${this.steps()[values[values.unit]]}${values.unit}`;
    return { length, style: values.style, strict: values.style === 'abstract' && values.strict };
  }
}
