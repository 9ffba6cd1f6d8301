import { afterAll, beforeAll, expect, test } from '@jest/globals';
import addFormats from 'ajv-formats';
import { Ajv2020 } from 'ajv/dist/2020.js';
import { from, lastValueFrom, toArray } from 'rxjs';
import { z } from 'zod';
import { Engine } from '../../src/Engine.js';
import { ResponseFormatError } from '../../src/errors/RowError.js';
import { UsageError } from '../../src/errors/UsageError.js';
import { offloadGenerate } from '../../src/operators/offloadGenerate.js';
import type { Row, RowResult } from '../../src/Row.js';
import { EnforcedSchema } from '../../src/schema/EnforcedSchema.js';
import { zodJsonSchema } from '../../src/schema/zodJsonSchema.js';
import { describeGrammars } from '../support/grammars.js';
import { enforced, suite } from '../support/jsonSchemaSuite.js';
import { tinyChatModel } from '../support/tinyChatModel.js';

const all = async <T>(rows: AsyncIterable<T>): Promise<T[]> => {
  const results: T[] = [];
  for await (const row of rows) results.push(row);
  return results;
};
const prompts = (count: number): Row[] => Array.from({ length: count }, (_, at) => ({ prompt: `row ${at}` }));

/** A tiny random model, with a token a byte: what it says means nothing, and has to have the form. */
describeGrammars('answers that are held to a format', () => {
  let model: Awaited<ReturnType<typeof tinyChatModel>>;
  let engine: Engine;

  beforeAll(async () => {
    model = await tinyChatModel();
    engine = await Engine.open({ model: model.path });
  });
  afterAll(async () => {
    await engine.close();
    await model[Symbol.asyncDispose]();
  });

  test('values of a zod schema are its own, known to the compiler', async () => {
    const schema = z.object({
      kind: z.enum(['a', 'b']),
      count: z
        .int()
        .min(1)
        .max(9)
        .transform((count) => `${count} pieces`),
      note: z.boolean().default(true),
    });
    const results = await all(engine.generate(prompts(4), { schema, temperature: 1, maxNewTokens: 200 }));
    for (const row of results) {
      expect(row.error).toBeUndefined();
      const { kind, count, note } = row.value ?? { kind: undefined, count: '', note: undefined };
      const checked: 'a' | 'b' | undefined = kind;
      expect([['a', 'b'].includes(checked ?? ''), typeof note]).toEqual([true, 'boolean']);
      expect(count).toMatch(/^[1-9] pieces$/);
      // @ts-expect-error the schema has no such field
      expect(row.value?.colour).toBeUndefined();
    }
    const streamed = await lastValueFrom(
      from(prompts(1)).pipe(offloadGenerate(engine, { schema, maxNewTokens: 200 }), toArray()),
    );
    const field: string | undefined = streamed[0]?.value?.count;
    expect(field).toMatch(/pieces/);
    // @ts-expect-error it is text
    const wrong: number | undefined = streamed[0]?.value?.count;
    expect(wrong).toBe(field);
  });

  test('texts that zod has a pattern for are enforced', async () => {
    const schema = z.object({
      starts: z.string().startsWith('a').max(9),
      both: z.string().startsWith('a').endsWith('b').max(9),
      lower: z.string().lowercase().max(9),
      nano: z.nanoid(),
      phone: z.e164(),
      net: z.cidrv4(),
    });
    const results = await all(engine.generate(prompts(8), { schema, temperature: 1, maxNewTokens: 400 }));
    for (const { text, error } of results) expect([text, error]).toEqual([text, undefined]);
  });

  test('what zod checks besides is an error row that keeps its text', async () => {
    const [row] = await all(
      engine.generate(prompts(1), { schema: z.object({ a: z.boolean().refine(() => false, 'never') }) }),
    );
    expect(row).toMatchObject({
      text: expect.stringMatching(/^\{"a":(true|false)\}$/),
      finishReason: 'error',
      error: { code: 'schema', message: expect.stringContaining('never') },
    });
    expect(row).not.toHaveProperty('value');
  });

  test('what zod checks besides is no affair of a row that is held to the same format by itself', async () => {
    const kinds = z.enum(['yes', 'no']);
    const schema = kinds.refine(() => false, 'never');
    const own: Row = { prompt: 'a', responseFormat: { type: 'json_schema', schema: zodJsonSchema(kinds) } };
    const rows: Row[] = [{ prompt: 'a' }, own, { prompt: 'a' }, own];
    const shared = await all(engine.generate(rows, { schema }));
    expect(shared.map(({ error }) => error?.code)).toEqual(['schema', undefined, 'schema', undefined]);
    expect(shared[1]?.value).toMatch(/^(yes|no)$/);
    expect(await all(engine.generate(rows, { schema, sharePrefixes: false }))).toEqual(shared);
  });

  test('a row has its own format, none, or one that cannot be; without any there is no value', async () => {
    const rows: Row[] = [
      { prompt: 'a' },
      { prompt: 'a', responseFormat: { type: 'choices', choices: ['yes', 'no'] } },
      { prompt: 'a', responseFormat: { type: 'text' } },
      { prompt: 'a', responseFormat: { type: 'json_schema', schema: { items: { $ref: 'x.json' } } } },
      { prompt: 'a', responseFormat: { type: 'json_schema', schema: { type: 'string', minLength: 500 } } },
      { prompt: 'a', responseFormat: { type: 'nothing' } as never },
    ];
    const [regex, choice, text, refused, cut, wrong] = await all(
      engine.generate(rows, { responseFormat: { type: 'regex', regex: '[0-9]{3}' }, maxNewTokens: 20 }),
    );
    expect(regex?.value).toMatch(/^[0-9]{3}$/);
    expect(['yes', 'no']).toContain(choice?.value);
    expect(text).not.toHaveProperty('value');
    expect(refused?.error).toEqual({ code: 'unsupported-schema', message: expect.stringContaining('/items/$ref') });
    expect(cut).toMatchObject({ error: { code: 'schema' }, finishReason: 'error' });
    expect(cut?.text).toMatch(/^"/);
    expect(wrong?.error?.code).toBe('invalid-parameter');
  });

  test("a run's own format is refused before a row is read", async () => {
    const read = function* (): Generator<Row> {
      yield { prompt: 'a' };
      throw new Error('was read');
    };
    const run = (responseFormat: unknown): Promise<RowResult[]> =>
      all(engine.generate(read(), { responseFormat: responseFormat as never }));
    await expect(run({ type: 'json_schema', schema: { $ref: 'x.json' } })).rejects.toThrow(ResponseFormatError);
    await expect(run({ type: 'regex', regex: '(' })).rejects.toThrow(ResponseFormatError);
    expect(() => engine.generate(read(), { responseFormat: { type: 'regex' } as never })).toThrow(UsageError);
    expect(() => engine.generate([], { schema: z.object({}), responseFormat: { type: 'text' } })).toThrow(
      /one of them/,
    );
    expect(() => engine.generate([], { schema: z.bigint() })).toThrow(/JSON Schema/);
  });

  test('rows that are equal have values of their own', async () => {
    const [first, second] = await all(
      engine.generate([{ prompt: 'same' }, { prompt: 'same' }], {
        responseFormat: {
          type: 'json_schema',
          schema: { type: 'array', items: { type: 'boolean' }, minItems: 1, maxItems: 1 },
        },
      }),
    );
    expect(second?.value).toEqual(first?.value);
    expect(second?.value).not.toBe(first?.value);
  });

  test('the schema is told at the end of the system message, and shared', async () => {
    const responseFormat = { type: 'choices', choices: ['yes', 'no'] } as const;
    const run = async (options: object): Promise<number> =>
      (
        await all(
          engine.generate([{ messages: [{ role: 'user', content: 'x' }] }], {
            responseFormat,
            maxNewTokens: 4,
            ...options,
          }),
        )
      )[0]?.usage.promptTokens ?? 0;
    const told = 'Answer with one of these alone:\nyes\nno';
    expect(await run({ schemaInPrompt: true, system: 'S' })).toBe(await run({ system: `S\n\n${told}` }));
    expect(await run({ schemaInPrompt: true })).toBe(await run({ system: told }));
    expect(await run({ schemaInPrompt: false })).toBe(await run({}));
  });

  test("every eighth of JSON-Schema-Test-Suite's schemas: what is whole is valid, under ajv too", async () => {
    const cases = suite.flatMap((one, at) => {
      const schema = at % 8 === 0 ? enforced(one.schema) : undefined;
      return schema instanceof EnforcedSchema ? [{ ...one, left: schema.left }] : [];
    });
    expect(cases.length).toBeGreaterThan(25);
    const rows: Row[] = cases.flatMap(({ name, schema }) =>
      [1, 2].map((seed) => ({
        id: `${name} ${seed}`,
        prompt: name,
        seed,
        responseFormat: { type: 'json_schema', schema },
      })),
    );
    const results = await all(engine.generate(rows, { temperature: 1, maxNewTokens: 300 }));
    expect(results.filter(({ error }) => error !== undefined && error.code !== 'schema')).toEqual([]);
    // Cut off, at the most: nothing whole is invalid of what masks say alone.
    for (const { error, index } of results)
      if (error && cases[Math.floor(index / 2)]?.left.length === 0) expect(error.message).toContain('was cut off');
    const whole = results.filter(({ error }) => error === undefined);
    expect(whole.length).toBeGreaterThan(results.length / 2);
    for (const { index, value } of whole) {
      const { schema, tests, name } = cases[Math.floor(index / 2)] ?? cases[0] ?? { schema: true, tests: [], name: '' };
      // It knows the last draft alone.
      if (name.startsWith('draft')) continue;
      const ajv = new Ajv2020({ strict: false, logger: false, multipleOfPrecision: 6 });
      addFormats.default(ajv);
      const judge = tests.some(({ data, valid }) => valid && !ajv.validate(schema as object, data))
        ? undefined
        : ajv.compile(schema as object);
      // Ajv itself takes some schemas of the suite for others.
      if (judge !== undefined) expect([name, value, judge(value)]).toEqual([name, value, true]);
    }
  });
});
