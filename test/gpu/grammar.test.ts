import './support/emulatedAddon.js';
import { afterAll, beforeAll, expect } from '@jest/globals';
import { Engine, type EngineOptions, type Row, type RowResult, type RunOptions } from '../../src/index.js';
import { testGrammars } from '../support/grammars.js';
import { tinyChatModel } from '../support/tinyChatModel.js';

let model: Awaited<ReturnType<typeof tinyChatModel>>;
beforeAll(async () => {
  model = await tinyChatModel();
});
afterAll(async () => {
  await model[Symbol.asyncDispose]();
});

async function generate(
  options: Partial<EngineOptions>,
  rows: readonly Row[],
  run: RunOptions = {},
): Promise<RowResult[]> {
  await using engine = await Engine.open({ model: model.path, gpuMemory: '16MiB', ...options });
  const results: RowResult[] = [];
  for await (const row of engine.generate(rows, { maxNewTokens: 12, ...run })) results.push(row);
  return results;
}

testGrammars('rows that are held to a format are on a GPU, too, and the others beside them are as ever', async () => {
  const free: Row[] = [
    { id: 'free', prompt: 'abc' },
    { id: 'sampled', prompt: 'xyz', temperature: 1, seed: 3 },
  ];
  const held: Row[] = [
    { id: 'choice', prompt: 'abc', responseFormat: { type: 'choices', choices: ['yes', 'no', 'never'] } },
    {
      id: 'regex',
      prompt: 'xyz',
      temperature: 1,
      seed: 4,
      responseFormat: { type: 'regex', regex: '[a-z]{2}-[0-9]{2}' },
    },
    {
      id: 'schema',
      prompt: 'abc',
      temperature: 1,
      responseFormat: {
        type: 'json_schema',
        schema: { type: 'array', items: { type: 'boolean' }, minItems: 1, maxItems: 1 },
      },
    },
  ];
  const together = await generate({ batchSize: 8 }, [...held, ...free]);
  expect(together.slice(0, 3).map(({ text, finishReason }) => [text, finishReason])).toEqual([
    [expect.stringMatching(/^(yes|no|never)$/), 'stop'],
    [expect.stringMatching(/^[a-z]{2}-[0-9]{2}$/), 'stop'],
    [expect.stringMatching(/^\[(true|false)\]$/), 'stop'],
  ]);
  expect(await generate({ batchSize: 1 }, [...held, ...free])).toEqual(together);
  expect((await generate({ batchSize: 8 }, free)).map(({ text }) => text)).toEqual(
    together.slice(3).map(({ text }) => text),
  );
});

testGrammars('what a format forces comes together on a GPU, too, to the same bits', async () => {
  const properties = Object.fromEntries(
    ['identification', 'description', 'category'].map((name) => [name, { type: 'boolean' }]),
  );
  const responseFormat = {
    type: 'json_schema',
    schema: { type: 'object', properties, required: Object.keys(properties), additionalProperties: false },
  } as const;
  const rows: Row[] = Array.from({ length: 4 }, (_, id) => ({
    id,
    prompt: 'abc'.repeat(id + 1),
    temperature: id % 2,
    seed: id,
    ...(id < 3 && { responseFormat }),
  }));
  const passes = new Set<unknown>();
  const together = await generate({ batchSize: 8 }, rows, {
    maxNewTokens: 90,
    ignoreEos: true,
    onTrace: ({ name, args }) => name === 'known' && passes.add(args['row']),
  });
  const sampled = await generate({ batchSize: 1 }, rows, { maxNewTokens: 90, ignoreEos: true, logprobs: 0 });
  expect(together).toEqual(sampled.map(({ logprobs: _, ...row }) => row));
  expect(together.slice(0, 3).map(({ finishReason }) => finishReason)).toEqual(['stop', 'stop', 'stop']);
  expect(passes.size).toBe(3);
});
