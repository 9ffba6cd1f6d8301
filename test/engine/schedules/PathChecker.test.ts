import { describe, expect, test } from '@jest/globals';
import fc from 'fast-check';
import { diagonalBlock } from '../../../src/engine/schedules/blockSchedules.js';
import { PathChecker, type JudgedRow } from '../../../src/engine/schedules/PathChecker.js';
import type { HeadMode, RowRange, Square } from '../../../src/engine/grid/Square.js';

const GRID = { layers: 2, slots: 2, rowsPerSlot: 2, tokensPerSquare: 4 };
const range = (firstPosition: number, tokens: number, head: HeadMode, row = 0): RowRange => ({
  row,
  firstPosition,
  tokens,
  head,
});
const square = (layer: number, rows: readonly RowRange[], slot = 0, pass = rows[0]?.firstPosition ?? 0): Square => ({
  batch: { pass, slot, rows },
  layer,
});

/** A row of 3 prompt tokens and 2 new ones: positions 0 to 3. */
function checker(...accepted: Square[]): PathChecker {
  const path = new PathChecker(GRID);
  path.admit({ row: 0, promptTokens: 3, newTokens: 2 });
  for (const each of accepted) path.accept(each);
  return path;
}
const prompt = [square(0, [range(0, 3, 'sample')]), square(1, [range(0, 3, 'sample')])];

