import { afterAll, beforeAll, expect, test } from '@jest/globals';
import fc from 'fast-check';
import { cp, rm } from 'node:fs/promises';
import {
  Engine,
  ResponseFormatError,
  UsageError,
  type EngineOptions,
  type Row,
  type RowResult,
  type RunOptions,
  type TraceEvent,
} from '../../../src/index.js';
import type { ResponseFormat } from '../../../src/rows/responseFormat.js';
import { blocks } from '../../e2e/support.js';
import { schedules } from '../../support/arbitraryRuns.js';
import { engineRing } from '../../support/engineRing.js';
import { describeGrammars } from '../../support/grammars.js';
import { tinyChatModel } from '../../support/tinyChatModel.js';

const PERSON = {
  type: 'object',
  properties: {
    name: { type: 'string', maxLength: 6 },
    age: { type: 'integer', minimum: 0, maximum: 120 },
    kind: { enum: ['a', 'bé', null] },
    tags: { type: 'array', items: { type: 'boolean' }, maxItems: 2 },
  },
  required: ['name', 'age', 'kind', 'tags'],
  additionalProperties: false,
};
const PALINDROME = 'start: "a" start "a" | "b" start "b" | "c"';
const FORMATS: readonly (readonly [ResponseFormat, (text: string) => boolean])[] = [
  [
    { type: 'json_schema', schema: PERSON },
    (text) => {
      const value = JSON.parse(text) as { name: string; age: number; kind: unknown; tags: unknown[] };
      return (
        text === JSON.stringify(value) &&
        Object.keys(value).join() === 'name,age,kind,tags' &&
        [...value.name].length <= 6 &&
        Number.isInteger(value.age) &&
        value.age >= 0 &&
        value.age <= 120 &&
        ['a', 'bé', null].includes(value.kind as string) &&
        value.tags.length <= 2 &&
        value.tags.every((tag) => typeof tag === 'boolean')
      );
    },
  ],
  [{ type: 'regex', regex: '[a-z]{2,4}(é|[0-9]{3})\\.' }, (text) => /^[a-z]{2,4}(é|[0-9]{3})\.$/.test(text)],
  [
    { type: 'choices', choices: ['yes', 'no', 'not at all', 'ñ'] },
    (text) => ['yes', 'no', 'not at all', 'ñ'].includes(text),
  ],
  [
    { type: 'grammar', grammar: PALINDROME },
    (text) => [...text].reverse().join('') === text && /^[ab]*c[ab]*$/.test(text),
  ],
];

let model: Awaited<ReturnType<typeof tinyChatModel>>;
beforeAll(async () => {
  model = await tinyChatModel();
});
afterAll(async () => {
  await model[Symbol.asyncDispose]();
});

async function generate(engine: Engine, rows: readonly Row[], options: RunOptions = {}): Promise<RowResult[]> {
  const results: RowResult[] = [];
  for await (const row of engine.generate(rows, options)) results.push(row);
  return results;
}

/** Rows of all formats, and some without, that begin alike in part. */
function mixed(count: number, temperature: number): Row[] {
  return Array.from({ length: count }, (_, id) => {
    const responseFormat = FORMATS[id % (FORMATS.length + 1)]?.[0];
    return {
      id,
      prompt: `${'The same beginning of many rows. '.repeat(2)}${String(id % 7)}`,
      temperature,
      seed: id,
      maxNewTokens: 90,
      ...(responseFormat ? { responseFormat } : { ignoreEos: true, maxNewTokens: 12 }),
    };
  });
}

