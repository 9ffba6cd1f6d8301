import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, test } from '@jest/globals';
import {
  experimental_cancelBatch as cancelBatch,
  type Experimental_BatchItemResult as Item,
  experimental_getBatchResults as getBatchResults,
  experimental_getBatchStatus as getBatchStatus,
  experimental_listBatches as listBatches,
  experimental_startBatch as startBatch,
  generateText,
} from 'ai';
import { InvalidArgumentError, InvalidPromptError, UnsupportedFunctionalityError } from '@ai-sdk/provider';
import { createSpillway, type SpillwayProvider } from '../../src/aiSdk/createSpillway.js';
import { Engine } from '../../src/Engine.js';
import { tinyChatModel } from '../support/tinyChatModel.js';
import { StubEngine } from '../serve/support/StubEngine.js';
import { stubServer, until } from '../serve/support/served.js';

let model: Awaited<ReturnType<typeof tinyChatModel>>;
let folder: string;

beforeAll(async () => {
  model = await tinyChatModel();
  folder = mkdtempSync(join(tmpdir(), 'spillway-ai-sdk-'));
});

afterAll(async () => {
  await model[Symbol.asyncDispose]();
  rmSync(folder, { recursive: true, force: true });
});

type Reference = Parameters<typeof getBatchStatus>[0]['batch'];

const over = (provider: SpillwayProvider, batch: Reference): Promise<void> =>
  until(async () => (await getBatchStatus({ provider, batch })).status !== 'pending');

async function itemsOf(provider: SpillwayProvider, batch: Reference): Promise<Map<string, Item>> {
  const items = new Map<string, Item>();
  for await (const item of getBatchResults({ provider, batch })) items.set(item.id, item);
  return items;
}

const requestsOf = (count: number, path: string) =>
  Array.from({ length: count }, (_, at) => ({
    id: `row-${at}`,
    type: 'text' as const,
    model: path,
    prompt: `Number ${at}`,
    maxOutputTokens: 6,
  }));

test('a batch answers as calls do, each request under its id', async () => {
  await using provider = createSpillway({
    batches: join(folder, 'answers'),
    open: (path, signal) => Engine.open({ model: path, signal }),
  });
  const bad = { ...requestsOf(1, model.path)[0], id: 'bad', prompt: 'x'.repeat(5000) } as ReturnType<
    typeof requestsOf
  >[0];
  const batch = await startBatch({
    provider,
    requests: [...requestsOf(5, model.path), bad],
    webhookUrl: 'https://example.test',
  });
  expect(batch).toMatchObject({
    status: 'pending',
    provider: 'spillway',
    warnings: [{ warning: { feature: 'webhookUrl' } }],
  });
  await over(provider, batch);
  const status = await getBatchStatus({ provider, batch });
  expect(status).toMatchObject({
    status: 'completed',
    requestCounts: { total: 6, completed: 5, failed: 1, pending: 0 },
  });
  const items = await itemsOf(provider, batch);
  expect(items.get('bad')).toMatchObject({ status: 'failed', error: { code: 'too-long', statusCode: 400 } });
  for (const { id, prompt } of requestsOf(5, model.path)) {
    const alone = await generateText({ model: provider(model.path), prompt, maxOutputTokens: 6 });
    expect(items.get(id)).toMatchObject({
      status: 'succeeded',
      text: alone.text,
      finishReason: alone.finishReason,
      usage: { inputTokens: alone.usage.inputTokens, outputTokens: alone.usage.outputTokens },
    });
  }
});

test('a batch goes on where the process before has left it', async () => {
  const slow = new StubEngine({ tokenMilliseconds: 5, places: 1 });
  const first = createSpillway({ batches: join(folder, 'goes-on'), open: async () => slow });
  const batch = await startBatch({ provider: first, requests: requestsOf(12, 'stub') });
  await until(() => slow.results >= 3);
  await first.close();
  const quick = new StubEngine();
  await using second = createSpillway({ batches: join(folder, 'goes-on'), open: async () => quick });
  await over(second, batch);
  const items = await itemsOf(second, batch);
  expect([...items.values()].map(({ status }) => status)).toEqual(Array.from({ length: 12 }, () => 'succeeded'));
  expect(quick.results).toBeLessThan(12);
});