describe('PathChecker', () => {
  test('accepts a path, and says what is missing of it', () => {
    const path = checker(...prompt);
    expect(path.missing(0)).toBe(1);
    path.accept(square(0, [range(3, 1, 'sample')]));
    path.accept(square(1, [range(3, 1, 'sample')]));
    expect(path.missing(0)).toBe(0);
  });

  test.each<[string, Square[], Square, string]>([
    ['a layer before the one below it', [], square(1, [range(0, 3, 'sample')]), 'left-neighbour'],
    ['a position before the one left of it', [], square(0, [range(1, 2, 'sample')]), 'left-neighbour'],
    [
      'a decode token before its token was sampled',
      [square(0, [range(0, 3, 'sample')])],
      square(0, [range(3, 1, 'sample')]),
      'left-neighbour',
    ],
    [
      'a chunk that runs from the prompt into what is not sampled yet',
      [square(0, [range(0, 2, 'none')]), square(1, [range(0, 2, 'none')])],
      square(0, [range(2, 2, 'sample')]),
      'left-neighbour',
    ],
    ['a position twice', [square(0, [range(0, 3, 'sample')])], square(0, [range(0, 3, 'sample')]), 'complete'],
    ['a position past the row', prompt, square(0, [range(3, 2, 'sample')]), 'complete'],
    ['a row that was not admitted', [], square(0, [range(0, 1, 'none', 7)]), 'lifetime'],
    ['a row twice in a square', [], square(0, [range(0, 1, 'none'), range(1, 1, 'none')]), 'left-neighbour'],
    ['no rows', [], square(0, []), 'capacity'],
    ['too many tokens', [], square(0, [range(0, 5, 'sample')]), 'capacity'],
    ['a layer that is not there', [], square(2, [range(0, 3, 'sample')]), 'complete'],
    ['a slot that is not there', [], square(0, [range(0, 3, 'sample')], 2), 'capacity'],
    ['an empty range', [], square(0, [range(0, 0, 'none')]), 'complete'],
    ['a fraction of a token', [], square(0, [range(0, 0.5, 'none')]), 'complete'],
    ['sampling in mid-prompt', [], square(0, [range(0, 2, 'sample')]), 'complete'],
    ["no sampling at the prompt's end", [], square(0, [range(0, 3, 'none')]), 'complete'],
  ])('refuses %s', (_, accepted, wrong, constraint) => {
    const path = checker(...accepted);
    expect(() => {
      path.accept(wrong);
    }).toThrow(expect.objectContaining({ code: 'schedule', constraint }));
  });

  test('refuses a row after its end, and admitting it twice', () => {
    const path = checker();
    expect(() => {
      path.admit({ row: 0, promptTokens: 1, newTokens: 1 });
    }).toThrow(/complete/);
    path.release(0);
    expect(() => {
      path.accept(square(0, [range(0, 3, 'sample')]));
    }).toThrow(/lifetime/);
  });

  test.each<[string, Square[], Square, string]>([
    [
      'a second batch while the first has a layer to go',
      [square(0, [range(0, 2, 'none')])],
      square(0, [range(2, 1, 'sample')]),
      'lifetime',
    ],
    ['a layer of another batch', [square(0, [range(0, 2, 'none')])], square(1, [range(0, 1, 'none')]), 'lifetime'],
    [
      'a layer of another pass',
      [square(0, [range(0, 3, 'sample')])],
      square(1, [range(0, 3, 'sample')], 0, 5),
      'lifetime',
    ],
    ['a row that changes its slot', prompt, square(0, [range(3, 1, 'sample')], 1), 'left-neighbour'],
    ['a pass that comes again', prompt, square(0, [range(3, 1, 'sample')], 0, 0), 'complete'],
    ['half a layer', [square(0, [range(0, 3, 'sample')])], square(0.5, [range(0, 3, 'sample')]), 'complete'],
  ])('keeps the hidden states of a slot: refuses %s', (_, accepted, wrong, constraint) => {
    const path = checker(...accepted);
    expect(() => {
      path.accept(wrong);
    }).toThrow(expect.objectContaining({ code: 'schedule', constraint }));
  });

  describe('tokens that are known together', () => {
    const long = (known: JudgedRow['known']): PathChecker => {
      const path = new PathChecker(GRID);
      path.admit({ row: 0, promptTokens: 3, newTokens: 6, ...(known && { known }) });
      for (const each of prompt) path.accept(each);
      return path;
    };

    test('come in one square, once the token before them has been sampled, and go on to the next ones', () => {
      const path = long(undefined);
      path.knows(0, { behind: 2, end: 6 });
      for (const layer of [0, 1]) path.accept(square(layer, [range(3, 3, 'sample')]));
      path.knows(0, { behind: 5, end: 8 });
      for (const layer of [0, 1]) path.accept(square(layer, [range(6, 1, 'sample')]));
      for (const layer of [0, 1]) path.accept(square(layer, [range(7, 1, 'sample')]));
      expect(path.missing(0)).toBe(0);
    });

    test.each<[string, JudgedRow['known'], Square]>([
      ['more than are known', [{ behind: 2, end: 5 }], square(0, [range(3, 3, 'sample')])],
      ['any where none are known', undefined, square(0, [range(3, 2, 'sample')])],
      [
        'those that are known only behind a position that is in the same square',
        [{ behind: 3, end: 6 }],
        square(0, [range(3, 3, 'sample')]),
      ],
    ])('refuses %s', (_, known, wrong) => {
      const path = long(known);
      expect(() => {
        path.accept(wrong);
      }).toThrow(expect.objectContaining({ constraint: 'left-neighbour' }));
    });

    test('of a trace are judged as they were known then', () => {
      const path = long([
        { behind: 2, end: 5 },
        { behind: 4, end: 8 },
      ]);
      for (const layer of [0, 1]) path.accept(square(layer, [range(3, 2, 'sample')]));
      for (const layer of [0, 1]) path.accept(square(layer, [range(5, 3, 'sample')]));
      expect(path.missing(0)).toBe(0);
    });
  });

  test('a batch whose rows have all ended may be left where it is', () => {
    const path = checker(square(0, [range(0, 3, 'sample')]));
    path.release(0);
    path.admit({ row: 1, promptTokens: 2, newTokens: 1 });
    path.accept(square(0, [range(0, 2, 'sample', 1)], 0, 1));
  });

  test('a refused square leaves no trace', () => {
    const path = checker();
    expect(() => {
      path.accept(square(0, [range(0, 3, 'sample'), range(0, 1, 'none', 9)]));
    }).toThrow(/lifetime/);
    path.accept(square(0, [range(0, 3, 'sample')]));
  });

  test('notices any two squares of one row that are swapped, and any that is left out', () => {
    const rows = [
      { row: 0, promptTokens: 6, newTokens: 3 },
      { row: 1, promptTokens: 2, newTokens: 4 },
    ];
    const grid = { layers: 3, slots: 1, rowsPerSlot: 2, tokensPerSquare: 4 };
    const schedule = diagonalBlock();
    const plan: Square[] = [];
    let state = schedule.start(grid);
    for (let sweep = 0; sweep < 8; sweep++) {
      const next = schedule.next(state, { admitted: sweep === 0 ? rows : [], ended: new Set() });
      state = next.state;
      plan.push(...next.squares);
    }
    const judge = (squares: readonly Square[]): void => {
      const path = new PathChecker(grid);
      for (const each of rows) path.admit(each);
      for (const each of squares) path.accept(each);
      if (rows.some(({ row }) => path.missing(row) > 0)) throw new Error('incomplete');
    };
    judge(plan);
    fc.assert(
      fc.property(fc.nat(plan.length - 1), fc.nat(plan.length - 1), (a, b) => {
        const left = plan.filter((_, index) => index !== a);
        expect(() => {
          judge(left);
        }).toThrow();
        const shared = plan[a]?.batch.rows.some(({ row }) => plan[b]?.batch.rows.some((other) => other.row === row));
        if (a === b || !shared) return;
        const swapped = plan.map((each, index) => plan[index === a ? b : index === b ? a : index] ?? each);
        expect(() => {
          judge(swapped);
        }).toThrow();
      }),
    );
  });
});

