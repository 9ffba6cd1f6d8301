import { describe, expect, test } from '@jest/globals';
import fc from 'fast-check';
import { diagonalBlock, rowByRow, zigZagBlock } from '../../../src/engine/schedules/blockSchedules.js';
import { PathChecker } from '../../../src/engine/schedules/PathChecker.js';
import type { AdmittedRow, Schedule } from '../../../src/engine/schedules/Schedule.js';
import { batchTokens, type Grid, type RowId, type Square } from '../../../src/engine/grid/Square.js';

interface Plan {
  /** The squares of each sweep. */
  readonly sweeps: Square[][];
  /** Rows that came in before each sweep. */
  readonly admissions: RowId[][];
}

/** Plays a schedule against rows that arrive as places come free, and ends rows early where `endsAfter` says so. */
function play(
  schedule: Schedule,
  grid: Grid,
  rows: readonly AdmittedRow[],
  endsAfter: (row: RowId) => number = () => Infinity,
): Plan {
  let state = schedule.start(grid);
  const waiting = [...rows];
  const sampled = new Map<RowId, number>();
  const plan: Plan = { sweeps: [], admissions: [] };
  let ended = new Set<RowId>();
  for (;;) {
    const admitted = waiting.splice(0, schedule.free(state, ended));
    const next = schedule.next(state, { admitted, ended });
    state = next.state;
    ended = new Set();
    const squares = [...next.squares];
    if (squares.length === 0) break;
    plan.sweeps.push(squares);
    plan.admissions.push(admitted.map(({ row }) => row));
    for (const { batch, layer } of squares) {
      if (layer < grid.layers - 1) continue;
      for (const { row, head } of batch.rows) {
        if (head === 'sample') sampled.set(row, (sampled.get(row) ?? 0) + 1);
        if ((sampled.get(row) ?? 0) >= endsAfter(row)) ended.add(row);
      }
    }
  }
  expect(waiting).toEqual([]);
  return plan;
}

const row = (id: number, promptTokens: number, newTokens: number): AdmittedRow => ({
  row: id,
  promptTokens,
  newTokens,
});
const order = (squares: readonly Square[]): string[] =>
  squares.map(({ batch: { slot, rows }, layer }) => `${layer}/${slot}:${rows.map((range) => range.row).join('')}`);
const GRID: Grid = { layers: 2, slots: 2, rowsPerSlot: 1, tokensPerSquare: 4 };

describe('zigZagBlock', () => {
  test('serves all slots with a layer before it goes to the next, and takes new rows when the block has ended', () => {
    const { sweeps, admissions } = play(zigZagBlock(), GRID, [row(0, 2, 1), row(1, 2, 2), row(2, 1, 1)]);
    expect(sweeps.map(order)).toEqual([
      ['0/0:0', '0/1:1', '1/0:0', '1/1:1'],
      ['0/1:1', '1/1:1'],
      ['0/0:2', '1/0:2'],
    ]);
    expect(admissions).toEqual([[0, 1], [], [2]]);
  });
});

describe('diagonalBlock', () => {
  test("gives a finished row's place to the next at once", () => {
    const { admissions } = play(diagonalBlock(), GRID, [row(0, 2, 1), row(1, 2, 3), row(2, 1, 1)]);
    expect(admissions).toEqual([[0, 1], [2], []]);
  });

  test('a row that ends early frees its place', () => {
    const { admissions } = play(diagonalBlock(), { ...GRID, slots: 1 }, [row(0, 1, 9), row(1, 1, 1)], (id) =>
      id === 0 ? 2 : Infinity,
    );
    expect(admissions).toEqual([[0], [], [1]]);
  });
});

describe('rowByRow', () => {
  test('takes one slot to its end before the next', () => {
    const { sweeps } = play(rowByRow(), GRID, [row(0, 1, 2), row(1, 1, 1)]);
    expect(sweeps.map(order)).toEqual([
      ['0/0:0', '1/0:0'],
      ['0/0:0', '1/0:0'],
      ['0/1:1', '1/1:1'],
    ]);
  });
});

