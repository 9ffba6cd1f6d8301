import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Engine, type EngineOptions, type RowResult, type RunOptions, type RunStats } from '../../src/index.js';
import { diagonalBlock, rowByRow } from '../../src/api/schedules.js';
import { runCli } from '../cli/support.js';
import { generateUnequal, model, unequalRows } from './support.js';

const scored = Array.from({ length: 300 }, (_, i) => 3 + ((i * i * 7 + i) % 240));

let disk: string;
beforeAll(() => {
  disk = mkdtempSync(join(tmpdir(), 'spillway-compressed-'));
});
afterAll(() => {
  rmSync(disk, { recursive: true });
});

const generate = (options: EngineOptions, run: RunOptions = {}): Promise<RowResult[]> =>
  generateUnequal({ disk, ...options }, run);

async function perplexity(options: EngineOptions): Promise<number> {
  await using engine = await Engine.open(options);
  return (await engine.perplexity(scored, { window: 100 })).perplexity;
}

// Models of 16 bits whose matrices have whole groups of 64 inputs: dense, with a window, with experts.
describe.each(['gemma3', 'mixtral', 'falcon-new'])('%s', (name) => {
  describe.each(['4bit', '8bit'] as const)('with weights of %s', (compressWeights) => {
    const options = { model: model(name), compressWeights };
    let reference: RowResult[];
    beforeAll(async () => {
      reference = await generate(options);
    });

    test('other log-probabilities than without, and the statistics name it', async () => {
      let stats: RunStats | undefined;
      expect(await generate(options, { onStats: (each) => (stats = each) })).toEqual(reference);
      expect(stats?.policy).toMatchObject({ compressWeights });
      expect(await generate({ model: model(name) })).not.toEqual(reference);
    });

    test('bitwise the same whatever the batch, the chunks, the threads, the schedule', async () => {
      for (const more of [
        { batchSize: 1, threads: 1 },
        { batchSize: 3, batches: 2, tokensPerSquare: 5, threads: 3 },
        { batchSize: 20, tokensPerSquare: 300 },
      ]) {
        for (const schedule of [rowByRow(), diagonalBlock()])
          expect(await generate({ ...options, ...more }, { schedule })).toEqual(reference);
      }
    });

    test('bitwise the same from disk, repacked, as compressed on loading', async () => {
      for (const cpu of [0, 0.4])
        expect(await generate({ ...options, batches: 2, weights: { cpu, disk: 1 - cpu } })).toEqual(reference);
    });
  });

  test('a text is about as likely as without', async () => {
    const plain = await perplexity({ model: model(name) });
    const [eight, four] = [
      await perplexity({ model: model(name), compressWeights: '8bit' }),
      await perplexity({ model: model(name), compressWeights: '4bit' }),
    ];
    expect(eight).not.toBe(plain);
    expect(four).not.toBe(eight);
    expect(Math.abs(eight / plain - 1)).toBeLessThan(0.03);
    expect(Math.abs(four / plain - 1)).toBeLessThan(0.1);
  });
});

describe('the command line', () => {
  const input = (): string => {
    const file = join(disk, 'rows.jsonl');
    writeFileSync(
      file,
      unequalRows.map(({ id, tokens, maxNewTokens }) => `${JSON.stringify({ id, tokens, maxNewTokens })}\n`).join(''),
    );
    return file;
  };

  test.each(['4bit', '8bit'] as const)(
    '--compress-weights %s gives what the library gives',
    async (compressWeights) => {
      const output = join(disk, `${compressWeights}.jsonl`);
      const flags = [
        'generate',
        '--model',
        model('gemma3'),
        '--input',
        input(),
        '--output',
        output,
        '--compress-weights',
        compressWeights,
        '--logprobs',
        '1',
      ];
      expect(await runCli(flags)).toMatchObject({ code: 0 });
      const results = readFileSync(output, 'utf8')
        .trim()
        .split('\n')
        .map((line) => JSON.parse(line) as RowResult);
      const expected = await generate({ model: model('gemma3'), compressWeights });
      expect(results.map(({ id, tokens, logprobs }) => ({ id, tokens, logprobs }))).toEqual(
        expected.map(({ id, tokens, logprobs }) => ({ id, tokens: [...tokens], logprobs })),
      );
    },
  );
});
