import {
  appendFileSync,
  chmodSync,
  closeSync,
  createReadStream,
  openSync,
  renameSync,
  truncateSync,
  utimesSync,
  writeFileSync,
  writeSync,
  type ReadStream,
} from 'node:fs';
import { Readable } from 'node:stream';
import { gzipSync } from 'node:zlib';
import { describe, expect, test } from '@jest/globals';
import fc from 'fast-check';
import { JobFileError } from '../../../src/errors/JobFileError.js';
import { UsageError } from '../../../src/errors/UsageError.js';
import { readRows, type ReadRowsOptions } from '../../../src/jobs/input/readRows.js';
import type { BadRow, RowInput } from '../../../src/Row.js';
import { collect, temporaryFolder, writeLines } from '../support/files.js';
import { tries } from '../../support/tries.js';
import { anyCharacter } from '../../support/anyCharacter.js';

const path = temporaryFolder();
/** A row whose id nobody gave: it is the number of its line. */
const NUMBERED = { duplicate: false };

function rowsOf(text: string | Uint8Array, options: ReadRowsOptions = {}, chunk = 7): Promise<RowInput[]> {
  return collect(readRows(chunks(typeof text === 'string' ? Buffer.from(text) : text, chunk), options));
}

async function* chunks(bytes: Uint8Array, size: number): AsyncGenerator<Uint8Array> {
  for (let at = 0; at < bytes.length; at += size) yield bytes.subarray(at, at + size);
}

async function errorOf(line: string, chunk?: number): Promise<string> {
  const rows = await rowsOf(`${line}\n`, {}, chunk);
  expect(rows).toHaveLength(1);
  const [row] = rows;
  return row !== undefined && 'error' in row ? `${row.error.code}: ${row.error.message}` : 'no error';
}

