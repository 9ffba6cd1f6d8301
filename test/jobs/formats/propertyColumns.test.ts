import { existsSync, readFileSync, writeFileSync } from 'node:fs';
import { PassThrough } from 'node:stream';
import { text as textOf } from 'node:stream/consumers';
import { describe, expect, test } from '@jest/globals';
import { parse } from 'csv-parse/sync';
import fc from 'fast-check';
import { ResponseFormatError } from '../../../src/errors/RowError.js';
import { UsageError } from '../../../src/errors/UsageError.js';
import { ParquetFile } from '../../../src/jobs/formats/parquet/ParquetFile.js';
import type { RunJobOptions } from '../../../src/jobs/runJob.js';
import { readRows } from '../../../src/jobs/input/readRows.js';
import { runJob } from '../../../src/jobs/runJob.js';
import type { RowInput, RowResult } from '../../../src/Row.js';
import { collect, readJournal } from '../support/files.js';
import { StubEngine, type StubOptions } from '../support/stubEngine.js';
import { failureOf, jobsOnFiles } from './support.js';

const { path, job } = jobsOnFiles();
const REST = 'finish_reason,error_code,error_message,prompt_tokens,completion_tokens';

/**
 * What an engine makes of an answer that is held to a schema: the prompt is the answer. One that is cut off keeps its
 * text.
 */
function answer(prompt: string): Partial<RowResult> {
  try {
    return { text: prompt, value: JSON.parse(prompt) as unknown };
  } catch {
    return { text: prompt, finishReason: 'error', error: { code: 'schema', message: 'cut off' } };
  }
}

const answering = (more: StubOptions = {}): StubEngine => new StubEngine({ answer, ...more });
const held = (properties: object, more: object = {}): NonNullable<RunJobOptions['generate']> => ({
  responseFormat: { type: 'json_schema', schema: { type: 'object', properties, ...more } },
});
const CITY = held({
  city: { type: 'string' },
  people: { type: ['integer', 'null'] },
  area: { type: 'number' },
  capital: { type: 'boolean' },
  names: { type: 'array' },
});

/** Writes answers into a table of one column of prompts beside. */
async function table(
  output: string,
  answers: readonly string[],
  options: Partial<RunJobOptions> = {},
): Promise<{ text: string; path: string }> {
  const rows = ['prompt', ...answers.map((each) => `"${each.replaceAll('"', '""')}"`)].join('\n');
  return job('in.csv', `${rows}\n`, output, { engine: answering(), generate: CITY, ...options });
}

