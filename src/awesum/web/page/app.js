// The page: the start with its drop zone and history, and the two panes of a document.

import * as api from './api.js';
import { announce, count, element, find, when } from './dom.js';
import { SettingsForm } from './settings.js';
import { Source } from './source.js';
import * as summaries from './summaries.js';
import { Thread } from './thread.js';

const THEMES = ['automatic', 'light', 'dark'];
const THEME = 'awesum-theme';

const source = new Source();
const thread = new Thread(source);
const settings = new SettingsForm(submit);
let status = null;
let current = null;

// Where we are: the start, or a document

function show(section) {
  for (const name of ['start', 'work', 'locked']) find(name).hidden = name !== section;
  document.body.dataset.section = section;
}

async function route() {
  const [, id] = /^#d=([0-9a-f]+)$/.exec(location.hash) ?? [];
  try {
    if (id) await openDocument(id);
    else await openStart();
  } catch (error) {
    if (error.status === 401) lock(error.message);
    else if (id) location.hash = '';
    else problem(error.message);
  }
}

async function openStart() {
  current = null;
  source.close();
  find('bar-title').textContent = '';
  document.title = 'awesum';
  settings.place('start-settings', 'Summarize');
  find('query').placeholder = 'A question to focus on (optional)';
  show('start');
  status = await api.get('/api/status');
  settings.offer(status);
  await showHistory();
}

async function openDocument(id) {
  status ??= await api.get('/api/status');
  settings.offer(status);
  const record = await api.get(`/api/documents/${id}`);
  if (current?.id === id) return;
  const kept = (await api.get('/api/summaries')).filter((each) => each.document === id).reverse();
  await enter(record, kept.map(summaries.open));
}

async function enter(record, shown) {
  current = record;
  document.title = `${record.name} – awesum`;
  const pages = record.page_starts.length ? `, ${count(record.page_starts.length, 'page')}` : '';
  find('bar-title').replaceChildren(element('b', { dir: 'auto' }, record.name), ` · ${count(record.words, 'word')}${pages}`);
  settings.place('work-settings', 'Ask');
  find('query').value = '';
  find('query').placeholder = 'Ask a question, or summarize again';
  show('work');
  tab('summary');
  const opened = source.open(record);
  thread.open(record, shown);
  await opened;
  thread.cite();
}

function lock(message) {
  show('locked');
  find('key-problem').textContent = sessionStorage.getItem('awesum-token') ? message : '';
}

function problem(message) {
  find('uploads').prepend(element('li', { class: 'upload failed' }, element('span', { class: 'upload-name' }, 'Something went wrong'), element('span', { class: 'upload-state' }, message)));
}

// Documents

async function takeFiles(files) {
  if (!files.length) return;
  if (document.body.dataset.section === 'work') {
    current = null;
    location.hash = '';
  }
  const wanted = { ...settings.wanted(), query: find('query').value.trim() || null };
  const all = [...files];
  let opened = false;
  for (const file of all) {
    const record = await send(file);
    if (!record) continue;
    const summary = summaries.ask(record.id, wanted);
    if (!opened && all.length === 1) {
      opened = true;
      go(record, [summary]);
    } else follow(record, summary);
  }
}

async function send(file) {
  const state = element('span', { class: 'upload-state' }, 'Sending');
  const line = element('li', { class: 'upload' }, element('span', { class: 'upload-name', dir: 'auto' }, file.name), state);
  find('uploads').append(line);
  try {
    const record = await api.upload(file, (share) => { state.textContent = share < 1 ? `Sending ${Math.round(share * 100)}%` : 'Opening'; });
    line.remove();
    return record;
  } catch (error) {
    if (error.status === 401) lock(error.message);
    line.classList.add('failed');
    state.textContent = error.message;
    line.append(element('button', { type: 'button', class: 'quiet', 'aria-label': `Dismiss ${file.name}`, click: () => line.remove() }, 'Dismiss'));
    announce(`${file.name}: ${error.message}`);
    return null;
  }
}

/** One of several documents: a line that tells how far it is. */
function follow(record, summary) {
  const state = element('span', { class: 'upload-state' });
  const link = element('a', { class: 'upload-name', href: `#d=${record.id}`, dir: 'auto' }, record.name);
  const line = element('li', { class: 'upload' }, link, state);
  find('uploads').append(line);
  const update = () => {
    const names = { waiting: 'Waiting', reading: 'Reading', writing: 'Writing', done: 'Done', stopped: 'Stopped' };
    state.textContent = summary.state === 'failed' ? summary.error : names[summary.state];
    line.classList.toggle('failed', summary.state === 'failed');
    line.classList.toggle('done', summary.state === 'done');
    if (summary.isOver && document.body.dataset.section === 'start') showHistory();
  };
  summary.addEventListener('change', update);
  update();
}

function go(record, shown) {
  history.pushState(null, '', `#d=${record.id}`);
  enter(record, shown);
}

function submit(wanted, query) {
  if (!current) {
    const text = find('paste-text').value;
    if (text.trim()) takeText(text);
    else find('files').click();
    return;
  }
  const summary = summaries.ask(current.id, { ...wanted, query: query || null });
  find('query').value = '';
  tab('summary');
  thread.add(summary);
}

async function takeText(text) {
  if (!text.trim()) return;
  const first = text.trim().split('\n')[0];
  const name = first.length > 60 ? `${first.slice(0, 57)}…` : first;
  try {
    const record = await (await api.post('/api/documents', { text, name })).json();
    find('paste-text').value = '';
    const wanted = { ...settings.wanted(), query: find('query').value.trim() || null };
    go(record, [summaries.ask(record.id, wanted)]);
  } catch (error) {
    if (error.status === 401) lock(error.message);
    problem(error.message);
  }
}

