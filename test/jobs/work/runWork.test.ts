import { copyFileSync, cpSync, existsSync, readdirSync, readFileSync, renameSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from '@jest/globals';
import { z } from 'zod';
import type { RowGenerator } from '../../../src/jobs/JobOptions.js';
import { runJob } from '../../../src/jobs/runJob.js';
import { collectJob } from '../../../src/jobs/shards/collectJob.js';
import { jobStatus } from '../../../src/jobs/work/jobStatus.js';
import { memoryWork } from '../../../src/jobs/work/memoryWork.js';
import { runWork, type ShardEvent } from '../../../src/jobs/work/runWork.js';
import { submitJob, type SubmitJobOptions } from '../../../src/jobs/work/submitJob.js';
import type { WorkSource } from '../../../src/jobs/work/WorkSource.js';
import { failureOf } from '../formats/support.js';
import { readResults, temporaryFolder, writeLines } from '../support/files.js';
import { StubEngine, type StubOptions } from '../support/stubEngine.js';

const path = temporaryFolder();
const ROWS = 40;
let jobs = 0;

interface Prepared {
  readonly source: WorkSource;
  readonly input: string;
  readonly output: string;
  readonly parts: string;
  readonly whole: string;
  readonly failed: number;
}

/** A job in a queue, and what one run makes of it. */
async function prepared(
  ending: string,
  more: Partial<SubmitJobOptions> = {},
  source = memoryWork(),
): Promise<Prepared> {
  jobs += 1;
  const [input, output, whole] = ['in', 'out', 'whole'].map((name) => path(`${name}-${jobs}.${ending}`)) as [
    string,
    string,
    string,
  ];
  const prompt = (at: number): string => `prompt ${at} `.repeat(at % 7);
  if (ending === 'csv')
    writeFileSync(
      input,
      `id,prompt,note\n${Array.from({ length: ROWS }, (_, at) => `row-${at},${prompt(at)},n${at}\n`).join('')}`,
    );
  else
    writeLines(
      input,
      Array.from({ length: ROWS }, (_, at) => (at % 10 === 9 ? 'broken' : { id: `row-${at}`, prompt: prompt(at) })),
    );
  const { failed } = await runJob({ engine: new StubEngine(), input, output: whole });
  await submitJob({ source, input, output, shards: 5, ...more });
  return { source, input, output, parts: `${output}.parts`, whole, failed };
}

async function expectCollected({ source, output, whole, failed }: Prepared): Promise<void> {
  expect(await collectJob({ output, source })).toEqual({ shards: 5, rows: ROWS, results: ROWS, failed });
  expect(readFileSync(output)).toEqual(readFileSync(whole));
}

/** All files below a folder, without what is drawn by chance of their paths. */
function filesBelow(folder: string): readonly string[] {
  return readdirSync(folder, { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile())
    .map((entry) => entry.name)
    .sort();
}

/** An engine that says what it is. */
function identified(resultIdentity: object, stub?: StubOptions): RowGenerator {
  const engine = new StubEngine(stub);
  return { resultIdentity, generate: (rows, options) => engine.generate(rows, options) };
}

test.each(['jsonl', 'csv'])(
  '%s: three workers leave what collects to one run’s output, and nothing else',
  async (ending) => {
    const job = await prepared(ending, { shardRows: 3 });
    const events: ShardEvent[] = [];
    const summaries = await Promise.all(
      [1, 2, 3].map((worker) =>
        runWork({
          source: job.source,
          engine: new StubEngine({ delay: () => 1 }),
          worker: `w${worker}`,
          onShard: (event) => events.push(event),
        }),
      ),
    );
    expect(summaries.reduce((sum, { committed }) => sum + committed, 0)).toBe(5);
    expect(summaries.reduce((sum, { results }) => sum + results, 0)).toBe(ROWS);
    expect(summaries.reduce((sum, { failed }) => sum + failed, 0)).toBe(job.failed);
    expect(
      events
        .filter(({ what }) => what === 'committed')
        .map(({ shard }) => shard)
        .sort(),
    ).toEqual([0, 1, 2, 3, 4]);
    expect(await jobStatus(job.source)).toMatchObject({
      rows: ROWS,
      ended: true,
      shards: { count: 5, committed: 5, open: 0, leased: 0, failed: 0 },
      troubled: [],
    });
    await expectCollected(job);
    expect(filesBelow(job.parts)).toEqual(
      [0, 1, 2, 3, 4].flatMap((shard) => [
        `part-0000${shard}-of-00005.jsonl`,
        `part-0000${shard}-of-00005.jsonl.job.json`,
      ]),
    );
  },
);

test('as many shards as the rows make; more shards than rows', async () => {
  const [input, source] = [path('rows.jsonl'), memoryWork()];
  writeLines(input, Array(31).fill({ prompt: 'a' }));
  const { shards } = await submitJob({ source, input, output: path('rows-out.jsonl'), shardRows: 15 });
  expect(shards).toEqual({ count: 3, rows: 15 });
  const many = await prepared('jsonl', { shards: ROWS + 3 });
  await runWork({ source: many.source, engine: new StubEngine() });
  expect(await collectJob({ output: many.output, source: many.source })).toMatchObject({
    shards: ROWS + 3,
    results: ROWS,
  });
  expect(readFileSync(many.output)).toEqual(readFileSync(many.whole));
});

test('collecting before all is done names what is missing', async () => {
  const job = await prepared('jsonl');
  const stop = new AbortController();
  const run = runWork({
    source: job.source,
    engine: new StubEngine(),
    signal: stop.signal,
    onShard: ({ what }) => {
      if (what === 'committed') stop.abort();
    },
  });
  await expect(run).rejects.toThrow('the run was interrupted');
  expect((await failureOf(collectJob({ output: job.output, source: job.source }))).message).toMatch(
    /cannot be collected: shards 1, 2, 3, .*4.* of 5 are not done: wait for the workers, or start some/,
  );
  expect(existsSync(job.output)).toBe(false);
});

test('a worker that is told to stop gives its shard back at once; another one goes on with what it has finished', async () => {
  const job = await prepared('jsonl', { shards: 1, maxDeliver: 1 });
  const stop = new AbortController();
  const slow = new StubEngine({ width: 1 });
  const events: ShardEvent[] = [];
  const engine: RowGenerator = {
    generate: (input, options) => {
      return (async function* () {
        for await (const result of slow.generate(input, options)) {
          yield result;
          if (result.index === 12) {
            stop.abort();
            throw new Error('aborted');
          }
        }
      })();
    },
  };
  await expect(
    runWork({ source: job.source, engine, signal: stop.signal, onShard: (event) => events.push(event) }),
  ).rejects.toThrow('the run was interrupted');
  expect(events.map(({ what }) => what)).toEqual(['leased', 'givenBack']);
  expect(await job.source.shards()).toEqual([{ shard: 0, state: 'open', deliveries: 0, reasons: [] }]);
  const next = new StubEngine();
  await runWork({ source: job.source, engine: next });
  expect(next.admitted[0]).toBe('row-13');
  expect(await collectJob({ output: job.output, source: job.source })).toMatchObject({ results: ROWS });
  expect(readFileSync(job.output)).toEqual(readFileSync(job.whole));
});

test('what an earlier attempt has left is looked at: what is not sound is done anew', async () => {
  const job = await prepared('jsonl', { shards: 1 });
  const stopping = new StubEngine({ failAt: 20 });
  const ended: string[] = [];
  await runWork({ source: job.source, engine: stopping, onShard: ({ what }) => ended.push(what) });
  expect(ended).toEqual(['leased', 'failed', 'leased', 'failed', 'leased', 'failed']);
  const { id } = await job.source.manifest();
  const [attempt] = readdirSync(join(job.parts, id, '00000'));
  writeFileSync(join(job.parts, id, '00000', attempt ?? '', 'part-00000-of-00001.jsonl'), 'no results\n'.repeat(1e4));
  const again = await prepared('jsonl', { shards: 1 });
  const manifest = await again.source.manifest();
  // The folder of the attempts is another job's now, as if disks had been mixed up.
  const folder = join(again.parts, manifest.id);
  cpSync(join(job.parts, id), folder, { recursive: true, filter: (name) => !name.endsWith('under-way') });
  const engine = new StubEngine();
  await runWork({ source: again.source, engine });
  expect(engine.admitted).toHaveLength(ROWS);
  expect(await collectJob({ output: again.output, source: again.source })).toMatchObject({ results: ROWS });
  expect(readFileSync(again.output)).toEqual(readFileSync(again.whole));
});

test('a shard at which the engine fails each time is given up by name and reason; the others are done', async () => {
  const job = await prepared('jsonl', { maxDeliver: 2 });
  const summary = await runWork({ source: job.source, engine: new StubEngine({ failAt: 7 }), worker: 'w' });
  expect(summary).toMatchObject({ committed: 4, lost: 0 });
  expect(await jobStatus(job.source)).toMatchObject({
    ended: true,
    shards: { committed: 4, failed: 1 },
    troubled: [
      {
        shard: 2,
        state: 'failed',
        deliveries: 2,
        reasons: ['w: the stub failed as asked', 'w: the stub failed as asked'],
      },
    ],
  });
  expect((await failureOf(collectJob({ output: job.output, source: job.source }))).message).toContain(
    'cannot be collected: shard 2 was given up after 2 deliveries (w: the stub failed as asked)',
  );
});

test('an engine that fails at two shards one after the other ends its worker: others may do better', async () => {
  const job = await prepared('jsonl', { maxDeliver: 5 });
  const broken: RowGenerator = {
    generate: async function* () {
      throw new Error('the device is gone');
    },
  };
  const source: WorkSource = { ...bound(job.source), lease: inPairs(job.source) };
  await expect(runWork({ source, engine: broken })).rejects.toThrow('the device is gone');
  await runWork({ source: job.source, engine: new StubEngine() });
  await expectCollected(job);
});

test('another model, or kind of instruction set, than the first worker’s is refused, and the shard given back', async () => {
  const job = await prepared('jsonl');
  const stop = new AbortController();
  await expect(
    runWork({
      source: job.source,
      engine: identified({ model: 'a', instructionSet: 'amx' }),
      signal: stop.signal,
      onShard: ({ what }) => {
        if (what === 'committed') stop.abort();
      },
    }),
  ).rejects.toThrow('interrupted');
  await expect(
    runWork({ source: job.source, engine: identified({ model: 'a', instructionSet: 'avx512' }) }),
  ).rejects.toThrow(
    'it differs from the first worker in instructionSet (was "amx", is "avx512"); give it the same, or submit the job again',
  );
  expect((await job.source.shards()).map(({ state, deliveries }) => [state, deliveries])).toEqual([
    ['committed', 1],
    ...Array(4).fill(['open', 0]),
  ]);
  await runWork({ source: job.source, engine: identified({ model: 'a', instructionSet: 'amx' }) });
  await expectCollected(job);
});

test('an input that changed since is refused, and the shard given back', async () => {
  const job = await prepared('jsonl');
  writeFileSync(job.input, '\n{"id":"more","prompt":"x"}\n', { flag: 'a' });
  await expect(runWork({ source: job.source, engine: new StubEngine() })).rejects.toThrow(
    /is not what the job was submitted with: it differs in the input \(had \d+ bytes, has \d+\)/,
  );
  expect(await jobStatus(job.source)).toMatchObject({ shards: { open: 5 }, troubled: [] });
});

test('input and parts may be elsewhere on a worker', async () => {
  const job = await prepared('jsonl');
  const moved = path('moved.jsonl');
  copyFileSync(job.input, moved);
  renameSync(job.input, `${job.input}.away`);
  await expect(runWork({ source: job.source, engine: new StubEngine() })).rejects.toThrow('no such file');
  await runWork({ source: job.source, engine: new StubEngine(), input: moved, parts: path('elsewhere') });
  expect(existsSync(job.parts)).toBe(true);
  expect(filesBelow(job.parts)).toEqual([]);
  expect(await collectJob({ output: job.output, source: job.source, parts: path('elsewhere') })).toMatchObject({
    results: ROWS,
  });
});

test('a worker that has lost its lease ends its attempt, leaves nothing, and goes on', async () => {
  let now = 0;
  const job = await prepared(
    'jsonl',
    { shards: 1, leaseSeconds: 1 },
    memoryWork(() => now),
  );
  let admitted: (() => void) | undefined;
  const begun = new Promise<void>((resolve) => {
    admitted = resolve;
  });
  const stuck: RowGenerator = {
    generate: async function* (_rows, options) {
      admitted?.();
      await new Promise((resolve) => options?.signal?.addEventListener('abort', resolve));
      throw new Error('aborted');
    },
  };
  const late: string[] = [];
  const lateRun = runWork({
    source: job.source,
    engine: stuck,
    worker: 'late',
    onShard: ({ what }) => late.push(what),
  });
  await begun;
  now = 2;
  await runWork({ source: job.source, engine: new StubEngine(), worker: 'second' });
  expect(await lateRun).toEqual({ committed: 0, lost: 1, results: 0, failed: 0 });
  expect(late).toEqual(['leased', 'lost']);
  expect(filesBelow(job.parts)).toHaveLength(2);
  expect(await job.source.shards()).toMatchObject([{ state: 'committed', worker: 'second', deliveries: 2 }]);
  expect(await collectJob({ output: job.output, source: job.source })).toMatchObject({ results: ROWS });
  expect(readFileSync(job.output)).toEqual(readFileSync(job.whole));
});

test('a late worker, whose files the one that committed has removed, hears that it has lost its lease', async () => {
  let now = 0;
  const job = await prepared(
    'jsonl',
    { shards: 1, leaseSeconds: 1000 },
    memoryWork(() => now),
  );
  const engine: RowGenerator = {
    generate: async function* (rows, options) {
      now = 2000;
      await runWork({ source: job.source, engine: new StubEngine(), worker: 'second' });
      yield* new StubEngine().generate(rows, options);
    },
  };
  expect(await runWork({ source: job.source, engine, worker: 'late' })).toMatchObject({ committed: 0, lost: 1 });
  expect(await job.source.shards()).toMatchObject([{ state: 'committed', worker: 'second' }]);
  expect(filesBelow(job.parts)).toHaveLength(2);
});

test.each([
  [{ shards: 0 }, 'shards: found 0, expected a whole number from 1 to 100000'],
  [{ maxDeliver: 0 }, 'maxDeliver: found 0, expected a whole number from 1 to 1000'],
  [{ leaseSeconds: 0.1 }, 'leaseSeconds: found 0.1, expected a number from 1 to 86400'],
  [{ input: path('nothing.jsonl') }, 'no such file'],
  [{ shrads: 3 }, 'found the unknown "shrads"'],
  [{ generate: { system: 'x'.repeat(1e6) } }, 'expected at most 1000000, as queues take them'],
  [{ engine: [] }, 'engine: found an array of 0, expected an object'],
  [{ shards: undefined }, 'found neither `shards` nor `shardRows`'],
])('wrong options, %#: %.100j', async (wrong, message) => {
  const [input, source] = [path('small.jsonl'), memoryWork()];
  writeLines(input, [{ prompt: 'a' }]);
  const failure = await failureOf(
    submitJob({ source, input, output: path('small-out.jsonl'), shards: 1, ...wrong } as SubmitJobOptions),
  );
  expect(failure.message).toContain(message);
  await expect(source.manifest()).rejects.toThrow('found no job');
});

test('what is a process’s own is not in the queue; zod’s schema is there as JSON', async () => {
  const [input, source] = [path('own.jsonl'), memoryWork()];
  writeLines(input, [{ prompt: 'a' }]);
  const manifest = await submitJob({
    source,
    input,
    output: path('own-out.jsonl'),
    shards: 1,
    generate: { maxNewTokens: 3, onProgress: () => undefined, schema: z.object({ a: z.number() }) },
  });
  expect(JSON.parse(JSON.stringify(manifest))).toEqual(manifest);
  expect(manifest.options.generate).toMatchObject({ maxNewTokens: 3, responseFormat: { type: 'json_schema' } });
  expect(Object.keys(manifest.options.generate ?? {}).sort()).toEqual(['maxNewTokens', 'now', 'responseFormat']);
});

/** The methods of a queue, as an object's own. */
function bound(source: WorkSource): WorkSource {
  return {
    name: source.name,
    jobs: () => source.jobs(),
    submit: (manifest) => source.submit(manifest),
    manifest: () => source.manifest(),
    agree: (identity) => source.agree(identity),
    lease: (options) => source.lease(options),
    shards: () => source.shards(),
    cancel: (reason) => source.cancel(reason),
    remove: () => source.remove(),
    [Symbol.asyncDispose]: () => source[Symbol.asyncDispose](),
  };
}

/** Leases of which two fail at once: nobody has the first one's shard again before that. */
function inPairs(source: WorkSource): WorkSource['lease'] {
  const held: (() => Promise<void>)[] = [];
  return async (options) => {
    const lease = await source.lease(options);
    const fail = async (reason: string): Promise<void> => {
      held.push(() => lease?.fail(reason) ?? Promise.resolve());
      if (held.length === 2) for (const each of held) await each();
    };
    return lease && { ...lease, fail };
  };
}

/** Fails at rows of these places, whoever is beside them. */
function failingAt(...places: readonly number[]): { readonly engine: RowGenerator; readonly calls: number[][] } {
  const calls: number[][] = [];
  const engine: RowGenerator = {
    generate: (rows, options) => {
      const call: number[] = [];
      calls.push(call);
      const watched = (async function* () {
        for await (const row of rows) {
          const { index = -1 } = row;
          call.push(index);
          if (!('error' in row) && places.includes(index)) throw new Error(`the device is gone at row ${index}`);
          yield row;
        }
      })();
      return new StubEngine({ width: 5 }).generate(watched, options);
    },
  };
  return { engine, calls };
}

test('a row at which engines fail is parted from its shard, whose other rows are answered', async () => {
  const job = await prepared('jsonl', { shards: 1 });
  const { engine, calls } = failingAt(17);
  const events: string[] = [];
  const summary = await runWork({ source: job.source, engine, onShard: ({ what }) => events.push(what) });
  expect(events).toEqual(['leased', 'failed', 'leased', 'failed', 'leased', 'committed']);
  expect(summary).toMatchObject({ committed: 1, results: ROWS, failed: job.failed + 1 });
  // Together at first; then those that may have done it one by one; then all but that one.
  expect(calls[0]?.at(-1)).toBe(17);
  const alone = calls.slice(1).filter(({ length }) => length === 1);
  expect(alone.flat()).toEqual(
    [...new Set(alone.flat())]
      .sort((a, b) => a - b)
      .concat(17)
      .sort((a, b) => a - b),
  );
  expect(alone.length).toBeLessThan(8);
  expect(calls.at(-1)?.length).toBeGreaterThan(15);
  await collectJob({ output: job.output, source: job.source });
  const [rows, whole] = [readResults(job.output), readResults(job.whole)];
  expect(rows[17]).toMatchObject({
    id: 'row-17',
    finishReason: 'error',
    error: {
      code: 'crash',
      message: expect.stringMatching(/^row 18 of the input: found two workers ended, or failed/),
    },
  });
  expect(rows.toSpliced(17, 1)).toEqual(whole.toSpliced(17, 1));
});

test('of several such rows as many are parted as the shard is delivered, but for two', async () => {
  const job = await prepared('jsonl', { shards: 1, maxDeliver: 4 });
  await runWork({ source: job.source, engine: failingAt(3, 31).engine });
  expect(await jobStatus(job.source)).toMatchObject({ shards: { failed: 1 } });
  const more = await prepared('jsonl', { shards: 1, maxDeliver: 5 });
  await runWork({ source: more.source, engine: failingAt(3, 31).engine });
  expect(await collectJob({ output: more.output, source: more.source })).toMatchObject({ failed: more.failed + 2 });
});