describe('lines', () => {
  test('ids default to the number of the line, blank lines counted', async () => {
    const rows = await rowsOf('\n{"prompt":"a"}\r\n  \t\r\n\n{"id":"x","prompt":"b"}\n{"prompt":"c"}');
    expect(rows).toEqual([
      { id: 2, ...NUMBERED, prompt: 'a' },
      { id: 'x', prompt: 'b' },
      { id: 6, ...NUMBERED, prompt: 'c' },
    ]);
  });

  test('a byte order mark is dropped at the start and nowhere else', async () => {
    const rows = await rowsOf('\uFEFF{"prompt":"a"}\n\uFEFF{"prompt":"b"}\n');
    expect(rows[0]).toEqual({ id: 1, ...NUMBERED, prompt: 'a' });
    expect(rows[1]).toMatchObject({ id: 2, error: { code: 'invalid-json' } });
  });

  test('text: a line is a prompt, blanks within it kept', async () => {
    expect(await rowsOf('\uFEFF  a \r\n\n{"prompt":1}\nlast', { format: 'text' })).toEqual([
      { id: 1, ...NUMBERED, prompt: '  a ', chat: 'auto' },
      { id: 3, ...NUMBERED, prompt: '{"prompt":1}', chat: 'auto' },
      { id: 4, ...NUMBERED, prompt: 'last', chat: 'auto' },
    ]);
  });

  test('bytes that are no UTF-8 spoil their own line', async () => {
    const bytes = Buffer.concat([
      Buffer.from('{"prompt":"'),
      Buffer.from([0xc3, 0x28]),
      Buffer.from('"}\n{"prompt":"b"}\n'),
    ]);
    expect(await rowsOf(bytes)).toMatchObject([
      { id: 1, error: { code: 'invalid-json' } },
      { id: 2, prompt: 'b' },
    ]);
    expect(await rowsOf(bytes, { format: 'text' })).toMatchObject([
      { id: 1, error: { code: 'invalid-row' } },
      { id: 2 },
    ]);
  });

  test.each(['jsonl', 'text', 'openai-batch'] as const)('UTF-16 is refused as what it is: %s', async (format) => {
    const little = Buffer.from('\ufeffhello\nyou\n', 'utf16le');
    for (const bytes of [little, Buffer.from(little).swap16()])
      await expect(rowsOf(bytes, { format })).rejects.toThrow(
        /: found UTF-16, by its byte order mark, expected UTF-8; convert the file first: iconv -f UTF-16 -t UTF-8$/,
      );
  });

  test.each(['jsonl', 'text', 'openai-batch'] as const)(
    'what is compressed under a name that does not say so is refused as what it is: %s',
    async (format) => {
      await expect(rowsOf(gzipSync('{"prompt":"a"}\n'), { format })).rejects.toThrow(
        /: found what gzip has compressed, by its first bytes, expected text; name the file so that it ends with \.gz$/,
      );
      await expect(rowsOf(Buffer.from('28b52ffd2000', 'hex'), { format })).rejects.toThrow(/zstd .* with \.zst$/);
    },
  );

  test('a line over the limit is skipped to its end, and never held', async () => {
    const megabyte = Buffer.alloc(2 ** 20, 'x');
    async function* endless(): AsyncGenerator<Uint8Array> {
      yield Buffer.from('{"prompt":"a"}\n"');
      for (let count = 0; count < 512; count += 1) yield megabyte;
      yield Buffer.from('"\n{"prompt":"b"}\n');
    }
    const before = process.memoryUsage().rss;
    let peak = 0;
    const rows: RowInput[] = [];
    for await (const row of readRows(endless(), { maxLineBytes: 4 * 2 ** 20 })) {
      rows.push(row);
      peak = Math.max(peak, process.memoryUsage().rss);
    }
    expect(rows).toMatchObject([{ prompt: 'a' }, { id: 2, error: { code: 'too-long' } }, { id: 3, prompt: 'b' }]);
    expect(peak - before).toBeLessThan(128 * 2 ** 20);
  });

  test('a line of exactly the limit is read', async () => {
    const line = '{"prompt":"abc"}';
    expect(await rowsOf(`${line}\n`, { maxLineBytes: line.length })).toEqual([{ id: 1, ...NUMBERED, prompt: 'abc' }]);
    expect(await rowsOf(`${line}\n`, { maxLineBytes: line.length - 1 })).toMatchObject([
      { error: { code: 'too-long' } },
    ]);
  });
});

