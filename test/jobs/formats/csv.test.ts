import { existsSync, readFileSync, writeFileSync } from 'node:fs';
import { PassThrough } from 'node:stream';
import { text as textOf } from 'node:stream/consumers';
import { gzipSync } from 'node:zlib';
import { describe, expect, test } from '@jest/globals';
import { parse } from 'csv-parse/sync';
import fc from 'fast-check';
import { JobFileError } from '../../../src/errors/JobFileError.js';
import { UsageError } from '../../../src/errors/UsageError.js';
import { readRows } from '../../../src/jobs/input/readRows.js';
import { runJob } from '../../../src/jobs/runJob.js';
import { collect } from '../support/files.js';
import { StubEngine } from '../support/stubEngine.js';
import { failureOf, jobsOnFiles } from './support.js';

const { path, job } = jobsOnFiles();
const RESULTS = 'text,finish_reason,error_code,error_message,prompt_tokens,completion_tokens';

describe('a table in, a table out', () => {
  test('all columns stay as they were, byte for byte, and the results stand beside them', async () => {
    const { summary, text } = await job(
      'in.csv',
      'id,prompt,"note, quoted"\n7,hello,"as ""it"" was"\n8,"two\nlines",\n"9",x,"y"\n',
      'out.csv',
    );
    expect(summary).toEqual({ rows: 3, done: 3, failed: 0, kept: 0, keptFailed: 0 });
    expect(text).toBe(
      [
        `id,prompt,"note, quoted",${RESULTS}`,
        '7,hello,"as ""it"" was",HELLO,stop,,,1,5',
        '8,"two\nlines",,"TWO\nLINES",stop,,,1,9',
        '"9",x,"y",X,stop,,,1,1',
        '',
      ].join('\n'),
    );
  });

  test('what Excel writes: a byte order mark, semicolons, CRLF, line breaks in values', async () => {
    const input = '\ufeffid;Frage;Preis\r\n1;"Was,\r\nwarum?";3,50\r\n2;"""ja""";4,00\r\n';
    const { text } = await job('excel.csv', input, 'out.csv', { columns: { prompt: 'Frage' } });
    expect(text).toBe(
      `\ufeffid;Frage;Preis;${RESULTS.replaceAll(',', ';')}\r\n1;"Was,\r\nwarum?";3,50;"WAS,\r\nWARUM?";stop;;;1;12\r\n2;"""ja""";4,00;"""JA""";stop;;;1;4\r\n`,
    );
  });

  test('tabs, by name; other names for columns, of fields and of results', async () => {
    const { text } = await job('in.tsv', 'nr\tquestion\ttext\nA\tone\ttaken\n', 'out.tsv', {
      columns: { id: 'nr', prompt: 'question' },
      resultColumns: { text: 'answer', finish_reason: 'why' },
    });
    expect(text).toBe(
      'nr\tquestion\ttext\tanswer\twhy\terror_code\terror_message\tprompt_tokens\tcompletion_tokens\nA\tone\ttaken\tONE\tstop\t\t\t1\t3\n',
    );
  });

  test('a header alone; no last line end; blank lines; a value that is a column of its own', async () => {
    expect((await job('empty.csv', 'prompt\n', 'out.csv')).text).toBe(`prompt,${RESULTS}\n`);
    expect((await job('one.csv', 'prompt,k\n\na,1\r\n\r\nb,2', 'out.csv')).text).toBe(
      `prompt,k,${RESULTS}\na,1,A,stop,,,1,1\nb,2,B,stop,,,1,1\n`,
    );
  });

  test('rows set conversations in columns, and parameters in those that are named, as JSON writes them', async () => {
    const lines = [
      'prompt,messages,maxNewTokens,stop',
      ',"[{""role"":""user"",""content"":""hi""}]",7,"[""a"",""b""]"',
      'x,,,y',
      'x,[broken,,',
      'x,,many,',
    ];
    writeFileSync(path('fields.csv'), lines.join('\n'));
    const columns = { maxNewTokens: 'maxNewTokens', stop: 'stop' };
    const rows = await collect(readRows(path('fields.csv'), { columns }));
    expect(rows).toEqual([
      {
        id: 1,
        duplicate: false,
        error: { code: 'no-prompt', message: expect.stringContaining('prompt and messages') },
      },
      { id: 2, duplicate: false, prompt: 'x', stop: ['y'] },
      { id: 3, duplicate: false, error: { code: 'no-prompt', message: expect.any(String) } },
      {
        id: 4,
        duplicate: false,
        error: { code: 'invalid-row', message: expect.stringContaining('maxNewTokens: found the string "many"') },
      },
    ]);
  });

  test('gzip in and out, by name', async () => {
    const { gzipSync, gunzipSync } = await import('node:zlib');
    const { path: output } = await job('in.csv.gz', gzipSync('prompt\nhello\n'), 'out.csv.gz');
    expect(gunzipSync(readFileSync(output)).toString()).toBe(`prompt,${RESULTS}\nhello,HELLO,stop,,,1,5\n`);
  });

  test('lines of JSON into a table: ids, and the fields that are carried, also those that only some rows have', async () => {
    const lines = '{"id":"a","prompt":"x","n":1.5,"tags":["b"]}\n{"prompt":"y","more":true,"n":null}\nno json\n';
    expect((await job('in.jsonl', lines, 'plain.csv')).text).toMatch(
      new RegExp(`^id,${RESULTS}\na,X,stop,,,1,1\n2,Y,stop,,,1,1\n3,,error,invalid-json,`),
    );
    expect((await job('in.jsonl', lines, 'carried.csv', { carryFields: true })).text).toMatch(
      new RegExp(
        `^n,tags,more,id,${RESULTS}\n1.5,"\\[""b""\\]",,a,X,stop,,,1,1\n,,true,2,Y,stop,,,1,1\n,,,3,,error,invalid-json,`,
      ),
    );
  });

  test('a table into lines of JSON, with its columns where they are asked for', async () => {
    const input = 'id,prompt,k\n1,a,v\n';
    expect((await job('in.csv', input, 'out.jsonl')).text).toBe(
      '{"id":"1","index":0,"text":"A","tokens":[65],"finishReason":"stop","usage":{"promptTokens":1,"completionTokens":1}}\n',
    );
    expect((await job('in.csv', input, 'out.jsonl', { carryFields: true })).text).toContain(
      '"row":{"id":"1","prompt":"a","k":"v"}',
    );
  });

  test('streams: rows come with their columns, and go out as they are finished', async () => {
    writeFileSync(path('stream.csv'), 'id;prompt;k\n1;a;"q"\n');
    const output = new PassThrough();
    const written = textOf(output);
    await runJob({ engine: new StubEngine(), input: path('stream.csv'), output, outputFormat: 'csv' });
    output.end();
    expect(await written).toBe(`id;prompt;k;${RESULTS.replaceAll(',', ';')}\n1;a;"q";A;stop;;;1;1\n`);
    const rows = readRows(new Blob(['prompt,k\nx,"a,b"\n']).stream(), { format: 'csv', carryFields: true });
    await runJob({ engine: new StubEngine(), input: rows, output: path('from-stream.csv') });
    expect(readFileSync(path('from-stream.csv'), 'utf8')).toBe(`prompt,k,id,${RESULTS}\nx,"a,b",1,X,stop,,,1,1\n`);
  });
});

