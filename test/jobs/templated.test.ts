import { writeFileSync } from 'node:fs';
import { describe, expect, test } from '@jest/globals';
import { parquetWriteBuffer } from 'hyparquet-writer';
import { parseRow } from '../../src/jobs/formats/parseRow.js';
import { readRows } from '../../src/jobs/input/readRows.js';
import { runJob, type RunJobOptions } from '../../src/jobs/runJob.js';
import type { GenerateOptions, Row, RowInput } from '../../src/Row.js';
import { collect, readResults, temporaryFolder, writeLines } from './support/files.js';
import { StubEngine } from './support/stubEngine.js';

const path = temporaryFolder();

/** The stub takes a row's fields, as JSON, for its prompt. */
class FieldsEngine extends StubEngine {
  override async *generate(
    rows: AsyncIterable<RowInput>,
    options: GenerateOptions = {},
  ): ReturnType<StubEngine['generate']> {
    const prompts = async function* (): AsyncGenerator<RowInput> {
      for await (const row of rows)
        yield 'error' in row || row.fields === undefined
          ? row
          : { ...row, fields: undefined, prompt: JSON.stringify(row.fields) };
    };
    yield* super.generate(prompts(), options);
  }
}

describe('rows for a template', () => {
  test('all fields are values, whatever they are called, those that steer sampling elsewhere among them', () => {
    const value = {
      id: 'a',
      prompt: 'p',
      tokens: 7,
      messages: 'm',
      title: 't',
      seed: 3,
      templateArgs: { x: 1 },
      tools: [{}],
    };
    expect(parseRow(value, 1, false, true)).toEqual({ id: 'a', fields: value });
    expect(parseRow({ title: 't' }, 4, true, true)).toEqual({
      id: 4,
      duplicate: false,
      fields: { title: 't' },
      carry: { title: 't' },
    });
    expect(parseRow({ title: 't' }, 4, false)).toMatchObject({ error: { code: 'no-prompt' } });
    // What would be a mistake elsewhere is a value.
    expect(parseRow({ max_tokens: 5 }, 4, false, true)).toMatchObject({ fields: { max_tokens: 5 } });
    expect(parseRow({ prompt: 'p', max_tokens: 5 }, 4, false)).toMatchObject({ error: { code: 'invalid-row' } });
    expect(parseRow({ title: 't', seed: 'x' }, 4, false, true)).toMatchObject({ fields: { title: 't', seed: 'x' } });
    expect(parseRow({ prompt: 'p', templateArgs: 1 }, 4, false)).toMatchObject({
      error: { message: 'templateArgs: found 1, expected an object' },
    });
    expect(parseRow({ prompt: 'p', tools: {} }, 4, false)).toMatchObject({
      error: { message: 'tools: found an object, expected an array of objects' },
    });
  });

  test('of messages what tools need is kept', () => {
    const messages = [
      { role: 'assistant', content: null, tool_calls: [{ name: 'f' }] },
      { role: 'tool', content: '1', tool_call_id: 'c', name: 'f' },
    ];
    expect(parseRow({ messages: messages.map((message) => ({ ...message, other: 1 })) }, 1, false)).toMatchObject({
      messages,
    });
    expect(parseRow({ messages: [{ role: 'user', content: null }] }, 1, false)).toMatchObject({
      error: { message: 'messages[0].content: found null, expected a string, or an array of {type: "text", text}' },
    });
    expect(parseRow({ messages: [{ role: 'user', content: 'a', name: 1 }] }, 1, false)).toMatchObject({
      error: { message: 'messages[0].name: found 1, expected a string' },
    });
  });

  test.each<[string, string, readonly Partial<Row>[]]>([
    [
      'in.jsonl',
      '{"q":"x","n":1}\n{"id":"b"}\n',
      [
        { id: 1, fields: { q: 'x', n: 1 } },
        { id: 'b', fields: { id: 'b' } },
      ],
    ],
    [
      'in.csv',
      'id,question,seed\nA,x,4\nB,,\n',
      [
        { id: 'A', fields: { id: 'A', question: 'x', seed: '4' } },
        { id: 'B', fields: { id: 'B', question: '', seed: '' } },
      ],
    ],
    [
      'in.txt',
      'x\ny\n',
      [
        { id: 1, chat: 'auto', fields: { prompt: 'x' } },
        { id: 2, chat: 'auto', fields: { prompt: 'y' } },
      ],
    ],
  ])('%s', async (name, content, rows) => {
    writeFileSync(path(name), content);
    const read = await collect(readRows(path(name), { templated: true }));
    expect(read.map(({ duplicate: _, ...row }) => row)).toEqual(rows);
  });
});

