import { afterAll, beforeAll, expect, test } from '@jest/globals';
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import fc from 'fast-check';
import { z } from 'zod';
import { Engine } from '../../src/Engine.js';
import { ReuseFile, type Row, type RowResult } from '../../src/index.js';
import { runJob } from '../../src/jobs/runJob.js';
import type { RunOptions } from '../../src/engine/rows/Generation.js';
import { describeGrammars } from '../support/grammars.js';
import { tinyChatModel } from '../support/tinyChatModel.js';
import { at, collect } from './support.js';

/** Digits of any number, of which few answers have an end within six tokens. */
const FORMAT = { type: 'regex', regex: '[0-9]{1,30}x' } as const;

describeGrammars('rows whose answers fail their format', () => {
  let model: Awaited<ReturnType<typeof tinyChatModel>>;
  let engine: Engine;
  let folder: string;
  beforeAll(async () => {
    model = await tinyChatModel();
    engine = await Engine.open({ model: model.path, batchSize: 4, learn: false });
    folder = await mkdtemp(join(tmpdir(), 'spillway-retries-'));
  });
  afterAll(async () => {
    await engine.close();
    await model[Symbol.asyncDispose]();
    await rm(folder, { recursive: true, force: true });
  });

  const generate = (rows: readonly Row[], options: RunOptions = {}): Promise<RowResult[]> =>
    collect(engine.generate(rows, { responseFormat: FORMAT, maxNewTokens: 6, ...options }));
  const alone = async (row: Row, options: RunOptions = {}): Promise<RowResult> => at(await generate([row], options), 0);

  const CUT = 'the answer was cut off by its limit of 6 tokens before it came to its end, as its responseFormat has it';

  test('attempt k is the row with k added to its seed, at the retry temperature, told of the answer before', async () => {
    const retries = 12;
    const seen = new Set<number>();
    for (const seed of [1, 2, 3, 4, 5, 6]) {
      const messages = [{ role: 'user', content: `count ${seed}` }];
      const retried = await alone({ messages, seed, retries, retryTemperature: 1.5 });
      // The same, attempt by attempt, as a caller would ask.
      let attempt = 0;
      let expected = await alone({ messages, seed });
      while (expected.error && attempt < retries) {
        attempt += 1;
        const told = [
          ...messages,
          { role: 'assistant', content: expected.text },
          {
            role: 'user',
            content: `That answer was refused: ${CUT}\nAnswer again, and with the mended answer alone.`,
          },
        ];
        expected = await alone({ messages: told, seed: seed + attempt, temperature: 1.5 });
      }
      const { promptTokens } = (await alone({ messages, seed })).usage;
      expect(retried).toEqual({
        ...expected,
        usage: { ...expected.usage, promptTokens },
        attempts: attempt + 1,
      });
      seen.add(attempt);
    }
    expect(seen.size).toBeGreaterThan(1);
  });

  test('raw text is told before it, rows of tokens are told nothing, and without a format nothing is tried', async () => {
    const text = await alone({ prompt: 'count', seed: 3, retries: 1, retryTemperature: 0 });
    const first = await alone({ prompt: 'count', seed: 3 });
    expect(first.error?.code).toBe('schema');
    const told = `An earlier answer:\n${first.text}\n\nThat answer was refused: ${CUT}\nAnswer again, and with the mended answer alone.\n\ncount`;
    const again = await alone({ prompt: told, seed: 4 });
    expect([text.text, text.attempts]).toEqual([again.text, 2]);
    const tokens = [70, 71, 72];
    const same = await alone({ tokens, retries: 3, retryTemperature: 0 });
    expect(same).toEqual({ ...(await alone({ tokens })), attempts: 4 });
    const free = await alone({ tokens, retries: 3, responseFormat: { type: 'text' } });
    expect(free).not.toHaveProperty('attempts');
  });

  test('an answer depends on its row alone, whatever the company, and equal rows have one', async () => {
    const row = fc.record({
      prompt: fc.constantFrom('a', 'b', 'count'),
      seed: fc.nat(3),
      temperature: fc.constantFrom(0, 1),
      retries: fc.nat(4),
      retryTemperature: fc.constantFrom(0.7, 1.5),
      samples: fc.constantFrom(undefined, 2),
    });
    await fc.assert(
      fc.asyncProperty(fc.array(row, { minLength: 1, maxLength: 6 }), async (drawn) => {
        const rows = drawn.map(({ samples, ...each }): Row => ({ ...each, ...(samples !== undefined && { samples }) }));
        const together = await generate(rows);
        expect(await generate(rows, { sharePrefixes: false })).toEqual(together);
        const each = await Promise.all(rows.map((own, index) => generate([{ ...own, index }])));
        expect(together).toEqual(each.flat());
        for (const { attempts, error, index } of together) {
          const retries = rows[index]?.retries ?? 0;
          if (error && retries > 0) expect(attempts).toBe(retries + 1);
        }
      }),
      { numRuns: 12 },
    );
  });

  test('what a zod schema checks is tried again, and told', async () => {
    let asked = 0;
    const schema = z.enum(['yes', 'no']).refine(() => (asked += 1) > 2, 'not that one');
    const [row] = await collect(
      engine.generate([{ prompt: 'a' }], { schema, retries: 5, chat: true, maxNewTokens: 20 }),
    );
    expect(row).toMatchObject({ attempts: 3, finishReason: 'stop' });
    expect(['yes', 'no']).toContain(row?.value);
    const never = z.enum(['yes', 'no']).refine(() => false, 'never');
    const [failed] = await collect(engine.generate([{ prompt: 'a' }], { schema: never, retries: 2, chat: true }));
    expect(failed).toMatchObject({ attempts: 3, error: { code: 'schema' }, text: expect.stringMatching(/yes|no/) });
  });

  test('kept answers say how many attempts they took, and other retries are other rows', async () => {
    const reuse = await ReuseFile.open(join(folder, 'kept'));
    const rows: Row[] = Array.from({ length: 6 }, (_, seed) => ({ prompt: 'count', seed }));
    const options = { retries: 20, retryTemperature: 1.5, reuse };
    const stats: number[] = [];
    const run = (more: RunOptions): Promise<RowResult[]> =>
      generate(rows, { ...options, ...more, onStats: ({ sharing }) => stats.push(sharing.rowsReused) });
    const first = await run({});
    expect(await run({})).toEqual(first);
    await run({ retryTemperature: 1.6 });
    await run({ retries: 19 });
    const good = first.filter(({ error }) => !error).length;
    expect(good).toBeGreaterThan(2);
    expect(stats).toEqual([0, good, 0, 0]);
    await reuse.close();
  });

  test('a job writes attempts in lines and tables, and goes on with what it began', async () => {
    const input = join(folder, 'in.jsonl');
    const lines = Array.from({ length: 8 }, (_, seed) => JSON.stringify({ prompt: `n${seed}`, seed }));
    await writeFile(input, `${lines.join('\n')}\n`);
    const generateOptions = { responseFormat: FORMAT, maxNewTokens: 6, retries: 3, retryTemperature: 1.5 };
    const output = join(folder, 'out.jsonl');
    const job = { engine, input, output, generate: generateOptions };
    await runJob(job);
    const whole = await readFile(output, 'utf8');
    const results = whole
      .trim()
      .split('\n')
      .map((line) => JSON.parse(line) as RowResult);
    expect(results.map(({ attempts }) => attempts)).toEqual(
      (
        await generate(
          lines.map((line) => JSON.parse(line) as Row),
          generateOptions,
        )
      ).map(({ attempts }) => attempts),
    );
    expect(new Set(results.map(({ attempts }) => attempts)).size).toBeGreaterThan(1);
    await expect(runJob({ ...job, resume: true, generate: { ...generateOptions, retries: 4 } })).rejects.toThrow(
      'retries (was 3, is 4)',
    );
    await expect(
      runJob({ ...job, resume: true, generate: { ...generateOptions, retryTemperature: 1 } }),
    ).rejects.toThrow('retryTemperature (was 1.5, is 1)');
    await writeFile(output, whole.slice(0, whole.indexOf('\n') + 1));
    await runJob({ ...job, resume: true });
    expect(await readFile(output, 'utf8')).toBe(whole);
    const table = join(folder, 'out.csv');
    await runJob({ ...job, output: table });
    expect((await readFile(table, 'utf8')).split(/\r?\n/, 1)[0]).toContain(',attempts');
  });

  test('what retries may be', async () => {
    const codes = await generate([
      { prompt: 'a', retries: -1 },
      { prompt: 'a', retries: 1.5 },
      { prompt: 'a', retryTemperature: 11, retries: 1 },
      { prompt: 'a', retries: 2, seed: Number.MAX_SAFE_INTEGER - 1 },
    ]);
    expect(codes.map(({ error }) => error?.code)).toEqual(Array(4).fill('invalid-parameter'));
    expect(codes[3]?.error?.message).toContain('retries');
    expect(() => engine.generate([], { retries: 1e9 })).toThrow('retries: found 1000000000');
  });
});
