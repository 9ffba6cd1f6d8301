import './support/emulatedAddon.js';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, expect, test } from '@jest/globals';
import { Engine, type RowResult } from '../../src/index.js';
import { model, unequalRows } from '../e2e/support.js';
import { overwrittenModel } from '../support/model/overwrittenModel.js';

const folder = mkdtempSync(join(tmpdir(), 'spillway-gpu-numeric-'));
afterAll(() => {
  rmSync(folder, { recursive: true });
});
/** A token whose embedding is not finite, in every third row. */
const ODD = 200;
const rows = (odd: boolean): typeof unequalRows =>
  unequalRows.slice(0, 9).map((row, i) => ({
    ...row,
    tokens: (row.tokens ?? []).map((token, j) => (odd && i % 3 === 1 && j === 0 ? ODD : token % 190)),
    ...(i % 2 === 1 && { temperature: 0.8, seed: i }),
  }));

async function generate(path: string, odd: boolean, logprobs: number | undefined): Promise<RowResult[]> {
  await using engine = await Engine.open({
    model: path,
    gpuMemory: '16MiB',
    batchSize: 4,
    tokensPerSquare: 16,
    disk: folder,
  });
  const results: RowResult[] = [];
  for await (const row of engine.generate(rows(odd), logprobs === undefined ? {} : { logprobs })) results.push(row);
  return results;
}

// The device samples for the first two, the host for the last.
test.each([undefined, 0, 2])(
  'on a GPU, too, a row whose logits are not finite is an error row, and the others are the same to the bit (logprobs: %p)',
  async (logprobs) => {
    const sound = model('llama-F32.gguf');
    const path = await overwrittenModel(sound, mkdtempSync(join(folder, 'model-')), [
      { role: 'token_embedding', row: ODD, value: NaN },
    ]);
    const [expected, found] = [await generate(sound, false, logprobs), await generate(path, true, logprobs)];
    for (const [i, row] of found.entries()) {
      if (i % 3 !== 1) expect(row).toEqual(expected[i]);
      else
        expect(row).toMatchObject({
          finishReason: 'error',
          error: { code: 'numeric', message: expect.stringContaining('are not finite: found') as unknown },
        });
    }
  },
);

test.each(['none', '8bit', '4bit'] as const)(
  'values that are infinite go through a cache of every kind (%s) as such',
  async (compressCache) => {
    const path = await overwrittenModel(model('llama-F32.gguf'), mkdtempSync(join(folder, 'model-')), [
      { role: 'v.weight', layer: 1, row: 3, column: 5, value: Infinity },
    ]);
    await using engine = await Engine.open({
      model: path,
      gpuMemory: '16MiB',
      batchSize: 4,
      tokensPerSquare: 16,
      disk: folder,
      compressCache,
    });
    for await (const row of engine.generate(rows(false))) expect(row.error?.code).toBe('numeric');
  },
);
