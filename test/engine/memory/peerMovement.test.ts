import { expect, test } from '@jest/globals';
import { keptTokens } from '../../../src/engine/grid/rowExchange.js';
import { ALL_ON_CPU, movement } from '../../../src/engine/memory/movement.js';
import { peerMovement } from '../../../src/engine/memory/peerMovement.js';
import { rowAttention } from '../../../src/model/dividedLayer.js';

test.each([
  ['even', [0, 1, 2, 3]],
  ['all in one engine', [2, 2, 2, 2]],
  ['uneven', [3, 1, 1, 3]],
  ['of an engine that keeps none', [1, 2, 3, 1]],
])('what engines hand round follows from who keeps which rows: %s', (_, keepers) => {
  const of = 4;
  const [heads, headDim] = [8, 16];
  // One head of keys and values, which all engines have: queries alone go, a quarter of the heads from each.
  const attention = rowAttention({ heads, kvHeads: 1, headDim }, 1, of);
  const rows = keepers.map((__, row) => ({ row, firstPosition: 0, tokens: 1 + 2 * row, head: 'none' as const }));
  const batch = { pass: 0, slot: 0, rows };
  const pagesOf = (row: number): { readonly entries: []; readonly tail: number; readonly keeper: number } => ({
    entries: [],
    tail: -1,
    keeper: keepers[row] ?? NaN,
  });
  const part = (heads / of) * headDim * 4;
  for (let index = 0; index < of; index++) {
    const grid = { layers: 1, share: { index, of, sums: 2 as const, attention } };
    const bytes = { layerWeights: [0], tokenCache: 0, tokenActivations: 4 };
    const { allToAll } = peerMovement(movement(ALL_ON_CPU, bytes, 'cpu', 1), grid, 4, 'cpu');
    const sent = (['rows', 'heads'] as const).map(
      (exchange) => allToAll?.({ batch, layer: 0 }, exchange, pagesOf)?.bytes,
    );
    // A row's queries come through this engine from all between its keeper, going round, and this one; what is attended
    // to goes from the keeper through this one to all others.
    const through = (row: number): number => (((index - (keepers[row] ?? NaN)) % of) + of) % of;
    const sum = (links: (row: number) => number): number =>
      rows.reduce((total, { row, tokens }) => total + tokens * part * links(row), 0);
    expect(sent).toEqual([sum(through), sum((row) => of - 1 - through(row))]);
  }
  expect(keptTokens(rows, (row) => keepers[row] ?? NaN, of).flat()).toHaveLength(16);
});