/** All columns of a CSV file but the first, which holds prompts. */
const csvRows = (text: string): string[] =>
  text
    .trimEnd()
    .split('\n')
    .map((line) => line.replace(/^(?:"(?:[^"]|"")*"|[^,]*),/, ''));
const parquetRows = async (file: string): Promise<Record<string, unknown>[]> =>
  (await collect(readRows(file, { carryFields: true }))).map(({ carry: { prompt: _, ...columns } = {} }) => columns);

async function typesOf(file: string): Promise<Record<string, string | undefined>> {
  await using opened = await ParquetFile.open(file, file);
  return Object.fromEntries(opened.columns.map(({ name, leaves }) => [name, leaves[0]?.element.type]));
}

describe('a column for each property of the schema', () => {
  const answers = [
    '{"city":"Bern, \\"CH\\"","people":134591,"area":51.6,"capital":true,"names":["Berne",{"a":1}]}',
    '{"city":"","capital":false,"people":null}',
  ];

  test('in CSV', async () => {
    expect(csvRows((await table('out.csv', answers)).text)).toEqual([
      `city,people,area,capital,names,text,${REST}`,
      `"Bern, ""CH""",134591,51.6,true,"[""Berne"",{""a"":1}]",,stop,,,1,${answers[0]?.length}`,
      `,,,false,,"${answers[1]?.replaceAll('"', '""')}",stop,,,1,${answers[1]?.length}`,
    ]);
  });

  test('in Parquet, by its type; null where there is none', async () => {
    const { path: file } = await table('out.parquet', answers);
    expect(await parquetRows(file)).toMatchObject([
      {
        city: 'Bern, "CH"',
        people: 134591,
        area: 51.6,
        capital: true,
        names: '["Berne",{"a":1}]',
        text: null,
        finish_reason: 'stop',
      },
      { city: '', people: null, area: null, capital: false, names: null, text: null, finish_reason: 'stop' },
    ]);
    expect(await typesOf(file)).toMatchObject({
      city: 'BYTE_ARRAY',
      people: 'INT64',
      area: 'DOUBLE',
      capital: 'BOOLEAN',
      names: 'BYTE_ARRAY',
      text: 'BYTE_ARRAY',
      prompt_tokens: 'INT32',
    });
  });

  test.each(['csv', 'parquet'])(
    'the columns of %s are those of the schema, whatever the rows are: none, failed ones, some without',
    async (format) => {
      const columns = async (file: string): Promise<string[]> =>
        format === 'csv'
          ? (readFileSync(file, 'utf8').split('\n')[0] ?? '').split(',')
          : Object.keys(await typesOf(file));
      const all = await Promise.all(
        [[], ['broken', '{"city":'], ['{}'], answers].map(async (each) =>
          columns((await table(`out.${format}`, each)).path),
        ),
      );
      expect(all).toEqual(
        all.map(() => ['prompt', 'city', 'people', 'area', 'capital', 'names', 'text', ...REST.split(',')]),
      );
    },
  );

  test('lines of JSON stay as they are, and so does a table without a schema of objects', async () => {
    expect((await table('out.jsonl', ['{"city":"a"}'])).text).toContain(
      '"text":"{\\"city\\":\\"a\\"}","value":{"city":"a"}',
    );
    const wholes = [
      { type: 'array', items: { type: 'object', properties: { city: { type: 'string' } } } },
      { anyOf: [{ type: 'object', properties: { city: true } }] },
      true,
    ] as const;
    for (const schema of wholes) {
      const { text } = await table('out.csv', ['[7]'], {
        generate: { responseFormat: { type: 'json_schema', schema } },
        resultColumns: { value: 'found' },
      });
      expect(csvRows(text)).toEqual([`text,found,${REST}`, '[7],[7],stop,,,1,3']);
    }
    // Rows with formats of their own are none of the run's.
    expect(csvRows((await table('out.csv', ['{"city":"a"}'], { generate: {} })).text)).toEqual([
      `text,${REST}`,
      '"{""city"":""a""}",stop,,,1,12',
    ]);
  });
});

describe('what the columns have no place for stands in `text`, and nothing is lost', () => {
  test.each<[string, string, string]>([
    ['cut off', '{"city":"Ber', ',,,,,"{""city"":""Ber",error,schema,cut off'],
    ['a property that the schema does not list', '{"city":"a","more":1}', 'a,,,,,"{""city"":""a"",""more"":1}",stop,,'],
    ["of a format of the row's own: another value", '"yes"', ',,,,,"""yes""",stop,,'],
    [
      "of a format of the row's own: other types",
      '{"city":7,"people":1.5,"area":"x","capital":"no","names":7}',
      ',,,,7,"{""city"":7,""people"":1.5,""area"":""x"",""capital"":""no"",""names"":7}",stop,,',
    ],
    [
      'an integer of more than 64 bits',
      '{"people":9223372036854775808}',
      ',,,,,"{""people"":9223372036854775808}",stop,,',
    ],
    [
      'an integer that a double has no place for',
      '{"area":9007199254740993}',
      ',,9007199254740992,,,"{""area"":9007199254740993}",stop,,',
    ],
    [
      'a fraction with digits that a double has no place for',
      '{"area":6070.448125337352507303}',
      ',,6070.448125337352,,,"{""area"":6070.448125337352507303}",stop,,',
    ],
    [
      'one of few digits, which a double is near',
      '{"area":9007199254740993.0}',
      ',,9007199254740992,,,"{""area"":9007199254740993.0}",stop,,',
    ],
    ['null', 'null', ',,,,,null,stop,,'],
  ])('%s', async (_, text, row) => {
    expect(csvRows((await table('out.csv', [text])).text)[1]).toBe(`${row},1,${text.length}`);
    expect(await parquetRows((await table('out.parquet', [text])).path)).toMatchObject([{ text }]);
  });

  test('of CSV and TSV an empty text, which is the same as none there; in Parquet it is not', async () => {
    const answers = ['{"city":""}', '{}', '{"city":" "}'];
    for (const [name, tab] of [
      ['out.csv', ','],
      ['out.tsv', '\t'],
    ] as const)
      expect(
        parse<Record<string, string>>((await table(name, answers)).text, { columns: true, delimiter: tab }).map(
          ({ city, text }) => [city, text],
        ),
      ).toEqual([
        ['', '{"city":""}'],
        ['', ''],
        [' ', ''],
      ]);
    expect(await parquetRows((await table('out.parquet', answers)).path)).toMatchObject([
      { city: '', text: null },
      { city: null, text: null },
      { city: ' ', text: null },
    ]);
  });

  test('integers of more than 53 bits keep their digits, also within lists, where the schema allows them', async () => {
    const answers = [
      '{"people":9007199254740993,"names":[9007199254740993]}',
      '{"people":-9223372036854775808,"names":{"people":12345678901234567890}}',
      '{"city":"9007199254740993","people":7}',
    ];
    expect(
      csvRows((await table('out.csv', answers)).text)
        .slice(1)
        .map((row) => row.split(',stop')[0]),
    ).toEqual([
      ',9007199254740993,,,[9007199254740993],',
      ',-9223372036854775808,,,"{""people"":12345678901234567890}",',
      '9007199254740993,7,,,,',
    ]);
    expect(await parquetRows((await table('out.parquet', answers)).path)).toMatchObject([
      { people: '9007199254740993', names: '[9007199254740993]', text: null },
      { people: '-9223372036854775808', names: '{"people":12345678901234567890}', text: null },
      { city: '9007199254740993', people: 7 },
    ]);
  });

  test('fractions keep their digits within lists; what a double says to the last digit needs no text', async () => {
    const answers = [
      '{"names":[123456789012345.678]}',
      '{"names":{"a":0.12345678901234567890}}',
      '{"area":123456789012345.67}',
      '{"area":0.12345678901234568}',
      '{"area":12345678901234.5000}',
    ];
    expect(
      csvRows((await table('out.csv', answers)).text)
        .slice(1)
        .map((row) => row.split(',stop')[0]),
    ).toEqual([
      ',,,,[123456789012345.678],',
      ',,,,"{""a"":0.12345678901234567890}",',
      ',,123456789012345.67,,,',
      ',,0.12345678901234568,,,',
      ',,12345678901234.5,,,',
    ]);
  });

  test('lists of one type are lists where tables have some, and JSON in CSV; items of another type leave the text', async () => {
    const generate = held(
      {
        tags: { type: 'array', items: { type: 'string' } },
        counts: { type: ['array', 'null'], items: { $ref: '#/$defs/count' } },
        pairs: { type: 'array', items: { type: 'array', items: { type: 'number' } } },
      },
      { $defs: { count: { type: ['integer', 'null'] } } },
    );
    const answers = [
      '{"tags":["a","b"],"counts":[1,null,9007199254740993],"pairs":[[1,0.5]]}',
      '{"tags":[],"counts":null,"pairs":[]}',
      '{"tags":["a",7]}',
    ];
    expect(await parquetRows((await table('out.parquet', answers, { generate })).path)).toMatchObject([
      { tags: ['a', 'b'], counts: [1, null, '9007199254740993'], pairs: '[[1,0.5]]', text: null },
      { tags: [], counts: null, pairs: '[]', text: null },
      { tags: null, counts: null, text: '{"tags":["a",7]}' },
    ]);
    expect(
      csvRows((await table('out.csv', answers, { generate })).text)
        .slice(1)
        .map((row) => row.split(',stop')[0]),
    ).toEqual(['"[""a"",""b""]","[1,null,9007199254740993]","[[1,0.5]]",', '[],,[],', '"[""a"",7]",,,']);
  });

  test('names that objects have by themselves are names like any other', async () => {
    const schema = JSON.parse(
      '{"type":"object","properties":{"constructor":{"type":"string"},"__proto__":{"type":"integer"},"toString":{"type":"boolean"}}}',
    ) as object;
    const generate = { responseFormat: { type: 'json_schema', schema } } as const;
    expect(csvRows((await table('out.csv', ['{"__proto__":5}', '{}'], { generate })).text)).toEqual([
      `constructor,__proto__,toString,text,${REST}`,
      ',5,,,stop,,,1,15',
      ',,,,stop,,,1,2',
    ]);
  });
});

describe('names', () => {
  test('of properties, and of other columns of results, can be others', async () => {
    const { text } = await table('out.csv', ['{"city":"a","people":1}'], {
      resultColumns: { city: 'town', text: 'rest', finish_reason: 'why' },
    });
    expect(csvRows(text)[0]).toBe(
      `town,people,area,capital,names,rest,why,error_code,error_message,prompt_tokens,completion_tokens`,
    );
  });

  test.each<[string, string, object, string]>([
    ['a column of the input', 'prompt,city\n{},x\n', { city: { type: 'string' } }, 'city'],
    ['a column of results', 'prompt\n{}\n', { finish_reason: { type: 'string' } }, 'finish_reason'],
    ['the column of text', 'prompt\n{}\n', { text: { type: 'string' } }, 'text'],
    ['the id of rows that come from the table', 'id,prompt\n1,{}\n', { id: { type: 'integer' } }, 'id'],
  ])(
    'a property called as %s is refused before the first row, with the remedy, which helps',
    async (_, input, properties, name) => {
      for (const output of ['out.csv', 'out.parquet']) {
        const engine = answering();
        const error = await failureOf(job('taken.csv', input, output, { engine, generate: held(properties) }));
        expect(error).toBeInstanceOf(UsageError);
        expect(error.message).toContain(
          `found two columns "${name}", one of them for a property of the schema, expected each name once; \`resultColumns\` ${name}=${name}_found gives the property another`,
        );
        expect(engine.admitted).toEqual([]);
        const { path: file } = await job('taken.csv', input, output, {
          engine,
          generate: held(properties),
          resultColumns: { [name]: `${name}_found` },
        });
        const columns =
          output === 'out.csv'
            ? readFileSync(file, 'utf8').split('\n')[0]?.split(',')
            : Object.keys(await typesOf(file));
        expect(columns).toEqual(expect.arrayContaining([name, `${name}_found`]));
      }
    },
  );

  test('two properties of one new name are refused likewise', async () => {
    const error = await failureOf(table('out.csv', ['{}'], { resultColumns: { city: 'x', people: 'x' } }));
    expect(error.message).toContain('found two columns "x"');
  });

  test('of rows that come once, as those of a query, the columns are known with the first: nothing is computed, nothing written', async () => {
    const rows = (function* (): Generator<RowInput> {
      yield { prompt: '{}', carry: { city: 'x' } };
    })();
    const engine = answering();
    const output = path('once.parquet');
    const error = await failureOf(runJob({ engine, input: rows, output, generate: CITY }));
    expect(error).toBeInstanceOf(UsageError);
    expect(error.message).toContain('found two columns "city"');
    expect([engine.admitted, existsSync(output), existsSync(`${output}.rows.jsonl`)]).toEqual([[], false, false]);
  });

  test('the answer as a whole has no column to be renamed, and what is no name is refused with those that there are', async () => {
    const value = await failureOf(table('out.csv', ['{}'], { resultColumns: { value: 'found' } }));
    expect(value).toBeInstanceOf(UsageError);
    expect(value.message).toMatch(
      /^resultColumns: found value, the answer as a whole, expected any of city, people, area, capital, names, id, sample, text, reasoning, .*: with this schema each of its properties is a column$/,
    );
    const unknown = await failureOf(table('out.csv', ['{}'], { resultColumns: { citi: 'town' } }));
    expect(unknown.message).toMatch(/^resultColumns: found the unknown "citi", expected any of city, people, .*city/);
    // Where a property is called so, it is meant.
    const { text } = await table('out.csv', ['{"value":1}'], {
      generate: held({ value: { type: 'integer' } }),
      resultColumns: { value: 'found' },
    });
    expect(csvRows(text)).toEqual([`found,text,${REST}`, '1,,stop,,,1,11']);
  });

  test('what is no schema, and two of them, are refused before anything is read', async () => {
    expect(
      await failureOf(table('out.csv', ['{}'], { generate: held({ a: { $ref: '#/$defs/none' } }) })),
    ).toBeInstanceOf(ResponseFormatError);
    const { z } = await import('zod');
    expect(
      (await failureOf(table('out.csv', ['{}'], { generate: { ...CITY, schema: z.object({ a: z.string() }) } })))
        .message,
    ).toContain('found both schema and responseFormat');
  });
});

describe('each row once, with its columns, however runs end', () => {
  const answerTo = (at: number): string => (at % 7 === 6 ? `{"city":"c${at}` : `{"city":"c${at}","people":${at}}`);
  const expected = Array.from({ length: 20 }, (_, at) =>
    at % 7 === 6 ? ['', '', answerTo(at), 'schema'] : [`c${at}`, String(at), '', ''],
  );
  const told = (file: string): string[][] =>
    parse<Record<string, string>>(readFileSync(file), { columns: true }).map(
      ({ city = '', people = '', text = '', error_code = '' }) => [city, people, text, error_code],
    );

  test('a run that failed, with a torn journal, is gone on with', async () => {
    const [input, output] = [path('resume.csv'), path('resume-out.csv')];
    writeFileSync(
      input,
      `prompt,k\n${Array.from({ length: 20 }, (_, at) => `"${answerTo(at).replaceAll('"', '""')}",${at}\n`).join('')}`,
    );
    const run = (more: Partial<RunJobOptions>): ReturnType<typeof runJob> =>
      runJob({ engine: answering(), input, output, generate: CITY, resume: true, ...more });
    await failureOf(run({ engine: answering({ failAt: 11 }) }));
    writeFileSync(`${output}.rows.jsonl`, `${readFileSync(`${output}.rows.jsonl`, 'utf8')}{"id":99,"ind`);
    const { kept, done } = await run({});
    expect([kept > 0, kept + done]).toEqual([true, 20]);
    expect(told(output)).toEqual(expected);
    const whole = readFileSync(output, 'utf8');
    expect(await run({})).toMatchObject({ kept: 20, done: 0 });
    expect(readFileSync(output, 'utf8')).toBe(whole);

    // Rows that failed are done again, and come into their turn; other names make the table anew.
    const engine = answering({ answer: (prompt) => answer(prompt.endsWith('}') ? prompt : `${prompt}","people":1}`) });
    expect(await run({ engine, retryErrors: true, resultColumns: { city: 'city', people: 'count' } })).toMatchObject({
      kept: 18,
      done: 2,
      failed: 0,
    });
    expect(engine.admitted).toHaveLength(2);
    expect(readJournal(`${output}.rows.jsonl`).map(({ index }) => index)).toEqual(
      Array.from({ length: 20 }, (_, at) => at),
    );
    expect(
      parse<Record<string, string>>(readFileSync(output), { columns: true }).map(({ city, count, text }) => [
        city,
        count,
        text,
      ]),
    ).toEqual(expected.map(([city, people], at) => [city === '' ? `c${at}` : city, people === '' ? '1' : people, '']));
    // Another schema is another job.
    expect((await failureOf(run({ generate: held({ city: { type: 'string' } }) }))).message).toContain(
      'differs from the one that began it in responseFormat',
    );
  });

  test('rows that failed go into a table of the same columns', async () => {
    const { text } = await table('good.csv', ['{"city":"a"}', '{"city":"b'], { errors: path('bad.csv') });
    expect(csvRows(text)).toEqual([`city,people,area,capital,names,text,${REST}`, 'a,,,,,,stop,,,1,12']);
    expect(csvRows(readFileSync(path('bad.csv'), 'utf8'))).toEqual([
      `city,people,area,capital,names,text,${REST}`,
      ',,,,,"{""city"":""b",error,schema,cut off,1,10',
    ]);
  });

  test('streams: rows go out as they are finished', async () => {
    const output = new PassThrough();
    const written = textOf(output);
    writeFileSync(path('stream.jsonl'), '{"prompt":"{\\"city\\":\\"a\\"}"}\n');
    await runJob({ engine: answering(), input: path('stream.jsonl'), output, outputFormat: 'csv', generate: CITY });
    output.end();
    expect(await written).toBe(`id,city,people,area,capital,names,text,${REST}\n1,a,,,,,,stop,,,1,12\n`);
  });
});

test('whatever answers are: what a table says is what they say, in CSV and in Parquet', async () => {
  const integers = fc.oneof(fc.maxSafeInteger(), fc.bigInt({ min: -(2n ** 63n), max: 2n ** 63n - 1n }));
  const text = fc.oneof(
    fc.string(),
    fc.string({ unit: fc.constantFrom('"', ',', '\n', '\r', '\\', '{', '}', ':', '1', 'é') }),
  );
  const double = fc.double({ noNaN: true, noDefaultInfinity: true, min: -1e15, max: 1e15 });
  const members = {
    s: text,
    i: integers,
    n: double.map((each) => each || 0),
    b: fc.boolean(),
    j: fc.oneof(fc.array(integers), text, fc.dictionary(text, double)),
  };
  const generate = held({
    s: { type: 'string' },
    i: { type: 'integer' },
    n: { type: 'number' },
    b: { type: 'boolean' },
    j: true,
  });
  /** As a model writes it: with all digits. */
  const json = (value: unknown): string =>
    typeof value === 'bigint'
      ? String(value)
      : Array.isArray(value)
        ? `[${value.map(json).join(',')}]`
        : typeof value === 'object' && value !== null
          ? `{${Object.entries(value)
              .map(([name, each]) => `${JSON.stringify(name)}:${json(each)}`)
              .join(',')}}`
          : JSON.stringify(value);
  await fc.assert(
    fc.asyncProperty(
      fc.array(fc.record(members, { requiredKeys: [] }), { minLength: 1, maxLength: 6 }),
      async (values) => {
        const answers = values.map(json);
        const texts = values.map(({ s, i, n, b, j }, at) => [
          s ?? '',
          i === undefined ? '' : String(i),
          n === undefined ? '' : String(n),
          b === undefined ? '' : String(b),
          j === undefined ? '' : json(j),
          s === '' ? answers[at] : '',
        ]);
        const { text: csv } = await table('any.csv', answers, { generate });
        const rows: string[][] = parse(csv, { record_delimiter: '\n' });
        expect(rows.slice(1).map((row) => row.slice(1, 7))).toEqual(texts);
        const columns = await parquetRows((await table('any.parquet', answers, { generate })).path);
        const whole = (i: number | bigint | undefined): unknown =>
          i === undefined ? null : Number.isSafeInteger(Number(i)) ? Number(i) : String(i);
        expect(columns.map(({ s, i, n, b, j, text: rest }) => [s, i, n, b, j, rest])).toEqual(
          values.map(({ s = null, i, n = null, b = null, j }) => [
            s,
            whole(i),
            n,
            b,
            j === undefined ? null : json(j),
            null,
          ]),
        );
      },
    ),
    { numRuns: 40 },
  );
});
