import fc from 'fast-check';
import type { SimulatedRow } from './simulatedRun.js';

/** Rows of a tree: they begin with what they have of some parts in common. */
const picks = fc.tuple(fc.nat(2), fc.nat(3), fc.nat(9), fc.nat(20), fc.nat(9), fc.nat(4));
const prompts = fc
  .array(picks, { maxLength: 16 })
  .map((picked) =>
    picked.map(([system, document, question, first, second, third]) => [
      ...Array.from({ length: first }, (_, i) => 100 * system + i),
      ...Array.from({ length: second }, (_, i) => 1000 + 100 * document + i),
      ...Array.from({ length: third + 1 }, (_, i) => 10_000 + 100 * question + i),
    ]),
  );

const most = fc.integer({ min: 1, max: 5 });
const ends = fc.record({ newTokens: most, endsAfter: fc.oneof(fc.constant(Infinity), most) });

/** Such rows, with answers of any length. */
export const treesOfRows: fc.Arbitrary<SimulatedRow[]> = fc
  .tuple(prompts, fc.array(ends, { minLength: 16, maxLength: 16 }))
  .map(([tokens, each]) =>
    tokens.map((prompt, i) => ({ prompt, promptTokens: prompt.length, newTokens: 1, ...each[i] })),
  );
