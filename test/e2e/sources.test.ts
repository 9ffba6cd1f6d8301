import { PassThrough } from 'node:stream';
import { afterAll, beforeAll, expect, test } from '@jest/globals';
import { lastValueFrom, Subject, toArray } from 'rxjs';
import { Engine, offloadGenerate, type RowInput } from '../../src/index.js';
import { readRows } from '../../src/api/jobs.js';
import { tinyChatModel } from '../support/tinyChatModel.js';

let model: Awaited<ReturnType<typeof tinyChatModel>>;
let engine: Engine;
beforeAll(async () => {
  model = await tinyChatModel();
  engine = await Engine.open({ model: model.path, policy: 'default' });
});
afterAll(async () => {
  await engine.close();
  await model[Symbol.asyncDispose]();
});

test('what a source gives that does not wait is not lost, also while a format is compiled', async () => {
  for (const options of [{}, { responseFormat: { type: 'regex', regex: '[a-z]{1,3}' } as const }]) {
    const rows$ = new Subject<RowInput>();
    const ids: (string | number)[] = [];
    const over = lastValueFrom(rows$.pipe(offloadGenerate(engine, options), toArray()));
    for (let id = 0; id < 3; id++) rows$.next({ id, tokens: [5], maxNewTokens: 4 });
    rows$.complete();
    for (const { id } of await over) ids.push(id);
    expect(ids).toEqual([0, 1, 2]);
  }
});

test('streams that a run leaves are closed, also while they are silent, as a loop closes them', async () => {
  const row = { id: 1, tokens: [5], maxNewTokens: 1 };
  const node = new PassThrough({ objectMode: true });
  node.write(row);
  for await (const _ of engine.generate(node as AsyncIterable<RowInput>)) break;
  expect(node.destroyed).toBe(true);

  let cancelled = 0;
  const web = new ReadableStream<RowInput>({
    start: (controller) => {
      controller.enqueue(row);
    },
    cancel: () => {
      cancelled++;
    },
  });
  for await (const _ of engine.generate(web)) break;
  expect(cancelled).toBe(1);
  expect(web.locked).toBe(false);

  const bytes = new PassThrough();
  bytes.write(`${JSON.stringify(row)}\n`);
  for await (const _ of engine.generate(readRows(bytes))) break;
  expect(bytes.destroyed).toBe(true);
});

test.each(['onProgress', 'onStats', 'onTrace'] as const)(
  '%s that is asynchronous fails the run with what it rejects with',
  async (name) => {
    const thrown = new Error('later');
    const source = async function* (): AsyncGenerator<RowInput> {
      for (let id = 0; id < 50; id++) {
        await new Promise((resolve) => setTimeout(resolve, 10));
        yield { id, tokens: [5], maxNewTokens: 1 };
      }
    };
    const run = async (): Promise<void> => {
      for await (const _ of engine.generate(source(), { [name]: () => Promise.reject(thrown) }));
    };
    await expect(run()).rejects.toBe(thrown);
  },
);