describe('fields', () => {
  test('every override, and nulls count as absent', async () => {
    const row = {
      id: 'x',
      messages: [{ role: 'user', content: 'hi', prefix: 'dropped' }],
      maxNewTokens: 1,
      temperature: 0.5,
      topP: 0.9,
      topK: 3,
      minP: 0.1,
      repetitionPenalty: 1.1,
      seed: 7,
      stop: ['a', 'b'],
      prompt: null,
      tokens: null,
    };
    expect(await rowsOf(JSON.stringify(row))).toEqual([
      {
        id: 'x',
        messages: [{ role: 'user', content: 'hi' }],
        maxNewTokens: 1,
        temperature: 0.5,
        topP: 0.9,
        topK: 3,
        minP: 0.1,
        repetitionPenalty: 1.1,
        seed: 7,
        stop: ['a', 'b'],
      },
    ]);
    expect(await rowsOf('{"id":null,"tokens":[1,2],"stop":"one","temperature":null}')).toEqual([
      { id: 1, ...NUMBERED, tokens: [1, 2], stop: ['one'] },
    ]);
  });

  test.each([
    ['{"prompt":"a"', 'invalid-json: line 1: '],
    ['[{"prompt":"a"}]', 'invalid-row: found an array, expected an object'],
    ['"text"', 'invalid-row: found the string "text", expected an object'],
    ['null', 'invalid-row: found null, expected an object'],
    ['{}', 'no-prompt: found none of them, expected exactly one of prompt, messages and tokens'],
    ['{"prompt":null}', 'no-prompt: found none of them (prompt is null), expected exactly one of'],
    ['{"prompt":null,"tokens":null}', 'no-prompt: found none of them (prompt and tokens are null), expected'],
    ['{"prompt":"a","tokens":[1]}', 'no-prompt: found prompt and tokens'],
    ['{"prompt":1}', 'invalid-row: prompt: found 1, expected a string'],
    ['{"messages":{}}', 'invalid-row: messages: found an object'],
    ['{"messages":[1]}', 'invalid-row: messages[0]: found 1'],
    ['{"messages":[{"role":"user"}]}', 'invalid-row: messages[0].content: found nothing, expected a string'],
    ['{"messages":[{"role":1,"content":"a"}]}', 'invalid-row: messages[0].role: found 1'],
    ['{"tokens":"1"}', 'invalid-row: tokens: found the string "1"'],
    ['{"tokens":[1,1.5]}', 'invalid-row: tokens[1]: found 1.5, expected a token id'],
    ['{"tokens":[1,"2"]}', 'invalid-row: tokens[1]: found the string "2"'],
    ['{"prompt":"a","temperature":"0"}', 'invalid-row: temperature: found the string "0", expected a number'],
    ['{"prompt":"a","stop":[1]}', 'invalid-row: stop[0]: found 1, expected a string'],
    ['{"prompt":"a","stop":{}}', 'invalid-row: stop: found an object'],
    ['{"id":true,"prompt":"a"}', 'invalid-row: id: found true, expected a string or a number'],
    ['{"id":[1],"prompt":"a"}', 'invalid-row: id: found an array'],
    ['{"id":9007199254740993,"prompt":"a"}', 'invalid-row: id: found a number that loses digits'],
    ['{"id":1e999,"prompt":"a"}', 'invalid-row: id: found a number that loses digits'],
  ])('%s', async (line, expected) => {
    expect(await errorOf(line)).toContain(expected);
  });

  test('a bad row keeps its id and what it carries', async () => {
    expect(await rowsOf('{"id":"x","prompt":3,"source":"s"}', { carryFields: true })).toMatchObject([
      { id: 'x', error: { code: 'invalid-row' }, carry: { source: 's' } },
    ]);
  });

  test('numbers that would lose digits are carried, and go into templates, as texts of these; ours stay errors', async () => {
    const line =
      '{"id":"a","prompt":"x","order":1234567890123456789,"in":{"it":[-9007199254740993,2]},"far":1e400,"text":"1234567890123456789"}';
    const carry = {
      order: '1234567890123456789',
      in: { it: ['-9007199254740993', 2] },
      far: '1e400',
      text: '1234567890123456789',
    };
    expect(await rowsOf(line, { carryFields: true })).toEqual([{ id: 'a', prompt: 'x', carry }]);
    expect(await rowsOf(line)).toEqual([{ id: 'a', prompt: 'x' }]);
    expect(await rowsOf('{"prompt":"a","seed":12345678901234567890,"n":1}', { carryFields: true })).toEqual([
      { id: 1, duplicate: false, prompt: 'a', seed: 12345678901234567000, carry: { n: 1 } },
    ]);
    const schema = '{"type":"json_schema","json_schema":{"name":"a","schema":{"enum":[1234567890123456789]}}}';
    expect(await rowsOf(`{"id":"b","prompt":"x","response_format":${schema}}`)).toEqual([
      {
        id: 'b',
        error: { code: 'unsupported-schema', message: expect.stringContaining('loses digits when it is read') },
      },
    ]);
  });

  test('other fields are carried if asked for, and ours never', async () => {
    const line = '{"id":1,"prompt":"a","seed":1,"source":{"page":3},"new_tokens_of":9}';
    expect(await rowsOf(line)).toEqual([{ id: 1, prompt: 'a', seed: 1 }]);
    expect(await rowsOf(line, { carryFields: true })).toEqual([
      { id: 1, prompt: 'a', seed: 1, carry: { source: { page: 3 }, new_tokens_of: 9 } },
    ]);
  });

  test('__proto__ is an ordinary field: no prototype changes', async () => {
    const [row] = await rowsOf(
      '{"prompt":"a","__proto__":{"temperature":2,"polluted":true},"constructor":{"prototype":1}}',
      { carryFields: true },
    );
    expect(row).toMatchObject({ prompt: 'a' });
    expect((row as { temperature?: number }).temperature).toBeUndefined();
    expect(({} as { polluted?: boolean }).polluted).toBeUndefined();
    expect(JSON.stringify((row as BadRow).carry)).toBe(
      '{"__proto__":{"temperature":2,"polluted":true},"constructor":{"prototype":1}}',
    );
  });

  test('nesting that no parser has a stack for is a bad row or none, never a crash', async () => {
    const deep = `{"prompt":"a","deep":${'['.repeat(200_000)}${']'.repeat(200_000)}}`;
    const rows = await rowsOf(`${deep}\n{"prompt":"b"}\n`, { carryFields: true }, 65_536);
    expect(rows).toHaveLength(2);
    expect(rows[1]).toEqual({ id: 2, ...NUMBERED, prompt: 'b' });
  });

  const nested = `${'['.repeat(5000)}12345678901234567890${']'.repeat(5000)}`;

  test.each([
    [
      'beside messages, and numbers with a spelling of their own',
      `{"prompt":"a","messages":null,"n":1.0,"x":${nested}}`,
    ],
    ['as a schema', `{"prompt":"a","responseFormat":{"type":"json_schema","schema":{"enum":${nested}}}}`],
    ['as tools', `{"prompt":"a","tools":${nested}}`],
    ['after megabytes', `{"prompt":"${'a'.repeat(2 ** 20)}","tools":${nested}}`],
  ])('nesting that nobody who goes through a row has a stack for is a bad row: %s', async (_, line) => {
    const rows = await rowsOf(`${line}\n{"prompt":"b"}\n`, {}, 2 ** 24);
    expect(rows[0]).toMatchObject({
      error: {
        code: 'invalid-json',
        message: 'line 1: found more than 1000 lists and objects inside of one another, expected at most so many',
      },
    });
    expect(rows[1]).toEqual({ id: 2, ...NUMBERED, prompt: 'b' });
  });
});

