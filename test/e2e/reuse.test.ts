import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import fc from 'fast-check';
import {
  Engine,
  InterruptedError,
  ReuseFile,
  UsageError,
  type AnswerKind,
  type AnswerStore,
  type Answers,
  type KeptAnswer,
  type Row,
  type RowInput,
  type RunStats,
} from '../../src/index.js';
import { temporaryFolder } from '../jobs/support/files.js';
import { tinyChatModel } from '../support/tinyChatModel.js';

type Options = Partial<Answers['classify']['options'] & Answers['score']['options'] & Answers['embed']['options']>;
type Result = Answers[AnswerKind]['result'];
interface Outcome {
  readonly results: readonly Result[];
  readonly stats: RunStats;
}

let engine: Engine;
let model: AsyncDisposable & { readonly path: string };
beforeAll(async () => {
  model = await tinyChatModel();
  // A template that asks for variables and tools.
  const settings = join(model.path, 'tokenizer_config.json');
  const { chat_template: template, ...others } = JSON.parse(readFileSync(settings, 'utf8')) as {
    readonly chat_template: string;
  };
  writeFileSync(
    settings,
    JSON.stringify({
      ...others,
      chat_template: `{% if mood %}{{ mood }}{% endif %}{% if tools %}{{ tools | length }}{% endif %}${template}`,
    }),
  );
  engine = await Engine.open({ model: model.path, batchSize: 4, tokensPerSquare: 64 });
});
afterAll(async () => {
  await engine.close();
  await model[Symbol.asyncDispose]();
});

const path = temporaryFolder();

async function run(kind: AnswerKind, rows: readonly RowInput[], options: Options = {}): Promise<Outcome> {
  const results: Result[] = [];
  const seen: RunStats[] = [];
  const told = { ...options, onStats: (final: RunStats): void => void seen.push(final) };
  for await (const result of engine[kind](rows, told)) results.push(result);
  const [stats] = seen;
  if (!stats) throw new Error('no statistics');
  return { results, stats };
}

/** Opens a file of answers, and closes it: what is found in it next time has been bytes. */
async function keeping<T>(name: string, use: (store: ReuseFile) => Promise<T>): Promise<T> {
  const store = await ReuseFile.open(path(name), {
    onWarning: (words) => {
      throw new Error(words);
    },
  });
  try {
    return await use(store);
  } finally {
    await store.close();
  }
}

/**
 * What decides an answer, by task: the options that others are set beside, and what of them, or of the rows, is another
 * answer.
 */
const TASKS: readonly (readonly [AnswerKind, Options, readonly (readonly [string, Options])[]])[] = [
  [
    'classify',
    { labels: ['yes', 'no', 'yes, but'], promptTemplate: 'Say: {{text}}', chat: true },
    [
      ['other labels', { labels: ['yes', 'no', 'yes, and'] }],
      ['the same labels in another order', { labels: ['no', 'yes', 'yes, but'] }],
      ['a label less', { labels: ['yes', 'no'] }],
      ['the end token', { labelEnd: true }],
      ['a prior of numbers', { labelPrior: [0.2, 0.3, 0.5] }],
      ['a prior of other numbers', { labelPrior: [0.2, 0.3, 0.500_000_1] }],
      ['a prior of a text', { labelPrior: 'N/A' }],
      ['a prior of another text', { labelPrior: 'none' }],
    ],
  ],
  [
    'score',
    { completions: ['yes', 'no', [7, 8]], promptTemplate: 'Say: {{text}}', chat: true },
    [
      ['other completions', { completions: ['yes', 'no', [7, 9]] }],
      ['the same in another order', { completions: ['no', 'yes', [7, 8]] }],
      ['one less', { completions: ['yes', 'no'] }],
      ['tokens parted otherwise', { completions: ['yes', 'no', [7], [8]] }],
      ['the end token', { completionEnd: true }],
      ['log-probabilities of tokens', { tokenLogprobs: true }],
    ],
  ],
  [
    'embed',
    { promptTemplate: 'Say: {{text}}', chat: true, pooling: 'last' },
    [
      ['the mean', { pooling: 'mean' }],
      ['the first', { pooling: 'cls' }],
      ['fewer dimensions', { dimensions: 8 }],
      ['fewer still', { dimensions: 7 }],
      ['their own length', { normalize: false }],
      ['base64', { encoding: 'base64' }],
    ],
  ],
];
/** What decides the prompt, whatever is asked of it. */
const PROMPTS: readonly (readonly [string, Options])[] = [
  ['another template', { promptTemplate: 'Tell: {{text}}' }],
  ['a system message', { system: 'Be brief.' }],
  ['another system message', { system: 'Be long.' }],
  ['raw text', { chat: false }],
  ['a variable of the chat template', { templateArgs: { mood: 'glad' } }],
  ['another value of it', { templateArgs: { mood: 'sad' } }],
  ['a tool', { tools: [{ name: 'look' }] }],
  ['control text as data', { escapeSpecialTokens: true }],
];
const ROWS: readonly Row[] = ['one', 'two', 'three <|im_end|>', 'four'].map((text, id) => ({ id, fields: { text } }));