// History

async function showHistory() {
  const search = find('search').value.trim();
  const [documents, found] = await Promise.all([
    api.get('/api/documents'),
    api.get(`/api/summaries?search=${encodeURIComponent(search)}`),
  ]);
  const byDocument = new Map();
  for (const each of found) byDocument.set(each.document, [...(byDocument.get(each.document) ?? []), each]);
  const words = search.toLowerCase();
  const shown = documents.filter((each) => !search || byDocument.has(each.id) || each.name.toLowerCase().includes(words));
  find('history').hidden = !documents.length;
  find('history-list').replaceChildren(...shown.map((each) => historyLine(each, byDocument.get(each.id) ?? [])));
  find('history-note').textContent = shown.length ? (status.history ? '' : 'Nothing is kept after the server ends.') : 'Nothing found.';
}

function historyLine(record, kept) {
  const pages = record.page_starts.length ? count(record.page_starts.length, 'page') : count(record.words, 'word');
  const questions = kept.filter((each) => each.query).length;
  const asked = questions ? ` · ${count(questions, 'question')}` : '';
  const opening = kept.find((each) => each.opening)?.opening ?? '';
  return element('li', {},
    element('a', { href: `#d=${record.id}` },
      element('span', { class: 'history-name', dir: 'auto' }, record.name),
      element('span', { class: 'history-about' }, `${pages}${asked} · ${when(record.created)}`),
      element('span', { class: 'history-opening', dir: 'auto' }, opening)),
    element('button', {
      type: 'button', class: 'quiet danger', 'aria-label': `Delete ${record.name}`,
      click: async () => {
        await api.remove(`/api/documents/${record.id}`);
        announce(`${record.name} was deleted`);
        await showHistory();
      },
    }, 'Delete'));
}

// What people do

function tab(name) {
  document.body.dataset.tab = name;
  find('tab-summary').setAttribute('aria-pressed', String(name === 'summary'));
  find('tab-source').setAttribute('aria-pressed', String(name === 'source'));
}

function setTheme(name) {
  if (name === 'automatic') delete document.documentElement.dataset.theme;
  else document.documentElement.dataset.theme = name;
  find('theme-name').textContent = `${name[0].toUpperCase()}${name.slice(1)}`;
  find('theme').setAttribute('aria-label', `Theme: ${name}`);
  localStorage.setItem(THEME, name);
}

find('home').addEventListener('click', (event) => {
  event.preventDefault();
  if (location.hash) location.hash = '';
  else route();
});
find('theme').addEventListener('click', () => {
  const now = localStorage.getItem(THEME) ?? 'automatic';
  setTheme(THEMES[(THEMES.indexOf(now) + 1) % THEMES.length]);
});
find('choose').addEventListener('click', () => find('files').click());
find('files').addEventListener('change', () => {
  takeFiles(find('files').files);
  find('files').value = '';
});
find('paste').addEventListener('click', () => {
  const form = find('paste-form');
  form.hidden = !form.hidden;
  find('paste').setAttribute('aria-expanded', String(!form.hidden));
  if (!form.hidden) find('paste-text').focus();
});
find('paste-form').addEventListener('submit', (event) => {
  event.preventDefault();
  takeText(find('paste-text').value);
});
find('key-form').addEventListener('submit', (event) => {
  event.preventDefault();
  if (api.takeToken(find('key').value)) route();
  else find('key-problem').textContent = 'There is no token in that.';
});
find('tab-summary').addEventListener('click', () => tab('summary'));
find('tab-source').addEventListener('click', () => tab('source'));
thread.addEventListener('chosen', () => {
  if (matchMedia('(max-width: 56rem)').matches) tab('source');
  if (source.active) requestAnimationFrame(() => source.scrollTo(source.active));
});
thread.addEventListener('empty', () => find('query').focus());
let searching = 0;
find('search').addEventListener('input', () => {
  clearTimeout(searching);
  searching = setTimeout(() => showHistory().catch((error) => problem(error.message)), 150);
});
let isSure = 0;
find('clear').addEventListener('click', async () => {
  if (Date.now() - isSure > 4000) {
    isSure = Date.now();
    find('clear').textContent = 'Really delete all?';
    setTimeout(() => { find('clear').textContent = 'Delete all'; }, 4000);
    return;
  }
  await api.remove('/api/history');
  find('clear').textContent = 'Delete all';
  announce('Everything was deleted');
  await showHistory();
});

let depth = 0;
addEventListener('dragenter', (event) => {
  if (![...event.dataTransfer.types].includes('Files')) return;
  event.preventDefault();
  depth += 1;
  find('veil').hidden = false;
});
addEventListener('dragover', (event) => event.preventDefault());
addEventListener('dragleave', () => {
  depth = Math.max(0, depth - 1);
  find('veil').hidden = depth === 0;
});
addEventListener('drop', (event) => {
  event.preventDefault();
  depth = 0;
  find('veil').hidden = true;
  takeFiles(event.dataTransfer.files);
});
document.querySelector('.skip').addEventListener('click', (event) => {
  event.preventDefault(); // the address stays that of the document
  find('main').focus();
});
addEventListener('hashchange', () => {
  if (api.takeToken(location.hash)) history.replaceState(null, '', location.pathname);
  route();
});
addEventListener('popstate', () => { if (!location.hash || location.hash !== `#d=${current?.id}`) route(); });

setTheme(localStorage.getItem(THEME) ?? 'automatic');
if (api.takeToken(location.hash)) history.replaceState(null, '', location.pathname);
route();