describeGrammars('answers that are held to a format', () => {
  const open = (more: Partial<EngineOptions> = {}): Promise<Engine> =>
    Engine.open({ model: model.path, batchSize: 8, ...more });

  test('are values of it, whatever the model would say', async () => {
    await using engine = await open();
    const results = await generate(engine, mixed(120, 1), { ignoreEos: true });
    let whole = 0;
    for (const { id, text, finishReason, error } of results) {
      const [, fulfils] = FORMATS[Number(id) % (FORMATS.length + 1)] ?? [];
      if (!fulfils) continue;
      if (error) expect([error.code, finishReason]).toEqual(['schema', 'error']);
      else {
        expect({ text, fulfils: fulfils(text), finishReason }).toEqual({ text, fulfils: true, finishReason: 'stop' });
        whole++;
      }
    }
    expect(whole).toBeGreaterThan(80);
  });

  test('are the same bits whatever the company, the schedule, the threads, and with sharing on and off', async () => {
    const rows = [...mixed(15, 0), ...mixed(15, 1).map((row) => ({ ...row, id: `sampled ${String(row.id)}` }))];
    await using alone = await open({ batchSize: 1, batches: 1, threads: 1 });
    const expected = await generate(alone, rows, { sharePrefixes: false, logprobs: 2 });
    expect(expected.filter(({ finishReason }) => finishReason === 'stop').length).toBeGreaterThan(15);
    await fc.assert(
      fc.asyncProperty(
        schedules,
        blocks,
        fc.boolean(),
        fc.integer({ min: 1, max: 2 }),
        async (schedule, { batchSize, batches, tokensPerSquare }, sharePrefixes, threads) => {
          await using engine = await open({ batchSize, batches, tokensPerSquare, threads });
          expect(await generate(engine, rows, { schedule, sharePrefixes, logprobs: 2 })).toEqual(expected);
        },
      ),
      { numRuns: 6 },
    );
  });

  test('are advanced by all that their format forces at once, to the same bits', async () => {
    const rows = [...mixed(15, 0), ...mixed(15, 1).map((row) => ({ ...row, id: `sampled ${String(row.id)}` }))];
    // Where log-probabilities are asked for, each token is sampled from what its mask has left.
    await using sampling = await open({ batchSize: 1, batches: 1, threads: 1 });
    const expected = (await generate(sampling, rows, { sharePrefixes: false, logprobs: 0 })).map(
      ({ logprobs: _, ...row }) => row,
    );
    const known = new Set<unknown>();
    await fc.assert(
      fc.asyncProperty(
        schedules,
        blocks,
        fc.boolean(),
        async (schedule, { batchSize, batches, tokensPerSquare }, sharePrefixes) => {
          await using engine = await open({ batchSize, batches, tokensPerSquare });
          const trace: TraceEvent[] = [];
          expect(
            await generate(engine, rows, { schedule, sharePrefixes, onTrace: (event) => trace.push(event) }),
          ).toEqual(expected);
          for (const { name, args } of trace) if (name === 'known') known.add(args['row']);
        },
      ),
      { numRuns: 6 },
    );
    expect(known.size).toBeGreaterThan(5);
  });

  test('take fewer sweeps by what their format forces', async () => {
    await using engine = await open({ batchSize: 1, batches: 1 });
    const properties = Object.fromEntries(
      ['identification', 'description', 'category'].map((name) => [name, { type: 'boolean' }]),
    );
    const row: Row = {
      prompt: 'x',
      maxNewTokens: 90,
      responseFormat: {
        type: 'json_schema',
        schema: { type: 'object', properties, required: Object.keys(properties), additionalProperties: false },
      },
    };
    const passes = async (options: RunOptions): Promise<number> => {
      const seen = new Set<unknown>();
      const [result] = await generate(engine, [row], {
        ...options,
        onTrace: ({ ph, args }) => ph === 'X' && seen.add(args['pass']),
      });
      expect(JSON.parse(result?.text ?? '')).toEqual({
        identification: expect.any(Boolean) as unknown,
        description: expect.any(Boolean) as unknown,
        category: expect.any(Boolean) as unknown,
      });
      return seen.size;
    };
    expect(await passes({})).toBeLessThan(0.5 * (await passes({ logprobs: 0 })));
  });

  test('are those of streamed weights and of a cache on disk, too', async () => {
    const rows = mixed(10, 1);
    await using memory = await open();
    await using disk = await open({ weights: { cpu: 0, disk: 1 }, cache: { cpu: 0, disk: 1 } });
    expect(await generate(disk, rows)).toEqual(await generate(memory, rows));
  });

  test('share nothing with rows of another format, and everything with those of the same', async () => {
    await using engine = await open();
    const row = { prompt: 'alike', maxNewTokens: 30 };
    const [a, b, c, free] = await generate(engine, [
      { ...row, responseFormat: { type: 'regex', regex: 'a+b' } },
      { ...row, responseFormat: { type: 'regex', regex: 'c+d' } },
      { ...row, responseFormat: { type: 'regex', regex: 'a+b' } },
      row,
    ]);
    expect([a?.text ?? '', b?.text ?? '']).toEqual([expect.stringMatching(/^a/), expect.stringMatching(/^c/)]);
    expect(c).toEqual({ ...a, id: 3, index: 2 });
    expect(free?.tokens).not.toEqual(a?.tokens);
  });

  test('that are cut off by their limit or by a stop string are errors, with what there is of them', async () => {
    await using engine = await open();
    const responseFormat = { type: 'regex', regex: 'abc(de)*' } as const;
    const results = await generate(engine, [
      { prompt: 'x', maxNewTokens: 2, responseFormat },
      { prompt: 'x', stop: ['b'], responseFormat },
      { prompt: 'x', maxNewTokens: 3, responseFormat },
    ]);
    expect(results[0]).toMatchObject({
      text: 'ab',
      finishReason: 'error',
      usage: { completionTokens: 2 },
      error: { code: 'schema', message: expect.stringContaining('its limit of 2 tokens') as unknown },
    });
    expect(results[0]?.tokens).toHaveLength(2);
    expect(results[1]).toMatchObject({
      text: 'a',
      finishReason: 'error',
      error: { code: 'schema', message: expect.stringContaining('stop strings') as unknown },
    });
    // What is there matches, and might go on.
    expect(results[2]).toMatchObject({
      text: 'abc',
      error: { code: 'schema', message: expect.stringContaining('its limit of 3 tokens') as unknown },
    });
  });

  test('that a stop string cuts off although they were whole are errors, unless what is left is whole as well', async () => {
    await using engine = await open();
    const formats: readonly (readonly [ResponseFormat, string])[] = [
      [{ type: 'choices', choices: ['Yes.', 'No.'] }, '.'],
      [{ type: 'regex', regex: '[a-z]{3}\\.' }, '.'],
      [{ type: 'grammar', grammar: 'start: "(" /[a-z]{2}/ ")"' }, ')'],
      [{ type: 'json_schema', schema: { type: 'object', maxProperties: 0 } }, '}'],
      [{ type: 'choices', choices: ['No', 'No.'] }, '.'],
      [{ type: 'regex', regex: '[a-z]{3}(\\.\\.)?' }, '.'],
      [{ type: 'json_schema', schema: { const: 11 } }, '1'],
      [{ type: 'json_schema', schema: { const: 'a.' } }, '"'],
    ];
    const results = await generate(
      engine,
      formats.map(([responseFormat, stop]) => ({ prompt: 'x', responseFormat, stop: [stop] })),
    );
    expect(results.map(({ error }) => error?.code)).toEqual([
      'schema',
      'schema',
      'schema',
      'schema',
      undefined,
      undefined,
      'schema',
      'schema',
    ]);
    for (const { error, text } of results.slice(0, 4)) {
      expect(error?.message).toContain('one of its stop strings');
      expect(text).toMatch(/^(Yes|No|[a-z]{3}|\([a-z]{2}|\{)$/);
    }
    for (const { text, value, finishReason } of results.slice(4, 6)) {
      expect(text).toMatch(/^(No|[a-z]{3})$/);
      expect([value, finishReason]).toEqual([text, 'stop']);
    }
  });

  test('that become too much for their grammar are errors, with what there is of them', async () => {
    await using engine = await open();
    const grammar = `start: /[ab]/ "c" rest\nrest: ${Array.from({ length: 12_000 }, (_, i) => `"x${i}"`).join('|')}`;
    const [bad, good] = await generate(engine, [
      { prompt: 'x', responseFormat: { type: 'grammar', grammar } },
      { prompt: 'x', responseFormat: { type: 'choices', choices: ['y'] } },
    ]);
    expect(bad).toMatchObject({
      text: expect.stringMatching(/^[ab]$/) as unknown,
      finishReason: 'error',
      error: { code: 'limit', message: expect.stringContaining('responseFormat, after 1 tokens') as unknown },
    });
    expect(good).toMatchObject({ text: 'y', finishReason: 'stop' });
  });

  test('of a row that asks for what is not there are errors of that row; of the run, errors before one is looked at', async () => {
    await using engine = await open();
    const unsupported: ResponseFormat = {
      type: 'json_schema',
      schema: { properties: { a: { $ref: 'x.json' } } },
    };
    const [bad, odd, good] = await generate(engine, [
      { prompt: 'x', responseFormat: unsupported },
      { prompt: 'x', responseFormat: 7 as unknown as ResponseFormat },
      { prompt: 'x', responseFormat: { type: 'choices', choices: ['y'] } },
    ]);
    expect(bad?.error).toEqual({
      code: 'unsupported-schema',
      message: expect.stringContaining('at /properties/a/$ref') as unknown,
    });
    expect(odd?.error).toEqual({ code: 'invalid-parameter', message: expect.stringContaining('found 7') as unknown });
    expect(good?.text).toBe('y');
    let read = 0;
    const rows = function* (): Generator<Row> {
      read++;
      yield { prompt: 'x' };
    };
    const failure = await generate(engine, rows() as unknown as Row[], { responseFormat: unsupported }).catch(
      (error: unknown) => error,
    );
    expect(failure).toBeInstanceOf(ResponseFormatError);
    expect(failure).toMatchObject({ path: '/properties/a/$ref', keyword: '$ref' });
    // The first one is asked for at once: a source that does not wait would give it to nobody.
    expect(read).toBeLessThanOrEqual(1);
    expect(() => engine.generate([], { responseFormat: { type: 'yaml' } as unknown as ResponseFormat })).toThrow(
      UsageError,
    );
  });

  test('are not to be had where engines share the layers of a model', async () => {
    await using ring = await engineRing([1, 1], { model: model.path, batchSize: 4 });
    const [first, second] = ring.engines;
    const [peers, others] = ring.connect();
    if (!first || !second || !peers || !others) throw new Error('two engines');
    const following = second.follow(others).catch((error: unknown) => error);
    await expect(
      generate(first, [{ prompt: 'x' }], { peers, responseFormat: { type: 'regex', regex: 'a' } }),
    ).rejects.toThrow(/expected none where engines share the layers/);
    await following;
  });
});

test('a model without a tokenizer has no text that could be held to a format', async () => {
  const folder = `${model.path}-bare`;
  await cp(model.path, folder, { recursive: true });
  try {
    await rm(`${folder}/tokenizer.json`);
    await using engine = await Engine.open({ model: folder });
    const [row] = await generate(engine, [{ tokens: [1, 2], responseFormat: { type: 'regex', regex: 'a' } }]);
    expect(row?.error?.code).toBe('unsupported-schema');
  } finally {
    await rm(folder, { recursive: true });
  }
});