describe('a job with a template', () => {
  const input = path('tickets.csv');
  writeFileSync(input, 'title,body\na,b\nc,d\n');
  let names = 0;
  const job = async (generate: GenerateOptions, more: Partial<RunJobOptions> = {}): Promise<readonly string[]> => {
    const output = more.output ?? path(`out-${names++}.jsonl`);
    await runJob({ engine: new FieldsEngine(), input, output, generate, ...more });
    return readResults(output as string).map(({ text }) => text);
  };

  test("needs no column of prompts, and has the rows' values", async () => {
    expect(await job({ promptTemplate: '{{title}}' })).toEqual([
      '{"TITLE":"A","BODY":"B"}',
      '{"TITLE":"C","BODY":"D"}',
    ]);
    await expect(job({})).rejects.toThrow(/expected one called prompt, messages or tokens/);
  });

  test('of Parquet all columns are values', async () => {
    const [table, output] = [path('tickets.parquet'), path('tickets-out.parquet')];
    writeFileSync(
      table,
      Buffer.from(
        parquetWriteBuffer({
          columnData: [
            { name: 'id', data: [7, 8], type: 'INT32' },
            { name: 'title', data: ['x', null], type: 'STRING' },
            { name: 'n', data: [2.5, 3], type: 'DOUBLE' },
          ],
        }),
      ),
    );
    expect(await collect(readRows(table, { templated: true, columns: { prompt: 'title' } }))).toEqual([
      { id: 7, fields: { id: 7, prompt: 'x', title: 'x', n: 2.5 } },
      { id: 8, fields: { id: 8, prompt: null, title: null, n: 3 } },
    ]);
    await runJob({ engine: new FieldsEngine(), input: table, output, generate: { promptTemplate: '{{title}}' } });
    const [read] = await collect(readRows(output, { carryFields: true, templated: true }));
    expect(read?.carry).toMatchObject({ id: 7, title: 'x', n: 2.5, text: '{"ID":7,"TITLE":"X","N":2.5}' });
    await expect(runJob({ engine: new StubEngine(), input: table, output: path('no.parquet') })).rejects.toThrow(
      /expected one called prompt/,
    );
  });

  test('is resumed with the same way to make prompts, and no other', async () => {
    const output = path('resumed.jsonl');
    const first: GenerateOptions = {
      promptTemplate: '{{title}}',
      system: 's',
      templateArgs: { a: 1 },
      tools: [{ name: 'f' }],
      reasoning: 'drop',
    };
    await job(first, { output });
    await job(first, { output, resume: true });
    // What is on by default makes no difference when it is said.
    await job({ ...first, chat: true }, { output, resume: true });
    const others: readonly GenerateOptions[] = [
      { promptTemplate: '{{body}}' },
      { system: 't' },
      { chat: false },
      { templateArgs: { a: 2 } },
      { tools: [] },
      { reasoning: 'keep' },
    ];
    for (const other of others)
      await expect(job({ ...first, ...other }, { output, resume: true })).rejects.toThrow(
        new RegExp(`differs from the one that began it in ${Object.keys(other)[0]} \\(was`),
      );
  });

  test('a record from before there were templates is gone on with', async () => {
    const [lines, output] = [path('plain.jsonl'), path('plain-out.jsonl')];
    writeLines(lines, [{ prompt: 'x' }]);
    await runJob({ engine: new StubEngine(), input: lines, output });
    await runJob({ engine: new StubEngine(), input: lines, output, resume: true, generate: { reasoning: 'keep' } });
    expect(readResults(output)).toHaveLength(1);
  });
});