describe('arguments', () => {
  test.each<[unknown, unknown, string]>([
    ['rows.jsonl', { maxLineBytes: '1MiB' }, 'maxLineBytes: found "1MiB", expected a whole number of at least 1'],
    ['rows.jsonl', { maxLineBytes: NaN }, 'maxLineBytes: found NaN'],
    ['rows.jsonl', { maxLineBytes: 0 }, 'maxLineBytes: found 0'],
    ['rows.jsonl', { format: 'xml' }, 'format: found "xml", expected one of auto, jsonl, text, '],
    ['rows.jsonl', { format: 'txt' }, 'format: found "txt"'],
    ['rows.jsonl', { carryFields: 1 }, 'carryFields: found 1, expected true or false'],
    ['rows.jsonl', { name: 1 }, 'name: found 1, expected a string'],
    ['rows.jsonl', { carryfields: true }, 'options: found the unknown "carryfields"'],
    ['rows.jsonl', null, 'options: found null, expected an object'],
    [undefined, {}, "source: found undefined, expected a file's path or an iterable of bytes"],
    [5, {}, 'source: found 5'],
  ])('%j with %j: %s', (source, options, words) => {
    expect(() => readRows(source as string, options as ReadRowsOptions)).toThrow(UsageError);
    expect(() => readRows(source as string, options as ReadRowsOptions)).toThrow(words);
  });
});

/**
 * As `cp -p` and `rsync -t --inplace` leave a file: other bytes, in what has been read, and the time of modification
 * that it had.
 */