describe('what is no table', () => {
  test('a ragged row is an error row; the others are unaffected', async () => {
    const { summary, text } = await job('ragged.csv', 'prompt,k\na,1\nb\nc,3,4\nd,5\n', 'out.csv');
    expect(summary).toMatchObject({ rows: 4, failed: 2 });
    const rows = parse<Record<string, string>>(text, { columns: true });
    expect(rows.map(({ text: answer, error_code }) => [answer, error_code])).toEqual([
      ['A', ''],
      ['', 'invalid-row'],
      ['', 'invalid-row'],
      ['D', ''],
    ]);
    expect(rows[1]).toMatchObject({
      prompt: 'b',
      k: '',
      error_message: 'row 2: found 1 values, expected 2, as the header has columns',
    });
  });

  test('a row with more values than columns keeps all of them, so that it can be mended where the errors are', async () => {
    const errors = path('ragged-errors.csv');
    await job('surplus.csv', 'id;prompt\n1;hello; world;"a;""b"""\n2;ok\n3\n', 'out.csv', { errors });
    const [first, second] = parse<Record<string, string>>(readFileSync(errors, 'utf8'), {
      columns: true,
      delimiter: ';',
    });
    expect(first).toMatchObject({
      id: '1',
      prompt: 'hello; world;"a;""b"""',
      error_message: 'row 1: found 4 values, expected 2, as the header has columns',
    });
    expect(second).toMatchObject({ id: '3', prompt: '', error_code: 'invalid-row' });
    expect((await job('surplus.csv', 'prompt\na,b\n', 'out.csv')).text).toMatch(/\n"a,b",,error,invalid-row,/);
  });

  test.each<[string, string | Uint8Array, object, string]>([
    [
      'no prompt',
      'a,b\n1,2\n',
      {},
      'found the columns "a", "b", expected one called prompt, messages or tokens; `columns prompt=COLUMN` says which one it is',
    ],
    [
      'a column that is not there',
      'a,b\n1,2\n',
      { columns: { prompt: 'c' } },
      'found no column "c", which `columns` names, expected one of "a", "b"',
    ],
    ['two columns of one name', 'prompt,a,a\n', {}, 'found two columns "a", expected each name once'],
    [
      'a header whose quote does not end',
      'id,"prompt\nabc\n',
      {},
      'line 1: found a value that begins with a quote which nothing closes',
    ],
    ['nothing', '', {}, 'found no header, expected a first line with the names of the columns'],
    [
      'no UTF-8',
      Buffer.concat([Buffer.from('prompt\nok\nna'), Buffer.from([0xef]), Buffer.from('ve\n')]),
      {},
      'line 3: found bytes that are no UTF-8, expected UTF-8',
    ],
    ['UTF-16', Buffer.from('\ufeffprompt\nx\n', 'utf16le'), {}, 'found UTF-16, by its byte order mark'],
    ['what is compressed', gzipSync('prompt\nx\n'), {}, 'found what gzip has compressed, by its first bytes'],
  ])('%s: one error before anything is written', async (_, content, options, words) => {
    const error = await failureOf(job('bad.csv', content, 'out.csv', options));
    expect(error).toBeInstanceOf(JobFileError);
    expect(error.message).toContain(words);
  });

  test('a result column that the input has already is refused with the remedy', async () => {
    const engine = new StubEngine();
    const error = await failureOf(job('taken.csv', 'prompt,text\na,b\n', 'out.csv', { engine }));
    expect(engine.admitted).toEqual([]);
    expect(error).toBeInstanceOf(UsageError);
    expect(error.message).toContain(
      'found two columns "text", expected each name once; `resultColumns` (text=NAME) gives the results another',
    );
  });

  test('all that the input has already are told at once; a prefix gives all of them other names', async () => {
    const input = 'prompt,text,error_code,prompt_tokens\na,b,c,d\n';
    const error = await failureOf(job('all.csv', input, 'out.csv'));
    expect(error.message).toContain(
      'found two columns "text" and two "error_code" and two "prompt_tokens", expected each name once; `resultColumns` (text=text_found,error_code=error_code_found,prompt_tokens=prompt_tokens_found) gives the results another, and `resultPrefix` puts the same before all of them',
    );
    const { text } = await job('all.csv', input, 'out.csv', {
      resultPrefix: 'llm_',
      resultColumns: { finish_reason: 'why' },
    });
    expect(text).toBe(
      'prompt,text,error_code,prompt_tokens,llm_text,why,llm_error_code,llm_error_message,llm_prompt_tokens,llm_completion_tokens\na,b,c,d,A,stop,,,1,1\n',
    );
  });

  test('a cut-off gzip file', async () => {
    const { gzipSync } = await import('node:zlib');
    const whole = gzipSync('prompt\n' + 'hello\n'.repeat(1000));
    const error = await failureOf(job('in.csv.gz', whole.subarray(0, whole.length - 10), 'out.csv'));
    expect(error).toBeInstanceOf(JobFileError);
    expect(error.message).toMatch(/in\.csv\.gz: cannot be decompressed: unexpected end of file; expected a whole file/);
  });
});