describe('PathChecker, of rows that share', () => {
  // Row 0 has a prompt of 4, of which row 1 shares 3; both sample one token.
  const shared = [{ row: 0, end: 3 }];
  const source = (layer: number): Square => square(layer, [range(0, 4, 'sample', 0)], 0, 0);
  const sharer = (layer: number): Square => square(layer, [range(3, 2, 'sample', 1)], 1, 1);
  const judge = (order: readonly Square[], sharing: NonNullable<JudgedRow['shared']> = shared): void => {
    const path = new PathChecker(GRID);
    path.admit({ row: 0, promptTokens: 4, newTokens: 1 });
    path.admit({ row: 1, promptTokens: 5, newTokens: 1, shared: sharing });
    for (const each of order) path.accept(each);
    expect([path.missing(0), path.missing(1)]).toEqual([0, 0]);
  };

  test('accepts each layer of the sharer behind that of who computes what it shares', () => {
    judge([source(0), source(1), sharer(0), sharer(1)]);
    judge([source(0), sharer(0), source(1), sharer(1)]);
  });

  test.each<[string, Square[], NonNullable<JudgedRow['shared']>]>([
    ['a sharer before its source', [sharer(0), source(0), source(1), sharer(1)], shared],
    [
      'a layer of the sharer before that of its source, whose first layer it is behind',
      [source(0), sharer(0), sharer(1), source(1)],
      shared,
    ],
    [
      'more than the source has computed',
      [source(0), source(1), square(0, [range(4, 1, 'sample', 1)], 1, 1)],
      [
        { row: 0, end: 4 },
        { row: 1, end: 4 },
      ],
    ],
    ['a source that was never admitted', [source(0), source(1), sharer(0), sharer(1)], [{ row: 7, end: 3 }]],
    ['nobody', [source(0), source(1), sharer(0), sharer(1)], []],
  ])('refuses %s', (_, order, sharing) => {
    expect(() => {
      judge(order, sharing);
    }).toThrow(expect.objectContaining({ constraint: 'left-neighbour' }));
  });

  test('looks at each layer of a batch whose first one is behind that of its source', () => {
    const { batch } = sharer(0);
    const before = [source(0), { batch, layer: 0 }];
    judge([...before, source(1), { batch, layer: 1 }]);
    expect(() => {
      judge([...before, { batch, layer: 1 }, source(1)]);
    }).toThrow(/left-neighbour/);
  });

  test("refuses a sharer in its source's batch: it would read what is still being written", () => {
    const both = (layer: number): Square => ({
      batch: { pass: 0, slot: 0, rows: [range(0, 2, 'none', 0), range(2, 2, 'none', 1)] },
      layer,
    });
    expect(() => {
      judge([both(0), both(1)], [{ row: 0, end: 2 }]);
    }).toThrow(/shares positions up to 1 of row 0, which has computed 0 in this layer/);
  });

  test('of a row that shares, too, others share nothing before it has begun itself', () => {
    const third = (layer: number): Square => square(layer, [range(3, 2, 'sample', 2)], 0, 2);
    const accept = (order: readonly Square[]): void => {
      const path = new PathChecker(GRID);
      path.admit({ row: 0, promptTokens: 4, newTokens: 1 });
      for (const [row, from] of [
        [1, 0],
        [2, 1],
      ] as const)
        path.admit({ row, promptTokens: 5, newTokens: 1, shared: [{ row: from, end: 3 }] });
      for (const each of order) path.accept(each);
    };
    accept([source(0), source(1), sharer(0), sharer(1), third(0), third(1)]);
    expect(() => {
      accept([source(0), source(1), third(0)]);
    }).toThrow(/left-neighbour/);
  });

  test('a row that is over has computed what others keep of it', () => {
    const path = new PathChecker(GRID);
    path.admit({ row: 0, promptTokens: 4, newTokens: 1 });
    for (const layer of [0, 1]) path.accept(source(layer));
    path.release(0);
    path.admit({ row: 1, promptTokens: 5, newTokens: 1, shared });
    for (const layer of [0, 1]) path.accept(sharer(layer));
    // Nobody has been row 5.
    path.admit({ row: 2, promptTokens: 5, newTokens: 1, shared: [{ row: 5, end: 3 }] });
    expect(() => {
      path.accept(square(0, [range(3, 2, 'sample', 2)], 0, 2));
    }).toThrow(/left-neighbour/);
  });
});
