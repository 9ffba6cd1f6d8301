import { describe, expect, test } from '@jest/globals';
import { parsePolicy } from '../../../src/plan/Policy.js';
import { requireKnownShape } from '../../../src/plan/knownShapes.js';
import { boundsOfBlocksRead, readOfValues, valuesRead } from '../../../src/plan/model/chosenValues.js';
import { predict } from '../../../src/plan/predict.js';
import { choosePolicy } from '../../../src/plan/search/choosePolicy.js';
import { simulatePlan } from '../../../src/simulatePlan.js';
import { CPU_MACHINE } from '../support/hardware.js';

const shape = requireKnownShape('llama-2-7b');
const workload = { promptTokens: 2000, newTokens: 64, rows: 4 };
const request = { hardware: CPU_MACHINE, shape, workload };
const onDisk = { batchSize: 4, cache: { disk: 1 }, weights: { cpu: 1 } };
const readSeconds = (policy: object): number =>
  predict(request, parsePolicy({ ...onDisk, ...policy }, 'test')).queueSeconds['disk-read'] ?? NaN;

describe('values that are read where keys are chosen', () => {
  test('are the blocks that hold one that some query head has chosen', () => {
    const shareOf = (keep: number, choices: number, blockTokens: number, held = 0): number =>
      readOfValues({ keep, choices, blockTokens, pageBlocks: 64, held }).share;
    expect(shareOf(0.1, 1, 1)).toBeCloseTo(0.1, 12);
    expect(shareOf(0.1, 3, 4)).toBeCloseTo(1 - 0.9 ** 12, 12);
    // A row of values that fills several blocks is chosen as one.
    expect(shareOf(0.1, 1, 0.25)).toBeCloseTo(0.1, 12);
    expect(shareOf(1, 1, 1)).toBe(1);
    // Of what is chosen without regard to what memory holds, as much is there as of all.
    expect(shareOf(0.1, 3, 4, 0.25)).toBeCloseTo(0.75 * (1 - 0.9 ** 12), 12);
    expect(shareOf(1, 1, 1, 1)).toBe(0);
  });

  test.each([0, 1, 2, 5, 20])('are read with gaps of up to %i blocks between, in fewer requests', (gapBlocks) => {
    const [pageBlocks, keep] = [10, 0.3];
    let [share, requests] = [0, 0];
    for (let pattern = 0; pattern < 2 ** pageBlocks; pattern++) {
      const wanted = Array.from({ length: pageBlocks }, (_, block) => block).filter(
        (block) => Math.floor(pattern / 2 ** block) % 2 === 1,
      );
      const probability = keep ** wanted.length * (1 - keep) ** (pageBlocks - wanted.length);
      const gaps = wanted.slice(1).map((block, index) => block - (wanted[index] ?? NaN) - 1);
      const filled = gaps.filter((gap) => gap <= gapBlocks);
      share += (probability * filled.reduce((sum, gap) => sum + gap, wanted.length)) / pageBlocks;
      requests += probability * (wanted.length - filled.length);
    }
    const read = readOfValues({ keep, choices: 1, blockTokens: 1, pageBlocks, gapBlocks });
    expect(read.share).toBeCloseTo(share, 12);
    expect(read.requests).toBeCloseTo(requests, 12);
  });

  test('are no fewer than agreeing heads choose, and no more than all choose apart', () => {
    const of = { groupHeads: 3, blockTokens: 4 };
    // 400 of 4,000 keys, of which 32 are in memory: 368 in blocks of 4, or 399 for each of three heads.
    expect(boundsOfBlocksRead(0.1, { seen: 4000, onDisk: 3968 }, of)).toEqual({ least: 92, most: 992 });
    expect(boundsOfBlocksRead(0.1, { seen: 4000, onDisk: 3968 }, { groupHeads: 2, blockTokens: 1 })).toEqual({
      least: 368,
      most: 798,
    });
    // All that are kept may be in memory; every key is kept at least once.
    expect(boundsOfBlocksRead(0.1, { seen: 100, onDisk: 64 }, of)).toEqual({ least: 0, most: 16 });
    expect(boundsOfBlocksRead(1, { seen: 100, onDisk: 64 }, of)).toEqual({ least: 16, most: 16 });
    expect(boundsOfBlocksRead(0.001, { seen: 100, onDisk: 64 }, of)).toEqual({ least: 0, most: 0 });
    // Memory may hold those that are chosen, or others.
    const held = (blocks: number): object =>
      boundsOfBlocksRead(0.1, { seen: 4000, onDisk: 3968 }, { ...of, held: blocks });
    expect(held(90)).toEqual({ least: 2, most: 992 });
    expect(held(200)).toEqual({ least: 0, most: 992 });
  });

  test('count beside the keys, in smaller requests, unless all pages are read whole', () => {
    const block = parsePolicy({ sparseAttention: 0.1 }, 'test');
    // 128 elements of 16 bits are 256 bytes: a block of 512 holds two tokens'. Of 32 layers three stage pages, and as
    // much memory holds values, which are half as large.
    const chosen = (1 - 0.9 ** 2) * (1 - 6 / 32);
    const { keyShare, valueShare, requestBytes } = valuesRead({ hardware: CPU_MACHINE, shape, block });
    expect(keyShare).toBe(0.5);
    expect(valueShare).toBeCloseTo(chosen / 2, 12);
    // A page has 512 blocks of values, of which each but the first may follow another.
    expect(requestBytes).toBeCloseTo((512 * 512) / (512 - 511 * chosen), 9);
    const costly = {
      ...CPU_MACHINE,
      links: { ...CPU_MACHINE.links, diskReadBytesPerSecond: 2e9 },
      diskRequests: [512, 65_536].map((each) => ({
        operation: each === 512 ? ('readBlocks' as const) : ('readPages' as const),
        requestBytes: each,
        depth: 8,
        bytesPerSecond: each / (1e-6 + each / 2e9),
      })),
    };
    // A request costs what 2,000 bytes do: three blocks between others are read.
    const read = valuesRead({ hardware: costly, shape, block });
    expect(read.valueShare).toBeCloseTo(
      readOfValues({ keep: 0.1, choices: 1, blockTokens: 2, pageBlocks: 512, held: 6 / 32, gapBlocks: 3 }).share / 2,
      12,
    );
    expect(read.valueShare).toBeGreaterThan(valueShare);
    expect(read.requestBytes).toBeGreaterThan(requestBytes);
    const slots = parsePolicy({ sparseAttention: 0.1, batches: 6 }, 'test');
    expect(valuesRead({ hardware: CPU_MACHINE, shape, block: slots }).valueShare).toBeCloseTo(
      ((1 - 0.9 ** 2) * (1 - 1 / 32)) / 2,
      12,
    );
    const whole = { keyShare: 1, valueShare: 0 };
    expect(valuesRead({ hardware: CPU_MACHINE, shape, block: parsePolicy({}, 'test') })).toMatchObject(whole);
    const memory = { ...CPU_MACHINE.memory, gpuBytes: 2 ** 30 };
    expect(valuesRead({ hardware: { ...CPU_MACHINE, memory }, shape, block })).toMatchObject(whole);
    const latent = { rank: 512, rotated: 64, plain: 128, value: 128, queryRank: 0 };
    expect(valuesRead({ hardware: CPU_MACHINE, shape: { ...shape, latent }, block })).toMatchObject(whole);
  });

  test('are what plans, and the simulated device, save of the disk', async () => {
    const [dense, sparse] = [readSeconds({}), readSeconds({ sparseAttention: 0.1 })];
    expect(sparse / dense).toBeGreaterThan(0.5 + ((1 - 0.9 ** 2) * (1 - 6 / 32)) / 2 - 0.01);
    expect(sparse / dense).toBeLessThan(0.61); // prompts read whole pages
    const simulated = async (policy: object): Promise<number> =>
      (await simulatePlan(request, parsePolicy({ ...onDisk, ...policy }, 'test'))).queueSeconds['disk-read'] ?? NaN;
    expect((await simulated({ sparseAttention: 0.1 })) / (await simulated({}))).toBeCloseTo(sparse / dense, 1);
  });

  test('are part of a policy that is searched for', () => {
    const allow = { batchSize: 4, batches: 1, sparseAttention: 0.1 };
    const best = choosePolicy({ ...request, allow });
    expect(best.policy.sparseAttention).toBe(0.1);
    expect(best.predicted.warning).toBeUndefined();
    expect(() => choosePolicy({ ...request, allow, costModel: 'flexgen' })).toThrow(
      "costModel: found flexgen for sparse attention, expected spillway: the papers' models cost all values",
    );
  });
});

