import { expect, test } from '@jest/globals';
import fc from 'fast-check';
import { countSweeps, type SweepClass } from '../../../src/plan/model/countSweeps.js';
import { BLOCK_SCHEDULES, SCHEDULE_NAMES } from '../../../src/engine/schedules/blockSchedules.js';
import type { Schedule } from '../../../src/engine/schedules/Schedule.js';

/** Sums over all squares of the first layer that a schedule really makes. */
function played(
  schedule: Schedule,
  promptTokens: number,
  newTokens: number,
  rows: number,
  batchSize: number,
  batches: number,
  tokensPerSquare: number,
): number[] {
  let state = schedule.start({ layers: 1, slots: batches, rowsPerSlot: batchSize, tokensPerSquare });
  let admitted = 0;
  const sums = { sweeps: 0, squares: 0, prompt: 0, decode: 0, decodeKeys: 0, promptKeys: 0, sampled: 0, context: 0 };
  for (;;) {
    const come = Math.min(rows - admitted, schedule.free(state, new Set()));
    const next = schedule.next(state, {
      admitted: Array.from({ length: come }, (_, i) => ({ row: admitted + i, promptTokens, newTokens })),
      ended: new Set(),
    });
    admitted += come;
    state = next.state;
    const squares = [...next.squares];
    if (squares.length === 0) break;
    sums.sweeps++;
    for (const square of squares) {
      sums.squares++;
      for (const { firstPosition, tokens, head } of square.batch.rows) {
        if (firstPosition >= promptTokens) {
          sums.decode++;
          sums.decodeKeys += firstPosition + 1;
        } else {
          sums.prompt += tokens;
          for (let i = 0; i < tokens; i++) sums.promptKeys += firstPosition + i + 1;
        }
        sums.context += firstPosition;
        if (head === 'sample') sums.sampled++;
      }
    }
  }
  return Object.values(sums);
}

const PLAIN = { compressWeights: 'none', compressCache: 'none', cpuAttention: true } as const;

function totalOf(classes: readonly SweepClass[]): (of: (each: SweepClass) => number) => number {
  return (of) => classes.reduce((sum, each) => sum + of(each), 0);
}

test('sweeps are counted as the schedules make them, square by square', () => {
  const count = fc.integer({ min: 1, max: 6 });
  fc.assert(
    fc.property(
      fc.constantFrom(...SCHEDULE_NAMES),
      fc.integer({ min: 1, max: 40 }),
      count,
      count,
      fc.integer({ min: 1, max: 3 }),
      fc.integer({ min: 0, max: 30 }),
      fc.integer({ min: 1, max: 3 }),
      (name, prompt, tokens, size, batches, room, blocks) => {
        // One slot only where batches take turns: there the count stands for any of them.
        const slots = name === 'row' ? 1 : batches;
        const rows = size * slots * blocks;
        const tokensPerSquare = size + room;
        const classes = countSweeps(
          { promptTokens: prompt, newTokens: tokens, rows },
          { ...PLAIN, schedule: name, batchSize: size, batches, tokensPerSquare },
        );
        const total = totalOf(classes);
        const perSquare = (field: keyof SweepClass['load']): number =>
          total(({ sweeps, squares, load }) => sweeps * squares * load[field]);
        const counted = [
          total(({ sweeps }) => sweeps),
          total(({ sweeps, squares }) => sweeps * squares),
          perSquare('promptTokens'),
          perSquare('decodeRows'),
          perSquare('decodeKeys'),
          perSquare('promptKeys'),
          perSquare('sampledRows'),
          perSquare('contextTokens'),
        ];
        const real = played(BLOCK_SCHEDULES[name].create(), prompt, tokens, rows, size, slots, tokensPerSquare);
        counted.forEach((value, i) => expect(value).toBeCloseTo(real[i] ?? -1, 6));
      },
    ),
    { numRuns: 300 },
  );
});

test('rows that come in at a pace are computed once each, whatever the pace: no square is empty, and one row is always under way', () => {
  fc.assert(
    fc.property(
      fc.integer({ min: 1, max: 100 }),
      fc.integer({ min: 1, max: 6 }),
      fc.integer({ min: 1, max: 40 }),
      fc.integer({ min: 1, max: 8 }),
      fc.integer({ min: 1, max: 4 }),
      fc.double({ min: 1e-9, max: 8, noNaN: true }),
      (promptTokens, newTokens, rows, batchSize, batches, admittedPerSweep) => {
        const tokensPerSquare = 16;
        const classes = countSweeps(
          { promptTokens, newTokens, rows, admittedPerSweep },
          { ...PLAIN, schedule: 'diagonal', batchSize, batches, tokensPerSquare },
        );
        const total = totalOf(classes);
        for (const { load } of classes) expect(load.promptTokens + load.decodeRows).toBeGreaterThan(0);
        expect(total(({ sweeps, squares, load }) => sweeps * squares * load.promptTokens)).toBeCloseTo(
          rows * promptTokens,
          6,
        );
        expect(total(({ sweeps, squares, load }) => sweeps * squares * load.decodeRows)).toBeCloseTo(
          rows * (newTokens - 1),
          6,
        );
        // Never slower than one row after the other.
        const alone = Math.ceil(promptTokens / tokensPerSquare) + newTokens - 1;
        expect(total(({ sweeps }) => sweeps)).toBeLessThanOrEqual((rows + batches) * alone + 1e-6);
      },
    ),
    { numRuns: 300 },
  );
});

test.each([
  ['diagonal', 64],
  ['zigzag', 64],
  ['diagonal', 6400],
] as const)('rows that are alike end together, and the next ones bring prompts: %s, %d rows', (schedule, rows) => {
  const classes = countSweeps(
    { promptTokens: 16, newTokens: 8, rows },
    { ...PLAIN, schedule, batchSize: 4, batches: 4, tokensPerSquare: 64 },
  );
  expect(classes.map(({ load }) => load.promptTokens)).toEqual([64, 0]);
  expect(classes.map(({ sweeps, next }) => [sweeps, [...next]])).toEqual([
    [rows / 16, [[1, rows / 16]]],
    [(7 * rows) / 16, [[0, rows / 16 - 1]]],
  ]);
});

test('rows that are no whole block bring prompts as well', () => {
  const classes = countSweeps(
    { promptTokens: 16, newTokens: 8, rows: 56 },
    { ...PLAIN, schedule: 'zigzag', batchSize: 4, batches: 4, tokensPerSquare: 64 },
  );
  const prompts = classes.filter(({ load }) => load.promptTokens > 0);
  const toPrompts = classes.flatMap(({ load, next }) =>
    load.promptTokens > 0 ? [] : [...next].filter(([index]) => (classes[index]?.load.promptTokens ?? 0) > 0),
  );
  expect(prompts.reduce((sum, { sweeps }) => sum + sweeps, 0)).toBe(4);
  expect(toPrompts.reduce((sum, [, times]) => sum + times, 0)).toBe(3);
});
