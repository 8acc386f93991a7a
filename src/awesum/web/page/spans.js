// Spans of the text. The server counts characters, JavaScript counts half of some of them twice.

/** From the server's positions to those of a JavaScript string. */
export class Positions {
  constructor(text) {
    this.beyond = []; // the server's positions of characters that take two places here
    if (/[\ud800-\udbff]/.test(text)) {
      let position = 0;
      for (const character of text) {
        if (character.length === 2) this.beyond.push(position);
        position += 1;
      }
    }
  }

  at(position) {
    let [low, high] = [0, this.beyond.length];
    while (low < high) {
      const middle = (low + high) >> 1;
      if (this.beyond[middle] < position) low = middle + 1;
      else high = middle;
    }
    return position + low;
  }
}

/** Cut a stretch of text at the edges of the passages in it: [{start, end, passages}]. */
export function cut(start, end, passages) {
  const inside = passages.filter((passage) => passage.start < end && passage.end > start);
  const edges = new Set([start, end]);
  for (const passage of inside) {
    edges.add(Math.max(start, passage.start));
    edges.add(Math.min(end, passage.end));
  }
  const sorted = [...edges].sort((one, other) => one - other);
  return sorted.slice(0, -1).map((edge, index) => ({
    start: edge,
    end: sorted[index + 1],
    passages: inside.filter((passage) => passage.start < sorted[index + 1] && passage.end > edge),
  }));
}