test('results are in the journal until the output is written, and a run goes on from there; the output is made again', async () => {
  const input = path('resume.csv');
  const output = path('resume-out.csv');
  writeFileSync(input, 'prompt,k\n' + Array.from({ length: 20 }, (_, at) => `p${at},${at}\n`).join(''));
  await failureOf(runJob({ engine: new StubEngine({ failAt: 11 }), input, output }));
  expect(existsSync(output)).toBe(false);
  expect((await failureOf(runJob({ engine: new StubEngine(), input, output }))).message).toContain(
    'resume-out.csv.rows.jsonl exists; `resume` goes on with it',
  );
  const journal = `${output}.rows.jsonl`;
  // A torn last line.
  writeFileSync(journal, readFileSync(journal, 'utf8') + '{"id":99,"ind');
  const second = new StubEngine();
  const { kept, done } = await runJob({ engine: second, input, output, resume: true });
  expect(kept).toBeGreaterThan(0);
  expect(kept + done).toBe(20);
  const whole = readFileSync(output, 'utf8');
  expect(parse<{ k: string; text: string }>(whole, { columns: true }).map(({ k, text }) => [k, text])).toEqual(
    Array.from({ length: 20 }, (_, at) => [String(at), `P${at}`]),
  );
  writeFileSync(output, 'something else');
  expect(await runJob({ engine: new StubEngine(), input, output, resume: true })).toMatchObject({ kept: 20, done: 0 });
  expect(readFileSync(output, 'utf8')).toBe(whole);
  expect(
    (await failureOf(runJob({ engine: second, input, output, resume: true, columns: { id: 'k' } }))).message,
  ).toContain('differs from the one that began it in columns');
});