describe('chunks', () => {
  test('a long prompt comes in chunks; only the last one samples, and decoding rows go first', () => {
    const { sweeps } = play(diagonalBlock(), { ...GRID, slots: 1, rowsPerSlot: 2 }, [row(0, 1, 3), row(1, 7, 1)]);
    expect(sweeps.map((squares) => squares[0]?.batch.rows)).toEqual([
      [
        { row: 0, firstPosition: 0, tokens: 1, head: 'sample' },
        { row: 1, firstPosition: 0, tokens: 3, head: 'none' },
      ],
      [
        { row: 0, firstPosition: 1, tokens: 1, head: 'sample' },
        { row: 1, firstPosition: 3, tokens: 3, head: 'none' },
      ],
      [
        { row: 0, firstPosition: 2, tokens: 1, head: 'sample' },
        { row: 1, firstPosition: 6, tokens: 1, head: 'sample' },
      ],
    ]);
  });

  test('tokens that are known come together, behind the prompts of others, as far as the square has room', () => {
    const schedule = diagonalBlock();
    const grid = { layers: 1, slots: 1, rowsPerSlot: 3, tokensPerSquare: 8 };
    const rangesOf = ({ squares }: { readonly squares: Iterable<Square> }): unknown =>
      [...squares].flatMap(({ batch }) =>
        batch.rows.map(({ row, firstPosition, tokens, head }) => [row, firstPosition, tokens, head]),
      );
    const none: ReadonlySet<RowId> = new Set();
    const first = schedule.next(schedule.start(grid), {
      admitted: [
        { row: 0, promptTokens: 2, newTokens: 20 },
        { row: 1, promptTokens: 2, newTokens: 5 },
      ],
      ended: none,
    });
    expect(rangesOf(first)).toEqual([
      [0, 0, 2, 'sample'],
      [1, 0, 2, 'sample'],
    ]);
    const second = schedule.next(first.state, {
      admitted: [{ row: 2, promptTokens: 2, newTokens: 2 }],
      ended: none,
      known: new Map([
        [0, 12],
        [1, 4],
      ]),
    });
    expect(rangesOf(second)).toEqual([
      [0, 2, 5, 'sample'],
      [1, 2, 1, 'sample'],
      [2, 0, 2, 'sample'],
    ]);
    // What was known is said again as long as it is.
    const third = schedule.next(second.state, { admitted: [], ended: none, known: new Map([[1, 40]]) });
    expect(rangesOf(third)).toEqual([
      [0, 7, 1, 'sample'],
      [1, 3, 3, 'sample'],
      [2, 2, 1, 'sample'],
    ]);
  });

  test('a scored row is scored in every chunk, and its last token is not computed', () => {
    const { sweeps } = play(diagonalBlock(), { ...GRID, slots: 1 }, [row(0, 6, 0)]);
    expect(sweeps.map((squares) => squares[0]?.batch.rows)).toEqual([
      [{ row: 0, firstPosition: 0, tokens: 4, head: 'score' }],
      [{ row: 0, firstPosition: 4, tokens: 1, head: 'score' }],
    ]);
  });
});

describe.each([rowByRow(), zigZagBlock(), diagonalBlock()])('$name, any grid and rows', (schedule) => {
  test('plans a valid path, completes every row, and wastes no more than the sweep after an early end', () => {
    const lengths = fc.record({
      promptTokens: fc.integer({ min: 1, max: 30 }),
      newTokens: fc.integer({ min: 1, max: 9 }),
      endsAfter: fc.integer({ min: 1, max: 12 }),
    });
    const grid = fc.record({
      layers: fc.integer({ min: 1, max: 4 }),
      slots: fc.integer({ min: 1, max: 4 }),
      rowsPerSlot: fc.integer({ min: 1, max: 4 }),
      extra: fc.nat(9),
    });
    fc.assert(
      fc.property(grid, fc.array(lengths, { maxLength: 20 }), ({ extra, ...shape }, list) => {
        const given = { ...shape, tokensPerSquare: shape.rowsPerSlot + extra };
        const rows = list.map((each, index) => row(index, each.promptTokens, each.newTokens));
        const { sweeps } = play(schedule, given, rows, (id) => list[id]?.endsAfter ?? Infinity);
        const checker = new PathChecker(given);
        for (const each of rows) checker.admit(each);
        for (const [pass, squares] of sweeps.entries()) {
          for (const square of squares) {
            expect(square.batch.pass).toBe(pass);
            expect(batchTokens(square.batch)).toBeLessThanOrEqual(given.tokensPerSquare);
            checker.accept(square);
          }
        }
        list.forEach(({ newTokens, endsAfter }, id) => {
          if (endsAfter >= newTokens) expect(checker.missing(id)).toBe(0);
        });
      }),
      { numRuns: 300 },
    );
  });
});

describe('micro-batches', () => {
  const grid = { ...GRID, slots: 4, microBatches: 2 };
  const rowsOf = (sweeps: readonly (readonly Square[])[]): RowId[][] =>
    sweeps.map((squares) =>
      squares.filter(({ layer }) => layer === 0).flatMap(({ batch }) => batch.rows.map((r) => r.row)),
    );

  test('sweep in turn, each of them layer by layer', () => {
    const { sweeps } = play(diagonalBlock(), grid, [row(0, 1, 2), row(1, 1, 2), row(2, 1, 2), row(3, 1, 2)]);
    expect(sweeps.map(order)).toEqual([
      ['0/0:0', '0/2:2', '1/0:0', '1/2:2'],
      ['0/1:1', '0/3:3', '1/1:1', '1/3:3'],
      ['0/0:0', '0/2:2', '1/0:0', '1/2:2'],
      ['0/1:1', '0/3:3', '1/1:1', '1/3:3'],
    ]);
  });

  test('one that is empty makes the other wait for nothing; a place that comes free is taken at the next sweep', () => {
    const { sweeps, admissions } = play(diagonalBlock(), grid, [row(0, 1, 3)]);
    expect([rowsOf(sweeps), admissions]).toEqual([
      [[0], [0], [0]],
      [[0], [], []],
    ]);
    const full = [row(0, 1, 1), row(1, 1, 3), row(2, 1, 3), row(3, 1, 3), row(4, 1, 2)];
    const refilled = play(diagonalBlock(), grid, full);
    expect(refilled.admissions.slice(0, 3)).toEqual([[0, 1, 2, 3], [4], []]);
    expect(rowsOf(refilled.sweeps).slice(0, 4)).toEqual([
      [0, 2],
      [1, 3],
      [4, 2],
      [1, 3],
    ]);
  });

  test('are no matter to a schedule that has one batch at a time', () => {
    const rows = [row(0, 1, 2), row(1, 1, 1)];
    expect(play(rowByRow(), grid, rows)).toEqual(play(rowByRow(), { ...grid, microBatches: 1 }, rows));
  });
});