function rewrittenWithOldTime(file: string): void {
  const descriptor = openSync(file, 'r+');
  writeSync(descriptor, 'b', 11);
  closeSync(descriptor);
  utimesSync(file, WRITTEN_AT, WRITTEN_AT);
}

/** In seconds: none that a program cannot set again to the nanosecond. */
const WRITTEN_AT = 1_600_000_000;

describe('sources', () => {
  test('a path, a Readable of bytes, one of strings, a web stream', async () => {
    const file = path('rows.jsonl');
    writeLines(file, [{ prompt: 'é' }]);
    const expected = [{ id: 1, ...NUMBERED, prompt: 'é' }];
    expect(await collect(readRows(file))).toEqual(expected);
    expect(await collect(readRows(Readable.from([Buffer.from('{"prompt":"é"}')])))).toEqual(expected);
    expect(await collect(readRows(Readable.from(['{"prompt":', '"é"}'])))).toEqual(expected);
    expect(await collect(readRows(new Blob(['{"prompt":"é"}']).stream()))).toEqual(expected);
  });

  test('a missing file is a JobFileError that names it', async () => {
    const error: unknown = await collect(readRows(path('nowhere.jsonl'))).catch((reason: unknown) => reason);
    expect(error).toBeInstanceOf(JobFileError);
    expect(String(error)).toMatch(/nowhere\.jsonl: cannot be read: no such file or folder \(ENOENT\)/);
  });

  test('a source that fails in the middle delivers what came before, then a JobFileError', async () => {
    async function* failing(): AsyncGenerator<Buffer> {
      yield Buffer.from('{"prompt":"a"}\n{"pro');
      throw Object.assign(new Error('read'), { code: 'EIO' });
    }
    const rows: RowInput[] = [];
    const error: unknown = await (async () => {
      for await (const row of readRows(failing(), { name: 'stdin' })) rows.push(row);
    })().catch((reason: unknown) => reason);
    expect(rows).toEqual([{ id: 1, ...NUMBERED, prompt: 'a' }]);
    expect(String(error)).toContain('stdin: cannot be read: input/output error of the device (EIO)');
  });

  test.each<[string, (file: string) => void, RegExp]>([
    [
      'shrank',
      (file) => truncateSync(file, 16),
      /found 16 bytes, expected the 160000 bytes that were there when it began/,
    ],
    ['grew', (file) => appendFileSync(file, '{"prompt":"b"}\n'), /found 160015 bytes, expected the 160000 bytes/],
    [
      'changed',
      (file) => utimesSync(file, 1_700_000_000, 1_700_000_000),
      /found it written to at 2023-11-14T22:13:20.000Z, expected nothing since 2/,
    ],
    ['changed', rewrittenWithOldTime, /found other bytes in it, written at 2.*, expected those that were read/],
  ])(
    'a file that %s while it was read once: the rows that were there, then a JobFileError',
    async (how, change, message) => {
      const file = path(`once-${how}.jsonl`);
      for (const [name, source] of [
        [file, (): string => file],
        ['input', (): ReadStream => createReadStream(file, { highWaterMark: 4096 })],
      ] as const) {
        writeFileSync(file, '{"prompt":"aa"}\n'.repeat(10_000));
        utimesSync(file, WRITTEN_AT, WRITTEN_AT);
        const rows: RowInput[] = [];
        const error: unknown = await (async () => {
          for await (const row of readRows(source())) if (rows.push(row) === 1) change(file);
        })().catch((reason: unknown) => reason);
        expect(rows.length).toBeGreaterThan(1);
        expect(error).toBeInstanceOf(JobFileError);
        expect(String(error)).toMatch(`${name}: the input ${how} during the run`);
        expect(String(error)).toMatch(message);
      }
    },
  );

  test('a file that got another mode, or another name for a while, while it was read once has what it had', async () => {
    const file = path('renamed.jsonl');
    writeFileSync(file, '{"prompt":"aa"}\n'.repeat(10_000));
    const moved = (): void => {
      renameSync(file, `${file}.moved`);
      renameSync(`${file}.moved`, file);
    };
    for (const change of [(): void => chmodSync(file, 0o600), moved]) {
      let rows = 0;
      for await (const row of readRows(file)) if ((rows += Number('prompt' in row)) === 1) change();
      expect(rows).toBe(10_000);
    }
  });

  test('a file that was moved away while it was read once has what it had', async () => {
    const file = path('moved.jsonl');
    writeFileSync(file, '{"prompt":"aa"}\n'.repeat(10_000));
    let rows = 0;
    for await (const row of readRows(file))
      if ((rows += Number('prompt' in row)) === 1) renameSync(file, path('moved-away.jsonl'));
    expect(rows).toBe(10_000);
  });

  test('stopping early closes the source', async () => {
    const source = Readable.from([Buffer.from('{"prompt":"a"}\n'), Buffer.from('{"prompt":"b"}\n')]);
    for await (const row of readRows(source)) {
      expect(row).toEqual({ id: 1, ...NUMBERED, prompt: 'a' });
      break;
    }
    expect(source.destroyed).toBe(true);
  });
});