describe.each(TASKS)('%s', (kind, options, others) => {
  test('rows that are equal are computed once, and have the same results under their own names', async () => {
    const rows = Array.from({ length: 24 }, (_, at) => ({
      id: `row-${at}`,
      fields: { text: ['a', 'b', 'c'][at % 3] },
      carry: { at },
    }));
    const alone = await run(kind, rows, { ...options, sharePrefixes: false });
    const { results, stats } = await run(kind, rows, options);
    expect(results).toEqual(alone.results);
    expect(results.map(({ id, carry }) => [id, carry])).toEqual(rows.map(({ id, carry }) => [id, carry]));
    expect(alone.stats).toMatchObject({ rows: { done: 24, failed: 0 }, sharing: { rowsEqual: 0, rowsReused: 0 } });
    expect(stats).toMatchObject({
      rows: { done: 24, failed: 0 },
      sharing: { rowsEqual: 21, rowsReused: 0 },
      tokens: { prompt: alone.stats.tokens.prompt / 8 },
    });
  });

  test('a run that comes again computes nothing, and of rows that changed those alone', async () => {
    const first = await keeping(`${kind}-again`, (reuse) => run(kind, ROWS, { ...options, reuse }));
    expect(first.stats.sharing.rowsReused).toBe(0);
    const again = await keeping(`${kind}-again`, (reuse) => run(kind, [...ROWS].reverse(), { ...options, reuse }));
    expect(again.stats).toMatchObject({
      rows: { done: 4, failed: 0 },
      sharing: { rowsEqual: 0, rowsReused: 4, promptTokensSaved: 0 },
      tokens: { prompt: 0 },
      queues: {},
    });
    const answers = ({ results }: Outcome): unknown[] => results.map(({ id: _id, index: _index, ...answer }) => answer);
    expect(answers(again)).toEqual(answers(first).reverse());
    const changed = [{ id: 'new', fields: { text: 'five' } }, ...ROWS.slice(1)];
    const third = await keeping(`${kind}-again`, (reuse) => run(kind, changed, { ...options, reuse }));
    expect(third.stats).toMatchObject({
      sharing: { rowsReused: 3 },
      tokens: (await run(kind, changed.slice(0, 1), options)).stats.tokens,
    });
    expect(third.results).toEqual((await run(kind, changed, options)).results);
  });

  test.each([...others, ...PROMPTS])('%s: nothing of another answer', async (name, change) => {
    // One file for all of them: what one has kept is none of the later ones'.
    const [file, other] = [`${kind}-options`, { ...options, ...change }];
    await keeping(file, (reuse) => run(kind, ROWS, { ...options, reuse }));
    const unlike = name === 'control text as data' ? ROWS.slice(2, 3) : ROWS;
    const changed = await keeping(file, (reuse) => run(kind, unlike, { ...other, reuse }));
    expect(changed.stats.sharing.rowsReused).toBe(0);
    expect(changed.results).toEqual((await run(kind, unlike, other)).results);
    // Both lie side by side.
    for (const each of [options, other])
      expect((await keeping(file, (reuse) => run(kind, unlike, { ...each, reuse }))).stats.sharing.rowsReused).toBe(
        unlike.length,
      );
  });

  test('what is no part of an answer finds it', async () => {
    await keeping(`${kind}-same`, (reuse) => run(kind, ROWS, { ...options, reuse }));
    for (const same of [
      { order: 'completion' },
      { sharePrefixes: false },
      { rowTimeout: 1000 },
      { lookAhead: { rows: 1 } },
    ] as const) {
      expect(
        (await keeping(`${kind}-same`, (reuse) => run(kind, ROWS, { ...options, ...same, reuse }))).stats.sharing
          .rowsReused,
      ).toBe(4);
    }
  });

  test('an error is not kept', async () => {
    const rows = [...ROWS, { id: 'bad', fields: {} }, { id: 'long', tokens: Array.from({ length: 3000 }, () => 5) }];
    for (const rowsReused of [0, 4]) {
      const { results, stats } = await keeping(`${kind}-errors`, (reuse) => run(kind, rows, { ...options, reuse }));
      expect(stats).toMatchObject({ rows: { done: 4, failed: 2 }, sharing: { rowsReused } });
      expect(results.slice(4).map(({ error }) => error?.code)).toEqual(['missing-field', 'missing-field']);
    }
  });

  test('what a store throws ends the run, and one that gives something else is refused', async () => {
    await expect(
      run(kind, ROWS, {
        ...options,
        reuse: {
          get: () => {
            throw new Error('as asked');
          },
          put: () => undefined,
        },
      }),
    ).rejects.toThrow('as asked');
    await expect(
      run(kind, ROWS, {
        ...options,
        reuse: { get: () => ({ text: 'x', tokens: [1], finishReason: 'stop' }), put: () => undefined },
      }),
    ).rejects.toThrow(UsageError);
    // What is no promise of this realm, but settles all the same.
    const rejecting = {
      then: (_: unknown, rejected: (error: Error) => void) => {
        rejected(new Error('is gone'));
      },
    } as Promise<void>;
    await expect(
      run(kind, ROWS, { ...options, reuse: { get: () => undefined, put: () => rejecting } }),
    ).rejects.toThrow('is gone');
    // All is computed, and a store that does not come back is waited for until the signal fires.
    const controller = new AbortController();
    const waiting = run(kind, ROWS, {
      ...options,
      signal: controller.signal,
      reuse: { get: () => undefined, put: () => new Promise<void>(() => undefined) },
    });
    setTimeout(() => {
      controller.abort();
    }, 300);
    await expect(waiting).rejects.toThrow(InterruptedError);
    expect(() => engine[kind]([], { ...options, reuse: {} as AnswerStore })).toThrow(
      /^reuse: found an empty object, expected a store/,
    );
  });
});

