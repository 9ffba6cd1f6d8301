import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Engine, UsageError, type EngineOptions, type RowResult } from '../../src/index.js';
import { validateOptions } from '../../src/engine/open/validateOptions.js';
import { loadAddon } from '../../src/bindings/loadAddon.js';
import { generateUnequal, model } from './support.js';

const scored = Array.from({ length: 300 }, (_, i) => 3 + ((i * i * 7 + i) % 120));

let disk: string;
beforeAll(() => {
  disk = mkdtempSync(join(tmpdir(), 'spillway-int8-'));
});
afterAll(() => {
  rmSync(disk, { recursive: true });
});

const INT8 = { weightsLayout: 'int8' } as const;
const generate = (options: EngineOptions): Promise<RowResult[]> => generateUnequal({ disk, ...options });

async function perplexity(options: EngineOptions): Promise<number> {
  await using engine = await Engine.open(options);
  return (await engine.perplexity(scored, { window: 100 })).perplexity;
}

// Dense, with a window, with experts, latent attention, states. The last one's random weights make much of little:
// 8 bits in groups of 32 change its perplexity by 9%.
describe.each([
  ['gemma3', 0.02],
  ['mixtral', 0.02],
  ['deepseek-v2', 0.02],
  ['qwen3-5-moe', 0.1],
])('weights of one scale a row: %s', (name, most) => {
  const options = { model: model(name), ...INT8 };
  let reference: RowResult[];
  beforeAll(async () => {
    reference = await generate(options);
  });

  test('other log-probabilities than without, of nearly the same perplexity', async () => {
    expect(await generate({ model: model(name) })).not.toEqual(reference);
    const exact = await perplexity({ model: model(name), precision: 'float32' });
    expect(Math.abs((await perplexity(options)) / exact - 1)).toBeLessThan(most);
  });

  test('bitwise the same whatever the batch, the chunks, the threads', async () => {
    for (const more of [
      { batchSize: 1, threads: 1 },
      { batchSize: 3, batches: 2, tokensPerSquare: 5, threads: 3 },
      { batchSize: 20, tokensPerSquare: 300 },
    ])
      expect(await generate({ ...options, ...more })).toEqual(reference);
  });

  test('bitwise the same on all instruction sets but AMX', async () => {
    const sets = loadAddon()
      .machine()
      .instructionSets.filter((set) => set !== 'amx');
    for (const instructionSet of sets) expect(await generate({ ...options, instructionSet })).toEqual(reference);
  });

  test('bitwise the same from disk, repacked', async () => {
    for (const cpu of [0, 0.4])
      expect(await generate({ ...options, batches: 2, weights: { cpu, disk: 1 - cpu } })).toEqual(reference);
  });
});

describe('the layout int8', () => {
  test('is another identity, and the one without it is as it was', async () => {
    const identityOf = async (more: Partial<EngineOptions>): Promise<unknown> => {
      await using engine = await Engine.open({ model: model('gemma3'), policy: 'default', ...more });
      return engine.resultIdentity;
    };
    const plain = await identityOf({});
    expect(plain).not.toHaveProperty('weightsLayout');
    expect(await identityOf({ weightsLayout: 'as-is' })).toEqual(plain);
    expect(await identityOf(INT8)).toEqual({ ...(plain as object), weightsLayout: 'int8' });
  });

  test.each([
    [{ compressWeights: '4bit' }, 'weightsLayout: found "int8" beside compressWeights "4bit", expected one of them'],
    [{ compressWeights: 'auto' }, 'weightsLayout: found "int8" beside compressWeights "auto", expected one of them'],
    [{ gpuMemory: '1GiB' }, 'weightsLayout: found "int8" beside gpuMemory, expected as-is'],
  ] as const)('is refused beside %j', async (more, message) => {
    const refused = validateOptions({ model: model('gemma3'), ...INT8, ...more });
    await expect(refused).rejects.toThrow(UsageError);
    await expect(refused).rejects.toThrow(message);
  });
});
