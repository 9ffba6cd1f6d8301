import { afterAll, beforeAll, expect, test } from '@jest/globals';
import fc from 'fast-check';
import { ask, Engine, type Question, type Row, type RowResult, type RunOptions } from '../../src/index.js';
import { from, lastValueFrom, toArray } from 'rxjs';
import { describeGrammars } from '../support/grammars.js';
import { tinyChatModel } from '../support/tinyChatModel.js';
import { at, collect } from './support.js';

const QUESTIONS: readonly Question[] = [
  { name: 'tone', text: 'Tone?', choices: ['good', 'bad', 'so so'] },
  { name: 'size', text: 'Size?', schema: { type: 'integer', minimum: 0, maximum: 99 } },
  { name: 'why', text: 'Why is it {{answers.tone}}?', maxNewTokens: 7 },
];
const rowsOf = (count: number): readonly Row[] =>
  Array.from({ length: count }, (_, nth) => ({ id: `r${nth}`, prompt: `${'text '.repeat(10 + (nth % 4))}${nth}` }));

describeGrammars('several questions about a row', () => {
  let model: Awaited<ReturnType<typeof tinyChatModel>>;
  let engine: Engine;
  beforeAll(async () => {
    model = await tinyChatModel();
    engine = await Engine.open({ model: model.path, batchSize: 8, learn: false });
  });
  afterAll(async () => {
    await engine.close();
    await model[Symbol.asyncDispose]();
  });
  const one = async (row: Row, options: RunOptions): Promise<RowResult> =>
    at(await collect(engine.generate([row], { confidence: true, ...options })), 0);

  test.each<RunOptions>([{ chat: true, maxNewTokens: 20 }, { chat: true, system: 'Say.', maxNewTokens: 20 }, {}])(
    'have the answers of each asked alone with the same words before it: %j',
    async (options) => {
      const rows = rowsOf(12);
      const results = await collect(engine.ask(rows, QUESTIONS, options));
      expect(results.map(({ id, index }) => [id, index])).toEqual(rows.map(({ id }, index) => [id, index]));
      for (const [nth, { answers = {}, error, usage, finishReason }] of results.entries()) {
        const { prompt = '' } = at(rows, nth);
        const alone = [
          await one(
            { prompt: `${prompt}\n\nTone?`, responseFormat: { type: 'choices', choices: ['good', 'bad', 'so so'] } },
            options,
          ),
          await one(
            {
              prompt: `${prompt}\n\nSize?`,
              responseFormat: { type: 'json_schema', schema: { type: 'integer', minimum: 0, maximum: 99 } },
            },
            options,
          ),
        ];
        alone.push(await one({ prompt: `${prompt}\n\nWhy is it ${at(alone, 0).text}?`, maxNewTokens: 7 }, options));
        expect(Object.keys(answers)).toEqual(['tone', 'size', 'why']);
        expect(Object.values(answers)).toEqual(
          alone.map(({ text, value, finishReason: end, confidence, leastConfidence }) => ({
            text,
            ...(value !== undefined && { value }),
            finishReason: end,
            confidence,
            leastConfidence,
          })),
        );
        expect(error).toBeUndefined();
        expect(finishReason).toBe(alone.some((each) => each.finishReason === 'length') ? 'length' : 'stop');
        expect(usage.promptTokens).toBe(alone.reduce((sum, each) => sum + each.usage.promptTokens, 0));
      }
    },
  );

  test('compute the text of a row once', async () => {
    const long: readonly Row[] = Array.from({ length: 8 }, (_, nth) => ({ prompt: `${nth} `.repeat(300) }));
    const run = engine.ask(long, QUESTIONS, { maxNewTokens: 8 });
    await collect(run);
    const { tokens, sharing, rows } = await run.stats;
    expect(rows).toMatchObject({ done: 8, failed: 0 });
    const own = long.reduce((sum, { prompt = '' }) => sum + prompt.length, 0);
    // Of three prompts two are computed from where they differ on, but for a page.
    expect(sharing.promptTokensSaved).toBeGreaterThan(1.8 * own);
    expect(tokens.prompt - sharing.promptTokensSaved).toBeLessThan(1.3 * own);
  });

  test('one that fails is an error of its own and of those that need it', async () => {
    const questions: readonly Question[] = [
      { name: 'json', text: 'JSON?', schema: { type: 'string', minLength: 50 }, maxNewTokens: 4 },
      { name: 'free', text: 'More?', maxNewTokens: 3 },
      { name: 'next', text: 'After {{answers.json}}?', maxNewTokens: 3 },
      { name: 'spare', text: 'After {{answers.json:nothing}}?', maxNewTokens: 3 },
    ];
    const [result] = await collect(engine.ask([{ prompt: 'x', carry: { a: 1 } }], questions));
    expect(result).toMatchObject({ finishReason: 'error', carry: { a: 1 }, error: { code: 'schema' } });
    expect(result?.error?.message).toMatch(/^question "json": the answer was cut off/);
    expect(result?.answers?.['json']?.error?.code).toBe('schema');
    expect(result?.answers?.['free']?.error).toBeUndefined();
    expect(result?.answers?.['next']?.error).toMatchObject({ code: 'missing-field' });
    expect(result?.answers?.['next']?.error?.message).toContain('{{answers.json?}}');
    const alone = await one({ prompt: 'x\n\nAfter nothing?', maxNewTokens: 3 }, {});
    expect(result?.answers?.['spare']?.text).toBe(alone.text);
  });

  test('bad rows are errors, and no other row is affected', async () => {
    const given = [
      { prompt: 'a' },
      { error: { code: 'invalid-json', message: 'line 2' } },
      { id: 'x', prompt: 'b' },
      { id: 'x', prompt: 'c' },
      { tokens: [5, 6] },
      { prompt: 'd', samples: 2 },
      {},
    ] as readonly Row[];
    const results = await collect(engine.ask(given, QUESTIONS, { maxNewTokens: 8 }));
    expect(results.map(({ error }) => error?.code)).toEqual([
      undefined,
      'invalid-json',
      undefined,
      'duplicate-id',
      'invalid-row',
      'invalid-parameter',
      'no-prompt',
    ]);
    expect(results.map(({ index }) => index)).toEqual([0, 1, 2, 3, 4, 5, 6]);
  });

  test("go into the last message of a conversation that is the user's, else into one of their own", async () => {
    const question: Question = { name: 'q', text: 'Q?', maxNewTokens: 3 };
    const asked = async (messages: Row['messages'] & object): Promise<string | undefined> =>
      at(await collect(engine.ask([{ messages }], [question])), 0).answers?.['q']?.text;
    const user = { role: 'user', content: 'hello' };
    const assistant = { role: 'assistant', content: 'well' };
    expect(await asked([user])).toBe(
      (await one({ messages: [{ ...user, content: 'hello\n\nQ?' }], maxNewTokens: 3 }, {})).text,
    );
    expect(await asked([user, assistant])).toBe(
      (await one({ messages: [user, assistant, { role: 'user', content: 'Q?' }], maxNewTokens: 3 }, {})).text,
    );
  });

  test('never lose the question where a prompt is cut', async () => {
    const rows = [{ prompt: 'word '.repeat(2000) }];
    const [result] = await collect(engine.ask(rows, QUESTIONS, { truncate: 'tail', maxNewTokens: 8 }));
    expect(result?.error).toBeUndefined();
    expect(result?.truncated).toBeGreaterThan(7000);
    const fields = [{ fields: { body: 'word '.repeat(2000) } }];
    const [filled] = await collect(
      engine.ask(fields, QUESTIONS, { promptTemplate: 'Text: {{body}}', truncate: 'head', maxNewTokens: 8 }),
    );
    expect(filled?.error).toBeUndefined();
  });

  test('in any number of rows, places and orders, by drawn runs', async () => {
    const all = await collect(engine.ask(rowsOf(16), QUESTIONS, { maxNewTokens: 5 }));
    await fc.assert(
      fc.asyncProperty(fc.integer({ min: 1, max: 16 }), fc.boolean(), fc.boolean(), async (count, input, slow) => {
        const source = async function* (): AsyncGenerator<Row> {
          for (const row of rowsOf(count)) {
            if (slow) await new Promise((resolve) => setTimeout(resolve, 1));
            yield row;
          }
        };
        const results = await collect(
          engine.ask(source(), QUESTIONS, { maxNewTokens: 5, order: input ? 'input' : 'completion' }),
        );
        const sorted = input ? results : [...results].sort((a, b) => a.index - b.index);
        expect(sorted).toEqual(all.slice(0, count));
      }),
      { numRuns: 8 },
    );
  });

  test('end when their consumer leaves, and their source with them', async () => {
    let ended = false;
    const endless = async function* (): AsyncGenerator<Row> {
      try {
        for (let nth = 0; ; nth++) yield { prompt: `row ${nth}` };
      } finally {
        ended = true;
      }
    };
    for await (const { answers } of engine.ask(endless(), QUESTIONS, { maxNewTokens: 3 })) {
      expect(answers).toBeDefined();
      break;
    }
    while (!ended) await new Promise((resolve) => setTimeout(resolve, 5));
  });

  test('as an operator', async () => {
    const rows = rowsOf(3);
    const results = await lastValueFrom(from(rows).pipe(ask(engine, QUESTIONS, { maxNewTokens: 4 }), toArray()));
    expect(results).toEqual(await collect(engine.ask(rows, QUESTIONS, { maxNewTokens: 4 })));
  });
});