describe('properties', () => {
  /** The same, the short way: split the whole at once, decode strictly, let JSON.parse say what is JSON. */
  function reference(bytes: Uint8Array): { id: unknown; bad: boolean }[] {
    const rows: { id: unknown; bad: boolean }[] = [];
    const lines = Buffer.from(bytes).toString('latin1').split('\n');
    for (const [at, raw] of lines.entries()) {
      let line = Buffer.from(raw, 'latin1');
      if (at === 0 && line.subarray(0, 3).equals(Buffer.from([0xef, 0xbb, 0xbf]))) line = line.subarray(3);
      if (/^[ \t\r]*$/.test(line.toString('latin1'))) continue;
      let value: unknown;
      try {
        value = JSON.parse(new TextDecoder('utf-8', { fatal: true, ignoreBOM: true }).decode(line));
      } catch {
        rows.push({ id: at + 1, bad: true });
        continue;
      }
      rows.push({
        id: (value as { id?: unknown } | null)?.id ?? at + 1,
        bad: (value as { prompt?: unknown } | null)?.prompt === undefined,
      });
    }
    return rows;
  }

  const jsonRow = fc.record(
    { id: fc.oneof(fc.string(), fc.nat()), prompt: fc.string({ unit: anyCharacter }) },
    { requiredKeys: ['prompt'] },
  );
  const cleanLine = fc.oneof(
    { weight: 6, arbitrary: jsonRow.map((row) => JSON.stringify(row)) },
    fc.constantFrom('', '  ', '\t\r', '{', 'nul', '"x'),
  );

  test('equals the reference on lines of rows, blanks and garbage, however the bytes are cut', async () => {
    await fc.assert(
      fc.asyncProperty(
        fc.array(cleanLine, { maxLength: 12 }),
        fc.constantFrom('\n', '\r\n'),
        fc.integer({ min: 1, max: 40 }),
        fc.boolean(),
        async (lines, end, size, last) => {
          const bytes = Buffer.from(lines.join(end) + (last ? end : ''));
          const rows = await rowsOf(bytes, {}, size);
          expect(rows.map((row) => ({ id: row.id, bad: 'error' in row }))).toEqual(reference(bytes));
        },
      ),
      { numRuns: tries(300, 1000) },
    );
  });

  test('mutated inputs: never an exception, and each row is a row or a bad row with a code', async () => {
    const base = Buffer.from(
      '{"id":"a","prompt":"hello \\u00e9"}\n{"messages":[{"role":"user","content":"hi"}],"stop":["x"]}\r\n\n{"tokens":[1,2,3],"temperature":0.5,"other":{"a":[null]}}\n{"id":4,"prompt":"ünï"}\n',
    );
    const edit = fc.record({
      at: fc.nat(base.length - 1),
      byte: fc.nat(255),
      kind: fc.constantFrom('set', 'insert', 'delete', 'cut', 'repeat'),
    });
    await fc.assert(
      fc.asyncProperty(
        fc.array(edit, { minLength: 1, maxLength: 8 }),
        fc.boolean(),
        fc.integer({ min: 1, max: 64 }),
        async (edits, text, size) => {
          let bytes: Buffer = Buffer.from(base);
          for (const { at, byte, kind } of edits) {
            const before = bytes.subarray(0, at);
            const after = bytes.subarray(at);
            if (kind === 'set') bytes = Buffer.concat([before, Buffer.from([byte]), after.subarray(1)]);
            else if (kind === 'insert') bytes = Buffer.concat([before, Buffer.from([byte]), after]);
            else if (kind === 'delete') bytes = Buffer.concat([before, after.subarray(1)]);
            else if (kind === 'cut') bytes = Buffer.from(before);
            else bytes = Buffer.concat([before, before.subarray(-20), after]);
          }
          for (const row of await rowsOf(
            bytes,
            { format: text ? 'text' : 'jsonl', carryFields: true, maxLineBytes: 200 },
            size,
          )) {
            if ('error' in row) expect(row.error.message).not.toBe('');
            else expect([row.prompt, row.messages, row.tokens].filter((field) => field !== undefined)).toHaveLength(1);
            expect(['string', 'number']).toContain(typeof row.id);
            expect(() => JSON.stringify(row)).not.toThrow();
          }
        },
      ),
      { numRuns: tries(1500, 5000) },
    );
  });
});