test('whatever stands in the values: it comes out as it was', async () => {
  const value = fc.oneof(
    fc.string(),
    fc.string({ unit: fc.constantFrom('"', ',', ';', '\t', '\n', '\r', ' ', 'a', 'é', '|') }),
  );
  const names = fc.uniqueArray(
    value.filter((name) => name !== '' && !['prompt', ...RESULTS.split(',')].includes(name)),
    { minLength: 1, maxLength: 4 },
  );
  const quoted = (values: readonly string[], delimiter: string): string =>
    values.map((each) => `"${each.replaceAll('"', '""')}"`).join(delimiter);
  await fc.assert(
    fc.asyncProperty(
      names.chain((columns) =>
        fc.tuple(
          fc.constant(columns),
          fc.array(fc.array(value, { minLength: columns.length, maxLength: columns.length }), { maxLength: 5 }),
        ),
      ),
      fc.constantFrom(',', ';', '\t', '|'),
      fc.constantFrom('\n', '\r\n'),
      async ([columns, rows], delimiter, end) => {
        const input = [['prompt', ...columns], ...rows.map((row, at) => [`p${at}`, ...row])]
          .map((row) => quoted(row, delimiter) + end)
          .join('');
        const { text } = await job('any.csv', input, 'out.csv', { delimiter });
        const out: string[][] = parse(text, { delimiter, record_delimiter: end });
        expect(out.map((row) => row.slice(0, columns.length + 1))).toEqual([
          ['prompt', ...columns],
          ...rows.map((row, at) => [`p${at}`, ...row]),
        ]);
        expect(out.slice(1).map((row) => row[columns.length + 1])).toEqual(rows.map((_, at) => `P${at}`));
      },
    ),
    { numRuns: 60 },
  );
});
