// Rows as nobody writes them: drawn by size, nesting and parameters, in every format of input.
import { once } from 'node:events';
import { createWriteStream } from 'node:fs';

export const FORMATS = ['jsonl', 'text', 'csv', 'tsv', 'parquet', 'openai-batch'];

/** Share of rows that are large, and what they may have: beyond what a line may, too. */
const LARGE = 0.04;
const MOST_BYTES = 12 * 2 ** 20;

const filled = (item, bytes) => {
  const pieces = [];
  for (let at = 0, length = 0; length < bytes; at += 1) {
    const piece = item(at);
    pieces.push(piece);
    length += piece.length + 1;
  }
  return pieces;
};
const list = (item) => (bytes) => `[${filled(item, bytes).join()}]`;
const object = (item) => (bytes) => `{${filled(item, bytes).join()}}`;
const text = (piece) => (bytes) => `"${piece.repeat(Math.max(1, Math.floor(bytes / Buffer.byteLength(piece))))}"`;

/** JSON of so many bytes, about: by kind. */
export const VALUES = {
  objects: list(() => '{}'),
  lists: list(() => '[]'),
  'whole numbers': list((at) => String(at % 9)),
  fractions: list((at) => String(Math.sin(at)).slice(0, 9)),
  'long fractions': list((at) => String(Math.sin(at))),
  'long numbers': list((at) => `9007199254${740993 + at}`),
  powers: list((at) => `${at}e${at % 300}`),
  'one number': (bytes) => `0.${'3'.repeat(bytes)}`,
  'short texts': list((at) => `"s${at}"`),
  'same texts': list(() => '"same"'),
  keys: object((at) => `"k${at}":${at}`),
  'objects of keys': list((at) => `{"k${at}":1}`),
  'rows of a table': list((at) => `{"name":"n${at}","value":${at}.5,"tags":["a","b"]}`),
  nested: (bytes) => '['.repeat(bytes / 2) + ']'.repeat(bytes / 2),
  'nested objects': (bytes) => '{"a":'.repeat(bytes / 6) + '1' + '}'.repeat(bytes / 6),
  letters: text('what is so is so '),
  signs: text('見渡す限り'),
  escapes: text('\\n\\"\\\\\\u00e9'),
  backslashes: text('\\\\'),
};

/** What of a row such a value is; a line for each. */
const PLACES = {
  note: (json, { at }) => `{"id":"r${at}","tokens":[1,5,${3 + (at % 250)}],"note":${json}}`,
  prompt: (json, { at }) => `{"id":"r${at}","prompt":${json}}`,
  tokens: (json, { at }) => `{"id":"r${at}","tokens":${json}}`,
  messages: (json, { at }) => `{"id":"r${at}","messages":${json}}`,
  content: (json, { at }) => `{"id":"r${at}","messages":[{"role":"user","content":${json}}]}`,
  tools: (json, { at }) => `{"id":"r${at}","messages":[{"role":"user","content":"a"}],"tools":${json}}`,
  templateArgs: (json, { at }) => `{"id":"r${at}","messages":[{"role":"user","content":"a"}],"templateArgs":${json}}`,
  responseFormat: (json, { at }) =>
    `{"id":"r${at}","prompt":"a","responseFormat":{"type":"json_schema","schema":{"enum":${json}}}}`,
  id: (json) => `{"id":${json},"prompt":"a"}`,
  whole: (json) => json,
  broken: (json) => `{"prompt":${json}`,
};

/** @returns {at, kind, bytes, json, text}: the row as a line of JSON, and a text of that size for other formats */
export function drawnRow(random, { at, format, kinds }) {
  const large = random.chance(LARGE);
  const kind = large ? random.pick(kinds ?? Object.keys(VALUES)) : 'small';
  const bytes = large ? Math.floor(2 ** (10 + random.next() * Math.log2(MOST_BYTES / 1024))) : random.whole(1, 60);
  if (!large) {
    const small = random.pick([
      `{"id":${at},"tokens":[1,${3 + (at % 250)},9],"maxNewTokens":${random.whole(0, 6)}}`,
      `{"id":${at},"prompt":"row ${at}","temperature":${random.pick([0, 1, -1])},"seed":${at}}`,
      `{"id":${at},"messages":[{"role":"user","content":"${'a'.repeat(bytes)}"}],"topP":0.5}`,
      `{"prompt":"${'b'.repeat(bytes)}","stop":["x","yz"]}`,
      `not json ${at}`,
    ]);
    return {
      at,
      kind,
      bytes,
      json: format === 'openai-batch' ? request(at, JSON.stringify('a'.repeat(bytes))) : small,
      text: `row ${at} ${'c'.repeat(bytes)}`,
    };
  }
  const place = random.pick(Object.keys(PLACES));
  const json = VALUES[kind](bytes);
  const line = format === 'openai-batch' ? request(at, json, random.chance(0.5)) : PLACES[place](json, { at });
  return { at, kind: `${kind} as ${place}`, bytes, json: line, text: json.replace(/[\r\n]/g, ' ') };
}

function request(at, content, beside = false) {
  const body = beside
    ? `{"model":"m","messages":[{"role":"user","content":"a"}],"metadata":${content}}`
    : `{"model":"m","messages":[{"role":"user","content":${content}}]}`;
  return `{"custom_id":"r${at}","method":"POST","url":"/v1/chat/completions","body":${body}}`;
}

/** Writes rows as a file of that format. @returns how many rows there are in it */
export async function writeInput(file, format, rows) {
  if (format === 'parquet') {
    const { encodeResults } = await import('../../../dist/api/jobs.js');
    const results = rows.map(({ at, text: prompt }) => ({
      id: at,
      index: at,
      text: '',
      tokens: [],
      finishReason: 'stop',
      usage: { promptTokens: 0, completionTokens: 0 },
      carry: { prompt, number: at },
    }));
    await written(file, encodeResults(results, { format: 'parquet' }));
    return rows.length;
  }
  const mark = format === 'tsv' ? '\t' : ',';
  const quoted = (value) => `"${value.replaceAll('"', '""')}"`;
  await written(
    file,
    (function* () {
      if (format === 'csv' || format === 'tsv') yield `number${mark}prompt\n`;
      for (const { at, json, text: own } of rows) {
        if (format === 'text') yield `${own}\n`;
        else if (format === 'csv' || format === 'tsv') yield `${at}${mark}${quoted(own)}\n`;
        else yield `${json}\n`;
      }
    })(),
  );
  return rows.length;
}

async function written(file, pieces) {
  const stream = createWriteStream(file);
  for await (const piece of pieces) if (!stream.write(piece)) await once(stream, 'drain');
  await once(stream.end(), 'close');
}