describe('a file that is not what it was taken for, and fields that are not what was meant', () => {
  test.each([
    ['id,question', 'csv'],
    ['id;question', 'csv'],
    ['id\tquestion', 'tsv'],
    ['What is the capital of France?', 'text'],
    ['Say yes, or no.', 'text'],
  ])('%s as a first line: it may be %s', async (line, format) => {
    expect(await errorOf(line)).toMatch(
      new RegExp(`^invalid-json: line 1: .*; it may be ${format} rather than jsonl: say so \\(\`inputFormat\`\\)$`),
    );
  });

  test.each([
    ['values without number, and the end of a sentence', `${','.repeat(2 ** 22)}.`],
    ['blanks', `${' '.repeat(2 ** 22)}x`],
    ['lists', `[${'[],'.repeat(2 ** 20)}`],
    ['brackets', '['.repeat(2 ** 22)],
  ])('a first line of megabytes is gone through once, and told by its beginning: %s', async (_, line) => {
    const error = await errorOf(line, 2 ** 16);
    expect(error).toMatch(/^(invalid-json|limit): line 1: /);
    expect(error.length).toBeLessThan(400);
  });

  test('a broken line of JSON, and a later line, are no other format', async () => {
    expect(await errorOf('{"prompt": ')).not.toContain('it may be');
    const [, second] = await rowsOf('{"prompt":"a"}\nid,question\n');
    expect(second).toMatchObject({ error: { code: 'invalid-json' } });
    expect(JSON.stringify(second)).not.toContain('it may be');
  });

  test('a field that is nearly one of ours is a row error, unless others are carried', async () => {
    expect(await errorOf('{"prompt":"a","max_tokens":5}')).toBe(
      'invalid-row: found the field "max_tokens", expected maxNewTokens',
    );
    expect(await errorOf('{"prompt":"a","label":5,"max_tokens":null}')).toBe('no error');
    expect(await rowsOf('{"prompt":"a","max_tokens":5}\n', { carryFields: true })).toEqual([
      { id: 1, ...NUMBERED, prompt: 'a', carry: { max_tokens: 5 } },
    ]);
  });
});
