import { writeFileSync } from 'node:fs';
import { Readable } from 'node:stream';
import { buffer, text } from 'node:stream/consumers';
import { expect, test } from '@jest/globals';
import { concatMap, from, lastValueFrom, toArray } from 'rxjs';
import { z } from 'zod';
import { UsageError } from '../../../src/errors/UsageError.js';
import { encodeResults } from '../../../src/jobs/output/encodeResults.js';
import { readRows } from '../../../src/jobs/input/readRows.js';
import type { RowInput } from '../../../src/Row.js';
import { collect, temporaryFolder } from '../support/files.js';
import { StubEngine } from '../support/stubEngine.js';

const path = temporaryFolder();
const ROWS: readonly RowInput[] = [
  { id: 'a', prompt: 'x', carry: { n: 1, s: 'one' } },
  { id: 'b', prompt: 'y', carry: { n: 2.5, s: null } },
];

async function* rows(): AsyncGenerator<RowInput> {
  yield* ROWS;
}

const results = (): ReturnType<StubEngine['generate']> => new StubEngine().generate(rows());
const CSV =
  'n,s,id,text,finish_reason,error_code,error_message,prompt_tokens,completion_tokens\n1,one,a,X,stop,,,1,1\n2.5,,b,Y,stop,,,1,1\n';

test('into a Node stream, a web stream, and an Observable', async () => {
  expect(await text(Readable.from(encodeResults(results(), { format: 'csv' })))).toBe(CSV);
  expect(await new Response(ReadableStream.from(encodeResults(results(), { format: 'csv' }))).text()).toBe(CSV);
  const pieces = await lastValueFrom(
    from(encodeResults(results(), { format: 'csv' })).pipe(
      concatMap((piece) => [Buffer.from(piece).toString()]),
      toArray(),
    ),
  );
  expect(pieces.join('')).toBe(CSV);
  expect((await text(Readable.from(encodeResults(results())))).split('\n')[0]).toContain(
    '"id":"a","index":0,"text":"X"',
  );
});

test('as Parquet, with names of our own, and a column for samples', async () => {
  writeFileSync(
    path('out.parquet'),
    await buffer(
      Readable.from(encodeResults(results(), { format: 'parquet', samples: true, resultColumns: { text: 'answer' } })),
    ),
  );
  const [first, second] = await collect(readRows(path('out.parquet'), { carryFields: true, columns: { prompt: 's' } }));
  expect(first?.carry).toEqual({
    n: 1,
    s: 'one',
    id: 'a',
    sample: null,
    answer: 'X',
    finish_reason: 'stop',
    error_code: null,
    error_message: null,
    prompt_tokens: 1,
    completion_tokens: 1,
  });
  expect(second?.carry).toMatchObject({ n: 2.5, s: null, answer: 'Y' });
});

test('reasoning has a column where it is asked for', async () => {
  const reasoned = [
    {
      id: 1,
      index: 0,
      text: 'x',
      reasoning: 'why',
      tokens: [1],
      finishReason: 'stop' as const,
      usage: { promptTokens: 1, completionTokens: 1 },
    },
  ];
  expect(await text(Readable.from(encodeResults(reasoned, { format: 'csv', reasoning: true })))).toBe(
    'id,text,reasoning,finish_reason,error_code,error_message,prompt_tokens,completion_tokens\n1,x,why,stop,,,1,1\n',
  );
  expect(await text(Readable.from(encodeResults(reasoned, { format: 'csv' })))).not.toContain('why');
});

test('properties of a schema have columns, of JSON Schema and of zod', async () => {
  const held = [
    {
      id: 1,
      index: 0,
      text: '{"name":"Ann","age":9}',
      value: { name: 'Ann', age: 9 },
      tokens: [1],
      finishReason: 'stop' as const,
      usage: { promptTokens: 1, completionTokens: 1 },
    },
  ];
  const responseFormat = {
    type: 'json_schema',
    schema: { type: 'object', properties: { name: { type: 'string' }, age: { type: 'integer' } } },
  } as const;
  const csv =
    'id,who,age,text,finish_reason,error_code,error_message,prompt_tokens,completion_tokens\n1,Ann,9,,stop,,,1,1\n';
  expect(
    await text(Readable.from(encodeResults(held, { format: 'csv', responseFormat, resultColumns: { name: 'who' } }))),
  ).toBe(csv);
  expect(
    await text(
      Readable.from(
        encodeResults(held, {
          format: 'csv',
          schema: z.object({ name: z.string(), age: z.int() }),
          resultColumns: { name: 'who' },
        }),
      ),
    ),
  ).toBe(csv);
  expect(() => encodeResults(held, { format: 'csv', responseFormat, resultColumns: { nam: 'who' } })).toThrow(
    'resultColumns: found the unknown "nam", expected any of name, age, id',
  );
  expect(() => encodeResults(held, { schema: responseFormat.schema as never })).toThrow(
    'a JSON Schema is a responseFormat',
  );
});