describe('computing with sparse attention', () => {
  const computing = (policy: object, model = shape): number =>
    predict({ ...request, shape: model }, parsePolicy({ batchSize: 4, weights: { cpu: 1 }, ...policy }, 'test'))
      .queueSeconds['cpu-compute'] ?? NaN;

  test('takes the keys, the choice, and the values that were chosen', () => {
    const inMemory = { cache: { cpu: 1 } };
    const [dense, half, tenth] = [1, 0.5, 0.1].map((sparseAttention) => computing({ ...inMemory, sparseAttention }));
    // Every share of the values costs alike; the choice does not depend on it.
    const values = ((half ?? NaN) - (tenth ?? NaN)) / 0.4;
    expect(values).toBeGreaterThan(0);
    expect(half).toBeLessThan(dense ?? NaN);
    const choice = (half ?? NaN) + values / 2 - (dense ?? NaN);
    expect(choice).toBeGreaterThan(0);
    // Keys are as many bytes as values: they are scored once more where values are read from disk after that.
    expect(computing({ ...onDisk, sparseAttention: 0.1 }) - (tenth ?? NaN)).toBeCloseTo(values + choice, 6);
    expect(computing(onDisk)).toBeCloseTo(dense ?? NaN, 9);
  });

  test('is dense where rows of a latent cache are keys and values at once', () => {
    const sizes = { rank: 512, queryRank: 0, rotated: 64, plain: 128, value: 128 };
    const latent = { ...shape, kvHeads: 1, headDim: 576, latent: sizes };
    expect(computing({ cache: { cpu: 1 }, sparseAttention: 0.1 }, latent)).toBe(
      computing({ cache: { cpu: 1 } }, latent),
    );
  });

  test('takes as long task by task', async () => {
    for (const policy of [{ cache: { cpu: 1 } }, onDisk]) {
      const parsed = parsePolicy({ batchSize: 4, weights: { cpu: 1 }, ...policy, sparseAttention: 0.1 }, 'test');
      const simulated = (await simulatePlan(request, parsed)).queueSeconds['cpu-compute'] ?? NaN;
      expect(simulated / (predict(request, parsed).queueSeconds['cpu-compute'] ?? NaN)).toBeCloseTo(1, 2);
    }
  });
});