test('what is cancelled keeps what was answered', async () => {
  const engine = new StubEngine({ tokenMilliseconds: 5, places: 1 });
  await using provider = createSpillway({ batches: join(folder, 'cancelled'), open: async () => engine });
  const batch = await startBatch({ provider, requests: requestsOf(40, 'stub') });
  await until(() => engine.results >= 2);
  await cancelBatch({ provider, batch });
  await over(provider, batch);
  const items = [...(await itemsOf(provider, batch)).values()];
  expect(items).toHaveLength(40);
  expect(new Set(items.map(({ status }) => status))).toEqual(new Set(['succeeded', 'cancelled']));
  expect((await getBatchStatus({ provider, batch })).rawStatus).toBe('cancelled');
  await cancelBatch({ provider, batch });
});

test('batches are listed page by page, the latest first', async () => {
  await using provider = createSpillway({ batches: join(folder, 'listed'), open: async () => new StubEngine() });
  const ids: string[] = [];
  for (let at = 0; at < 3; at += 1) ids.push((await startBatch({ provider, requests: requestsOf(1, 'stub') })).id);
  const first = await listBatches({ provider, limit: 2 });
  const second = await listBatches({ provider, limit: 2, cursor: first.nextCursor ?? '' });
  expect([...first.batches, ...second.batches].map(({ id }) => id).sort()).toEqual([...ids].sort());
  expect(second.nextCursor).toBeUndefined();
});

test('what is no batch is refused with an error of the AI SDK', async () => {
  await using provider = createSpillway({
    batches: join(folder, 'refused'),
    open: async () => new StubEngine({ tokenMilliseconds: 20 }),
  });
  const api = provider.experimental_batch();
  const [one] = requestsOf(1, 'stub');
  const request = {
    id: 'a',
    type: 'text',
    modelId: 'stub',
    options: { prompt: [{ role: 'user', content: [] }] },
  } as never as Parameters<typeof api.doStartBatch>[0]['requests'][0];
  const refused: readonly [() => PromiseLike<unknown>, (error: unknown) => boolean][] = [
    [() => api.doGetBatchStatus({ batchId: '../../x' }), InvalidArgumentError.isInstance],
    [() => api.doStartBatch({ requests: [] }), InvalidArgumentError.isInstance],
    [() => api.doStartBatch({ requests: [request, request] }), InvalidArgumentError.isInstance],
    [
      () => api.doStartBatch({ requests: [request, { ...request, id: 'b', modelId: 'other' }] }),
      InvalidArgumentError.isInstance,
    ],
    [
      () => api.doStartBatch({ requests: [{ ...request, type: 'image' } as never] }),
      UnsupportedFunctionalityError.isInstance,
    ],
    [
      () => api.doStartBatch({ requests: [{ ...request, options: { prompt: [{ role: 'x' }] } } as never] }),
      InvalidPromptError.isInstance,
    ],
    [
      () => startBatch({ provider, requests: [{ ...one, providerOptions: { spillway: { priority: 3 } } } as never] }),
      InvalidArgumentError.isInstance,
    ],
    [() => listBatches({ provider, limit: 0 }), InvalidArgumentError.isInstance],
    [() => listBatches({ provider, cursor: 'none' }), InvalidArgumentError.isInstance],
  ];
  for (const [call, is] of refused) {
    const error: unknown = await Promise.resolve(call()).then(
      () => undefined,
      (thrown: unknown) => thrown,
    );
    expect(error).toBeInstanceOf(Error);
    expect(is(error)).toBe(true);
  }
  const batch = await startBatch({ provider, requests: requestsOf(3, 'stub') });
  await expect(Promise.resolve(api.doGetBatchResults({ batchId: batch.id }))).rejects.toThrow(
    /expected one that has ended/,
  );
  // One process has the folder.
  await using other = createSpillway({ batches: join(folder, 'refused'), open: async () => new StubEngine() });
  await expect(listBatches({ provider: other, maxRetries: 0 })).rejects.toThrow(/refused/);
  await expect(stubServer({ data: join(folder, 'refused') })).rejects.toThrow(/in use by process/);
});
