import fc from 'fast-check';
import type { Row } from '../../src/index.js';

/** Rows of a tree of prompts: a system's, a document's and a question's tokens. */
export const promptTrees = (mostRows: number): fc.Arbitrary<readonly Row[]> =>
  fc
    .array(
      fc.record({
        system: fc.nat(1),
        document: fc.nat(2),
        question: fc.nat(9),
        systemTokens: fc.constantFrom(0, 20, 32, 45),
        documentTokens: fc.constantFrom(0, 12, 19),
        new: fc.integer({ min: 1, max: 6 }),
        sampled: fc.boolean(),
      }),
      { minLength: 2, maxLength: mostRows },
    )
    .map((picks) =>
      picks.map((pick, id): Row => ({
        id,
        tokens: [
          ...Array.from({ length: pick.systemTokens }, (_, i) => (pick.system * 91 + i * 17 + 3) % 250),
          ...Array.from({ length: pick.documentTokens }, (_, i) => (pick.document * 57 + i * 29 + 11) % 250),
          ...Array.from({ length: 1 + pick.question }, (_, i) => (pick.question * 31 + i * 7 + 5) % 250),
        ],
        maxNewTokens: pick.new,
        ...(pick.sampled && { temperature: 0.9, seed: id }),
      })),
    );