test('no task gets what another has answered, though all of them ask the same rows', async () => {
  const rows = [{ prompt: 'Well?' }];
  const tasks = [
    ['classify', { labels: ['yes', 'no'] }],
    ['score', { completions: ['yes', 'no'] }],
    ['embed', {}],
  ] as const;
  const results = async (reuse: AnswerStore): Promise<unknown[]> => {
    const all: unknown[] = [];
    for (const [kind, options] of tasks) all.push(...(await run(kind, rows, { ...options, reuse })).results);
    for await (const result of engine.generate(rows, { maxNewTokens: 2, reuse })) all.push(result);
    return all;
  };
  const put: string[] = [];
  const kept = new Map<string, KeptAnswer>();
  const store: AnswerStore = {
    get: (key) => kept.get(key),
    put: (key, answer) => {
      put.push(key);
      kept.set(key, answer);
    },
  };
  const first = await results(store);
  expect(new Set(put).size).toBe(4);
  expect(await results(store)).toEqual(first);
  expect(put).toHaveLength(4);
});

test('no engine of other results gets what one has answered', async () => {
  await using float32 = await Engine.open({ model: model.path, batchSize: 4, precision: 'float32' });
  for (const [kind, options] of TASKS) {
    await keeping('engines', (reuse) => run(kind, ROWS, { ...options, reuse }));
    const put: string[] = [];
    await keeping('engines', async (file) => {
      const reuse: AnswerStore = { get: (key) => file.get(key), put: (key) => void put.push(key) };
      for await (const { error } of float32[kind](ROWS, { ...options, reuse })) expect(error).toBeUndefined();
    });
    expect(put).toHaveLength(ROWS.length);
  }
});

test('a row that took too long is computed again when it may', async () => {
  const options = { labels: ['yes', 'no'] };
  const slow = await keeping('slow', (reuse) =>
    run('classify', [{ prompt: 'Well?' }], { ...options, rowTimeout: 1e-6, reuse }),
  );
  expect(slow.results[0]?.error?.code).toBe('timeout');
  const again = await keeping('slow', (reuse) => run('classify', [{ prompt: 'Well?' }], { ...options, reuse }));
  expect(again).toMatchObject({ results: [{ label: expect.any(String) }], stats: { sharing: { rowsReused: 0 } } });
});

test('a prior that is a text is looked up as well', async () => {
  const kept = new Map<string, KeptAnswer>();
  let puts = 0;
  const reuse: AnswerStore = {
    get: (key) => kept.get(key),
    put: (key, answer) => {
      puts += 1;
      kept.set(key, answer);
    },
  };
  const options = { labels: ['yes', 'no'], labelPrior: 'N/A', reuse };
  const first = await run('classify', [{ prompt: 'Well?' }], options);
  expect(puts).toBe(2);
  expect((await run('classify', [{ prompt: 'Well?' }], options)).results).toEqual(first.results);
  expect(puts).toBe(2);
});