test('answers of other tasks have columns of their own', async () => {
  const common = { index: 0, usage: { promptTokens: 2, completionTokens: 1 } };
  const csv = async (result: object, options: object): Promise<string> =>
    text(Readable.from(encodeResults([{ ...common, id: 1, ...result }], { format: 'csv', ...options })));
  expect(
    await csv({ label: 'yes', probability: 0.75, probabilities: { yes: 0.75, no: 0.25 } }, { task: 'classify' }),
  ).toBe(
    'id,label,probability,probabilities,error_code,error_message,prompt_tokens,completion_tokens\n1,yes,0.75,"{""yes"":0.75,""no"":0.25}",,,2,1\n',
  );
  expect(await csv({ embedding: [0.5, 1] }, { task: 'embed' })).toBe(
    'id,embedding,error_code,error_message,prompt_tokens,completion_tokens\n1,"[0.5,1]",,,2,1\n',
  );
  expect(await csv({ embedding: 'AAAAPw==' }, { task: 'embed', encoding: 'base64' })).toContain('1,AAAAPw==,');
  expect(await csv({ scores: [{ logprob: -1, tokens: 2 }] }, { task: 'score' })).toContain(
    '1,"[{""logprob"":-1,""tokens"":2}]",',
  );
  await expect(csv({ text: 'yes', finishReason: 'stop' }, { task: 'embed' })).rejects.toThrow(
    'task: found a result of generate among those of embed, expected all of one task',
  );
});

test('the first result that says what was done decides, whatever errors come before it', async () => {
  const common = { usage: { promptTokens: 2, completionTokens: 0 } };
  const error = { code: 'too-long' as const, message: 'no' };
  const results = [
    { ...common, id: 1, index: 0, error },
    { ...common, id: 2, index: 1, embedding: [0.5] },
    { ...common, id: 3, index: 2, error },
  ];
  expect(await text(Readable.from(encodeResults(results, { format: 'csv' })))).toBe(
    'id,embedding,error_code,error_message,prompt_tokens,completion_tokens\n1,,too-long,no,2,0\n2,[0.5],,,2,0\n3,,too-long,no,2,0\n',
  );
  expect((await text(Readable.from(encodeResults(results)))).split('\n')[1]).toContain('"embedding":[0.5]');
  const mixed = [...results, { ...common, id: 4, index: 3, label: 'yes' }];
  await expect(text(Readable.from(encodeResults(mixed, { format: 'csv' })))).rejects.toThrow(
    'task: found a result of classify among those of embed, expected all of one task',
  );
  expect(
    (await text(Readable.from(encodeResults(results.slice(0, 1), { format: 'csv' })))).split(',').slice(0, 3),
  ).toEqual(['id', 'text', 'finish_reason']);
});

test('embeddings are written as they are asked for, whatever form they have', async () => {
  const result = { id: 1, index: 0, usage: { promptTokens: 2, completionTokens: 0 } };
  const base64 = Buffer.from(Float32Array.of(0.5, -1).buffer).toString('base64');
  const csv = async (embedding: readonly number[] | string, encoding: 'float' | 'base64'): Promise<string> =>
    text(Readable.from(encodeResults([{ ...result, embedding }], { format: 'csv', encoding })));
  expect(await csv(base64, 'float')).toContain('\n1,"[0.5,-1]",');
  expect(await csv([0.5, -1], 'base64')).toContain(`\n1,${base64},`);
});

test('embeddings in Parquet are lists of float32, which may be empty or none', async () => {
  const common = { index: 0, usage: { promptTokens: 2, completionTokens: 0 } };
  const results = [
    { ...common, id: 1, embedding: [0.5, 0.1, -1] },
    { ...common, id: 2, error: { code: 'too-long' as const, message: 'no' } },
    { ...common, id: 3, embedding: [] },
    { ...common, id: 4, embedding: [2] },
  ];
  writeFileSync(
    path('embedded.parquet'),
    await buffer(Readable.from(encodeResults(results, { format: 'parquet', task: 'embed' }))),
  );
  const rows = await collect(readRows(path('embedded.parquet'), { carryFields: true, columns: { prompt: 'id' } }));
  expect(rows.map(({ carry }) => carry?.['embedding'])).toEqual([[0.5, Math.fround(0.1), -1], null, [], [2]]);
});

test('wrong arguments are refused at once; a reader that stops stops the source', async () => {
  expect(() => encodeResults(7 as never)).toThrow(UsageError);
  expect(() => encodeResults([], { format: 'xml' as never })).toThrow('format: found "xml"');
  let ended = false;
  const endless = async function* (): ReturnType<StubEngine['generate']> {
    try {
      for (;;) yield* results();
    } finally {
      ended = true;
    }
  };
  for await (const _ of encodeResults(endless())) break;
  expect(ended).toBe(true);
});
