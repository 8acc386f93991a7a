// The page of the API: what openapi.json says, for people.

import { element, find } from './dom.js';

const METHODS = ['get', 'post', 'delete'];

const description = await (await fetch('/api/openapi.json')).json();
const page = find('reference');
page.append(element('p', {}, description.info.description), element('pre', {}, [
  'TOKEN=...   # from the address that awesum serve printed',
  `API="${location.origin}/api"`,
  'AUTH="Authorization: Bearer $TOKEN"',
  'ID=$(curl -s -H "$AUTH" --data-binary @report.pdf "$API/documents?name=report.pdf" \\',
  '  -H "Content-Type: application/octet-stream" | jq -r .id)',
  'curl -N -H "$AUTH" -H "Accept: text/event-stream" "$API/summaries" \\',
  '  -d "{\\"document\\": \\"$ID\\", \\"length\\": \\"200w\\"}"',
].join('\n')));
for (const [path, operations] of Object.entries(description.paths)) {
  for (const method of METHODS.filter((name) => operations[name])) {
    const operation = operations[method];
    page.append(element('h2', {}, element('b', {}, method.toUpperCase()), path), element('p', {}, `${operation.summary}.`));
    const rows = (operation.parameters ?? []).map((each) => [each.name, `${each.in}: ${each.description ?? each.schema.type}`]);
    for (const [kind, { schema }] of Object.entries(operation.requestBody?.content ?? {})) {
      const found = schema.$ref ? description.components.schemas[schema.$ref.split('/').pop()] : schema;
      rows.push(['body', [kind, ...(found.properties ? [Object.keys(found.properties).join(', ')] : [])].join(': ')]);
    }
    for (const [status, answer] of Object.entries(operation.responses)) rows.push([status, answer.description]);
    page.append(element('ul', {}, ...rows.map(([name, text]) => element('li', {}, element('b', {}, name), element('span', {}, text)))));
  }
}