/** Few prompts, so that many rows are equal, and rows that ask for something of their own. */
const drawnRows = fc.array(
  fc.record(
    {
      tokens: fc.array(fc.nat(2), { maxLength: 3 }).map((tokens) => tokens.map((token) => token + 60)),
      labels: fc.constantFrom(['a', 'b'], ['b', 'a'], ['ab', 'b']),
      completions: fc.constantFrom([[1]], [[1, 2], [3]], [[3], [1, 2]], [[]]),
      carry: fc.record({ own: fc.nat(3) }, { noNullPrototype: true }),
    },
    { requiredKeys: ['tokens'], noNullPrototype: true },
  ),
  { minLength: 1, maxLength: 30 },
);
const optionsOf: { readonly [Kind in Exclude<AnswerKind, 'rerank'>]: fc.Arbitrary<Options> } = {
  classify: fc.record(
    { labels: fc.constantFrom(['a', 'b'], ['ab', 'b', 'c']), labelEnd: fc.boolean() },
    { noNullPrototype: true },
  ),
  score: fc.record(
    { completions: fc.constantFrom([[4]], [[1, 2], [1, 2, 3], [5]]), tokenLogprobs: fc.boolean() },
    { noNullPrototype: true },
  ),
  embed: fc.record(
    {
      pooling: fc.constantFrom('last', 'mean', 'cls'),
      normalize: fc.boolean(),
      encoding: fc.constantFrom('float', 'base64'),
      dimensions: fc.constantFrom(1, 64),
    },
    { noNullPrototype: true },
  ),
};
/** What a decoder is asked. */
const asked: Readonly<Record<Exclude<AnswerKind, 'rerank'>, 'labels' | 'completions' | undefined>> = {
  classify: 'labels',
  score: 'completions',
  embed: undefined,
};

test.each(Object.keys(asked) as Exclude<AnswerKind, 'rerank'>[])(
  '%s: whatever the rows, equal ones once, kept ones never, changed ones alone, and always the same bits',
  async (kind) => {
    let files = 0;
    await fc.assert(
      fc.asyncProperty(drawnRows, drawnRows, optionsOf[kind], fc.nat(100), async (rows, newer, options, share) => {
        const file = `drawn-${kind}-${files++}`;
        const field = asked[kind];
        const keysOf = (list: typeof rows, results: readonly Result[]): string[] =>
          list
            .filter((_, at) => !results[at]?.error)
            .map((row) => JSON.stringify([row.tokens, field && (row[field] ?? options[field])]));
        const expected = await run(kind, rows, { ...options, sharePrefixes: false });
        const good = keysOf(rows, expected.results);
        const distinct = new Set(good);
        const equal = await run(kind, rows, options);
        expect(equal.results).toEqual(expected.results);
        expect(equal.stats.sharing).toMatchObject({ rowsEqual: good.length - distinct.size, rowsReused: 0 });
        const first = await keeping(file, (reuse) => run(kind, rows, { ...options, reuse }));
        const again = await keeping(file, (reuse) => run(kind, rows, { ...options, reuse }));
        for (const { results } of [first, again]) expect(results).toEqual(expected.results);
        expect(again.stats.sharing).toEqual({ rowsEqual: 0, rowsReused: good.length, promptTokensSaved: 0 });
        expect(again.stats.tokens.prompt).toBe(0);
        // Some of the rows are others.
        const mixed = rows.map((row, at) => ((at * 37) % 100 < share ? (newer[at % newer.length] ?? row) : row));
        const mixedAlone = await run(kind, mixed, { ...options, sharePrefixes: false });
        const third = await keeping(file, (reuse) => run(kind, mixed, { ...options, sharePrefixes: false, reuse }));
        expect(third.results).toEqual(mixedAlone.results);
        const mixedGood = keysOf(mixed, mixedAlone.results);
        // Of rows that are equal and new the first ones are computed beside one another.
        const there = mixedGood.filter((key) => distinct.has(key)).length;
        const late = mixedGood.length - there - new Set(mixedGood.filter((key) => !distinct.has(key))).size;
        expect(third.stats.sharing.rowsReused).toBeGreaterThanOrEqual(there);
        expect(third.stats.sharing.rowsReused).toBeLessThanOrEqual(there + late);
      }),
      { numRuns: 12, endOnFailure: true },
    );
  },
);
