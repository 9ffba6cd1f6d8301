import { describe, expect, test } from '@jest/globals';
import { ALL_ON_CPU, movement, type TierShares } from '../../../src/engine/memory/movement.js';

const BYTES = { layerWeights: [1000, 1000, 1000], tokenCache: 10, tokenActivations: 100 };
const square = {
  batch: {
    pass: 2,
    slot: 0,
    rows: [
      { row: 0, firstPosition: 7, tokens: 1, head: 'sample' as const },
      { row: 1, firstPosition: 0, tokens: 3, head: 'sample' as const },
    ],
  },
  layer: 1,
};
const noPages = (): undefined => undefined;
const shares: TierShares = { gpu: 0.2, cpu: 0.3, disk: 0.5 };

describe('movement', () => {
  test('moves nothing where everything is on the compute tier', () => {
    const { loadWeight, loadCache, storeCache, loadActivation, storeActivation } = movement(
      ALL_ON_CPU,
      BYTES,
      'cpu',
      3,
    );
    for (const moves of [loadWeight, loadCache, storeCache, loadActivation, storeActivation])
      expect(moves(square, noPages)).toEqual([]);
  });

  test('to a GPU, what is on disk goes by way of the CPU', () => {
    expect(movement({ ...ALL_ON_CPU, weights: shares }, BYTES, 'gpu', 3).loadWeight(square)).toEqual([
      [
        { queue: 'disk-read', from: 'disk', to: 'cpu', bytes: 500 },
        { queue: 'host-to-device', from: 'cpu', to: 'gpu', bytes: 500 },
      ],
      [{ queue: 'host-to-device', from: 'cpu', to: 'gpu', bytes: 300 }],
    ]);
  });

  test('loads the whole context and stores the new tokens', () => {
    const moves = movement({ ...ALL_ON_CPU, cache: { gpu: 0, cpu: 0, disk: 1 } }, BYTES, 'cpu', 3);
    expect(moves.loadCache(square, noPages)).toEqual([[{ queue: 'disk-read', from: 'disk', to: 'cpu', bytes: 70 }]]);
    expect(moves.storeCache(square, noPages)).toEqual([[{ queue: 'disk-write', from: 'cpu', to: 'disk', bytes: 40 }]]);
  });

  test('moves whole pages where these come to a GPU, what rows share once; to the disk each token once', () => {
    const rows = [
      { row: 0, firstPosition: 9, tokens: 1, head: 'sample' as const, sharedTokens: 6 },
      { row: 1, firstPosition: 8, tokens: 5, head: 'none' as const, sharedTokens: 8 },
    ];
    const cache = { gpu: 0, cpu: 0, disk: 1 };
    const moves = movement({ ...ALL_ON_CPU, cache }, { ...BYTES, pageTokens: 4 }, 'gpu', 3);
    const given = { ...square, batch: { ...square.batch, rows } };
    // Three pages less the one that is shared, none of its own, and the two that are.
    expect(moves.loadCache(given, noPages)[0]?.map(({ bytes }) => bytes)).toEqual([160, 160]);
    expect(moves.storeCache(given, noPages)).toEqual([
      [
        { queue: 'device-to-host', from: 'gpu', to: 'cpu', bytes: 120 },
        { queue: 'disk-write', from: 'cpu', to: 'disk', bytes: 60 },
      ],
    ]);
  });

  test('the first layer loads no activations, the last one stores none', () => {
    const moves = movement({ ...ALL_ON_CPU, activations: { gpu: 0, cpu: 0, disk: 1 } }, BYTES, 'cpu', 3);
    expect(moves.loadActivation({ ...square, layer: 0 })).toEqual([]);
    expect(moves.loadActivation(square)).toEqual([[{ queue: 'disk-read', from: 'disk', to: 'cpu', bytes: 400 }]]);
    expect(moves.storeActivation(square)).toEqual([[{ queue: 'disk-write', from: 'cpu', to: 'disk', bytes: 400 }]]);
    expect(moves.storeActivation({ ...square, layer: 2 })).toEqual([]);
  });
});
