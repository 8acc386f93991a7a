// Talking to the server. The token came in the part of the address that browsers keep to themselves.

const KEY = 'awesum-token';
let token = sessionStorage.getItem(KEY) ?? '';

export class Refused extends Error {
  constructor(status, message, seconds) {
    super(message);
    this.status = status;
    this.seconds = seconds;
  }
}

/** Take the token out of an address; true if there was one. */
export function takeToken(address) {
  const found = /[#?&]token=([^&\s]+)/.exec(address);
  const given = found ? decodeURIComponent(found[1]) : /^[^\s#]{16,}$/.test(address.trim()) ? address.trim() : '';
  if (!given) return false;
  token = given;
  sessionStorage.setItem(KEY, token);
  return true;
}

async function request(path, options = {}) {
  const headers = { ...options.headers, Authorization: `Bearer ${token}` };
  let answer;
  try {
    answer = await fetch(path, { ...options, headers, credentials: 'omit' });
  } catch (error) {
    if (error.name === 'AbortError') throw error;
    throw new Refused(0, 'The server does not answer: is `awesum serve` still running?');
  }
  if (answer.ok) return answer;
  let said = {};
  try {
    said = await answer.json();
  } catch { /* not ours */ }
  throw new Refused(answer.status, said.error ?? `The server answered with ${answer.status}.`, said.seconds);
}

const asJson = (body) => ({ body: JSON.stringify(body), headers: { 'Content-Type': 'application/json' } });

export const get = async (path) => (await request(path)).json();
export const post = async (path, body) => request(path, { method: 'POST', ...asJson(body) });
export const remove = async (path) => request(path, { method: 'DELETE' });
export const blob = async (path, signal) => (await request(path, { signal })).blob();

/** The text of a document, every character of it: a byte order mark is one, too. */
export async function text(path) {
  const bytes = await (await request(path)).arrayBuffer();
  return new TextDecoder('utf-8', { ignoreBOM: true }).decode(bytes);
}

/** Send a file; `progress` is told how much of it has been sent. */
export function upload(file, progress) {
  return new Promise((resolve, reject) => {
    const sending = new XMLHttpRequest();
    sending.open('POST', `/api/documents?name=${encodeURIComponent(file.name)}`);
    sending.setRequestHeader('Authorization', `Bearer ${token}`);
    sending.setRequestHeader('Content-Type', 'application/octet-stream');
    sending.upload.onprogress = (event) => event.lengthComputable && progress(event.loaded / event.total);
    sending.onload = () => {
      let said = {};
      try {
        said = JSON.parse(sending.responseText);
      } catch { /* not ours */ }
      if (sending.status === 201) resolve(said);
      else reject(new Refused(sending.status, said.error ?? `The server answered with ${sending.status}.`, said.seconds));
    };
    sending.onerror = () => reject(new Refused(0, 'The file could not be sent: it may be too large, or the server has gone.'));
    sending.send(file);
  });
}

/** Server-sent events, with the headers that EventSource cannot send: yields {event, data, id}. */
export async function* events(path, options) {
  const headers = { ...options.headers, Accept: 'text/event-stream' };
  const answer = await request(path, { ...options, headers });
  const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = '';
  for (;;) {
    const { done, value } = await reader.read();
    if (done) return;
    rest += value;
    const blocks = rest.split('\n\n');
    rest = blocks.pop();
    for (const block of blocks) {
      const fields = {};
      for (const line of block.split('\n')) {
        const colon = line.indexOf(': ');
        if (colon > 0) fields[line.slice(0, colon)] = line.slice(colon + 2);
      }
      if (fields.data) yield { event: fields.event, data: JSON.parse(fields.data), id: fields.id };
    }
  }
}
