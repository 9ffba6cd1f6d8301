import { describe, expect, test } from '@jest/globals';
import fc from 'fast-check';
import { requireKnownShape } from '../../../src/plan/knownShapes.js';
import type { ModelShape } from '../../../src/plan/ModelShape.js';
import { bytesSent } from '../../../src/plan/partitioning/Collective.js';
import { layerCollectives, paddedHeads, paddedShape } from '../../../src/plan/partitioning/layerCollectives.js';
import { chipsAlong, type AxisName, type AxisSizes } from '../../../src/plan/partitioning/Mesh.js';
import {
  ACTIVATION_BYTES,
  ATTENTION_SHARDINGS,
  LAYOUTS,
  LAYOUT_NAMES,
  type AttentionSharding,
  type Layout,
  type LayoutName,
} from '../../../src/plan/partitioning/Partitioning.js';
import { multiply, range, SimulatedMesh, type Matrix } from '../support/simulatedMesh.js';

/** The feed-forward block of figure 3 alone: as good as no attention beside it. */
const FIGURE_3: ModelShape = {
  ...requireKnownShape('palm-540b'),
  hiddenSize: 16384,
  feedForwardSize: 65536,
  feedForwardMatrices: 2,
  heads: 0,
  kvHeads: 0,
};
const CUBE = { x: 4, y: 4, z: 4 };

function sentBytes(shape: ModelShape, mesh: AxisSizes, layout: LayoutName, tokens: number): number {
  return layerCollectives(shape, { mesh, layout, attention: 'heads', weights: 'bfloat16' }, tokens).reduce(
    (sum, each) => sum + bytesSent(each, mesh),
    0,
  );
}

/** Buffers of a layout's collectives, as the paper's formulas have them: without (K - 1) / K. */
function buffers(shape: ModelShape, mesh: AxisSizes, layout: LayoutName, tokens: number): number {
  return layerCollectives(shape, { mesh, layout, attention: 'heads', weights: 'bfloat16' }, tokens).reduce(
    (sum, each) => sum + each.bytes,
    0,
  );
}

// docs/policy.md says by these why four engines have no 2D layout.
test.each([
  ['SmolLM2', 576, 1536, 864, 1056],
  ['a model of 1B', 2048, 8192, 3072, 5120],
] as const)('a block of %s moves more in 2D than in 1D over 4 engines', (_, hiddenSize, feedForwardSize, one, two) => {
  const shape = { ...FIGURE_3, hiddenSize, feedForwardSize };
  const mesh = { x: 2, y: 2, z: 1 };
  const numbers = (layout: LayoutName): number => sentBytes(shape, mesh, layout, 1) / ACTIVATION_BYTES;
  expect(numbers('ws-1d')).toBe(one);
  expect(numbers('ws-2d')).toBe(two);
});

describe("the paper's equations", () => {
  const { hiddenSize: E, feedForwardSize: F } = FIGURE_3;
  const meshes = fc.record({
    x: fc.integer({ min: 2, max: 16 }),
    y: fc.integer({ min: 2, max: 16 }),
    z: fc.integer({ min: 2, max: 16 }),
  });

  test('1D (3.2.1), 2D (A.2.1) and weight-gathered (A.2.2)', () => {
    fc.assert(
      fc.property(meshes, fc.integer({ min: 1, max: 1e6 }), (mesh, tokens) => {
        const chips = chipsAlong(mesh);
        const bytes = 2;
        const close = (layout: LayoutName, expected: number): void => {
          expect(buffers(FIGURE_3, mesh, layout, tokens) / expected).toBeCloseTo(1, 9);
        };
        close('ws-1d', 2 * tokens * E * bytes);
        close('ws-2d', 2 * tokens * (E / mesh.x + F / (mesh.y * mesh.z)) * bytes);
        for (const [layout, N] of [
          ['wg-x', mesh.x],
          ['wg-xy', mesh.x * mesh.y],
        ] as const)
          close(layout, ((2 * E * F * N) / chips + (2 * tokens * E) / N) * bytes);
        // Where weights come from everywhere, activations stay: A.2.2's term for them is what is left of one chip.
        close('wg-xyz', 2 * E * F * bytes);
      }),
    );
  });

  test('2D is least at X = sqrt(n) / 2, where it is 8 BLE / sqrt(n)', () => {
    for (const chips of [16, 64, 256, 1024]) {
      const of = (x: number): number => buffers(FIGURE_3, { x, y: chips / x, z: 1 }, 'ws-2d', 1) / 2;
      const best = Math.sqrt(chips) / 2;
      expect(of(best)).toBeCloseTo((8 * E) / Math.sqrt(chips), 6);
      for (const x of [best / 2, best * 2].filter((each) => each >= 2)) expect(of(x)).toBeGreaterThan(of(best));
    }
  });

  test('2D sends less than 1D from 16 chips on', () => {
    const best = (chips: number): number =>
      Math.min(
        ...[2, 4, 8, 16]
          .filter((x) => x < chips)
          .map((x) => sentBytes(FIGURE_3, { x, y: chips / x, z: 1 }, 'ws-2d', 1)),
      );
    expect(best(4)).toBeGreaterThan(sentBytes(FIGURE_3, { x: 1, y: 4, z: 1 }, 'ws-1d', 1));
    expect(best(32)).toBeLessThan(sentBytes(FIGURE_3, { x: 1, y: 32, z: 1 }, 'ws-1d', 1));
  });
});

describe('figure 3', () => {
  const cheapest = (tokens: number, of: typeof buffers): LayoutName =>
    LAYOUT_NAMES.reduce((best, each) =>
      of(FIGURE_3, CUBE, each, tokens) < of(FIGURE_3, CUBE, best, tokens) ? each : best,
    );

  test('as tokens grow the cheapest layout goes from 2D weight-stationary over X and XY to XYZ', () => {
    const seen = range(24).map((power) => cheapest(2 ** power, sentBytes));
    expect(seen.filter((layout, at) => layout !== seen[at - 1])).toEqual(['ws-2d', 'wg-x', 'wg-xy', 'wg-xyz']);
  });

  test('where the formulas cross', () => {
    // 2 BL (E/X + F/YZ) = 2 EF/YZ + 2 BL E/X, and so on, with E/X = F/YZ = 4096.
    for (const [tokens, before, after] of [
      [16_384, 'ws-2d', 'wg-x'],
      [65_536, 'wg-x', 'wg-xy'],
      [786_432, 'wg-xy', 'wg-xyz'],
    ] as const) {
      expect(cheapest(tokens * 0.999, buffers)).toBe(before);
      expect(cheapest(tokens * 1.001, buffers)).toBe(after);
    }
  });
});

test('heads are filled up: 48 to 64 on 64 chips', () => {
  expect([1, 8, 16, 32, 64, 256].map((chips) => paddedHeads(48, chips))).toEqual([48, 48, 48, 64, 64, 64]);
  expect(paddedHeads(128, 64)).toBe(128);
  expect(paddedHeads(128, 256)).toBe(128);
  expect(paddedHeads(9, 1)).toBe(9);
  expect([3, 6, 7, 96, 100].map((chips) => paddedHeads(48, chips, 256))).toEqual([48, 48, 49, 48, 50]);
  // A head of three values is no half of one.
  expect(paddedHeads(2, 4, 3)).toBe(4);
});

describe('a model as it is split', () => {
  test('what does not divide is filled up: LLaMA 7B on 3 chips', () => {
    expect(paddedShape(requireKnownShape('llama-7b'), 3)).toMatchObject({
      hiddenSize: 4098,
      feedForwardSize: 11_010,
      vocabularySize: 32_001,
      heads: 33,
      kvHeads: 33,
    });
    // Groups of eight heads stay together.
    expect(paddedShape(requireKnownShape('llama-3-70b'), 3)).toMatchObject({ heads: 72, kvHeads: 9 });
    expect(paddedShape(requireKnownShape('llama-3-70b'), 24)).toMatchObject({ heads: 72, kvHeads: 8 });
    expect(paddedShape(requireKnownShape('palm-540b'), 24)).toMatchObject({
      heads: 48,
      kvHeads: 1,
      hiddenSize: 18_432,
    });
  });

  test('each chip has whole columns, of a model that is no smaller, and none beyond need', () => {
    fc.assert(
      fc.property(
        fc.constantFrom('palm-62b', 'llama-7b', 'llama-30b', 'llama-3-70b', 'qwen2-7b', 'smollm2-135m', 'opt-66b'),
        fc.integer({ min: 1, max: 300 }),
        (name, chips) => {
          const shape = requireKnownShape(name);
          const split = paddedShape(shape, chips);
          for (const size of ['hiddenSize', 'feedForwardSize', 'vocabularySize'] as const) {
            expect(split[size] % chips).toBe(0);
            expect(split[size] - shape[size]).toBeGreaterThanOrEqual(0);
            expect(split[size] - shape[size]).toBeLessThan(chips);
          }
          expect((split.heads * split.headDim) % chips).toBe(0);
          expect(split.heads).toBeGreaterThanOrEqual(shape.heads);
          expect(split.heads % split.kvHeads).toBe(0);
          // Chips have as many of the keys and values, or so many share them.
          expect(Math.min(split.kvHeads % chips, chips % split.kvHeads)).toBe(0);
          expect(split.globalWeightBytes).toBeGreaterThanOrEqual(shape.globalWeightBytes);
          // Once is enough.
          expect(paddedShape(split, chips)).toEqual(split);
        },
      ),
      { numRuns: 300 },
    );
  });
});

/** A layer of small whole numbers, with a batch, and what it makes of them. */
interface Example {
  readonly shape: ModelShape;
  readonly rows: Matrix;
  readonly mesh: AxisSizes;
}

const numbers = (rows: number, columns: number, seed: number): number[][] =>
  range(rows).map((row) => range(columns).map((column) => ((row * 31 + column * 17 + seed) % 7) - 3));

const examples: fc.Arbitrary<Example> = fc
  .record({
    mesh: fc.record({ x: fc.constantFrom(1, 2, 3), y: fc.constantFrom(1, 2), z: fc.constantFrom(1, 2, 3) }),
    width: fc.constantFrom(1, 2),
    inner: fc.constantFrom(1, 2),
    headDim: fc.constantFrom(1, 2),
    tokens: fc.constantFrom(1, 2),
    matrices: fc.constantFrom(2 as const, 3 as const),
  })
  .map(({ mesh, width, inner, headDim, tokens, matrices }) => {
    const chips = chipsAlong(mesh);
    const shape: ModelShape = {
      ...requireKnownShape('palm-540b'),
      hiddenSize: chips * width,
      feedForwardSize: chips * inner,
      feedForwardMatrices: matrices,
      heads: chips,
      kvHeads: chips,
      headDim,
    };
    return { shape, mesh, rows: numbers(chips * tokens, chips * width, 5) };
  });

/** What a chip makes of the columns that it has: gate times up. Attention passes on its queries. */
const inner = (parts: readonly Matrix[]): Matrix => {
  const [first = [], second] = parts;
  return second === undefined
    ? first.map((row) => row.map((value) => value * value))
    : first.map((row, i) => row.map((value, j) => value * (second[i]?.[j] ?? NaN)));
};

describe.each(LAYOUT_NAMES)('%s on a torus that is simulated', (layout) => {
  test.each(ATTENTION_SHARDINGS)(
    'gives the layer as one chip does, and sends what is counted, attention by %s',
    (attention) => {
      fc.assert(
        fc.property(examples, (example) => {
          const { result, sent } = simulate(example, layout, attention);
          const alone = simulate({ ...example, mesh: { x: 1, y: 1, z: 1 } }, layout, 'heads');
          expect(result).toEqual(alone.result);
          expect(alone.sent).toEqual([]);
          // The same from each chip, and that of the closed form, in numbers of two bytes.
          const expected = layerCollectives(
            example.shape,
            { mesh: example.mesh, layout, attention, weights: 'bfloat16' },
            example.rows.length,
          ).reduce((sum, each) => sum + bytesSent(each, example.mesh) / 2, 0);
          for (const each of sent) expect(each).toBeCloseTo(expected, 6);
          if (expected > 0) expect(sent.length).toBe(chipsAlong(example.mesh));
        }),
        { numRuns: 60 },
      );
    },
  );
});

/** A parallel layer, number by number. */
function simulate(
  { shape, rows, mesh }: Example,
  layout: LayoutName,
  attention: AttentionSharding,
): { readonly result: Matrix; readonly sent: readonly number[] } {
  const { gathered, width, columns }: Layout = LAYOUTS[layout];
  const { hiddenSize, feedForwardSize, feedForwardMatrices, heads, headDim } = shape;
  const queries = heads * headDim;
  const at = new SimulatedMesh(mesh);
  const stored = layout === 'ws-1d' ? columns : (['y', 'z'] as const);
  const kept = layout === 'ws-1d' ? [] : (['x'] as const);

  // Weights begin as the layout keeps them, and are gathered where it says so: columns then stand in another order, the
  // same in all matrices.
  const weight = (whole: Matrix, side: 'in' | 'out'): Matrix[] => {
    const [rowAxes, columnAxes] = side === 'in' ? [kept, stored] : [stored, kept];
    let parts = at.split(whole, rowAxes, columnAxes);
    for (const axis of gathered) {
      const alongWidth = kept.some((each) => each === axis);
      parts = at.allGather('weights', parts, [axis], (side === 'in') === alongWidth ? 'rows' : 'columns');
    }
    return parts;
  };
  const inSizes = [
    ...Array.from({ length: feedForwardMatrices - 1 }, () => feedForwardSize),
    queries,
    queries,
    queries,
  ];
  const ins = inSizes.map((size, index) => numbers(hiddenSize, size, index));
  const outs = [feedForwardSize, queries].map((size, index) => numbers(size, hiddenSize, index + 9));
  const inParts = ins.map((whole) => weight(whole, 'in'));
  const outParts = outs.map((whole) => weight(whole, 'out'));

  // The batch is split over the axes that weights come from, the width over all others.
  const rest = [...width, ...columns];
  const spread = at.split(rows, gathered, rest);
  const full = at.allGather('activations', spread, columns, 'columns');
  const scattered = inParts.map((weights) =>
    at.reduceScatter(
      'activations',
      full.map((part, chip) => multiply(part, weights[chip] ?? [])),
      width,
      'columns',
    ),
  );
  const fed = scattered.slice(0, feedForwardMatrices - 1);
  let attended = scattered[feedForwardMatrices - 1] ?? [];
  if (attention === 'batch') {
    const [q = [], k = [], v = []] = scattered
      .slice(feedForwardMatrices - 1)
      .map((each) => at.allToAll('attention', each, rest));
    // Keys and values are there with them: what comes back is the queries' own.
    expect([k.length, v.length]).toEqual([q.length, q.length]);
    attended = backToColumns(at, q, rest);
  }
  const made = [at.chips.map((_, chip) => inner(fed.map((each) => each[chip] ?? []))), attended].map((each) =>
    at.allGather('activations', each, width, 'columns'),
  );
  const partial = at.chips.map((_, chip) =>
    made
      .map((each, index) => multiply(each[chip] ?? [], outParts[index]?.[chip] ?? []))
      .reduce((sum, each) => sum.map((row, i) => row.map((value, j) => value + (each[i]?.[j] ?? NaN)))),
  );
  const scatteredOut = at.reduceScatter('activations', partial, columns, 'columns');
  // Put together: the width over `rest`, rows over `gathered`.
  const joinedWidth = new SimulatedMesh(mesh).allGather('', scatteredOut, rest, 'columns');
  const result = new SimulatedMesh(mesh).allGather('', joinedWidth, gathered, 'rows')[0] ?? [];
  const sent = at.chips.map((_, chip) => [...at.sent.values()].reduce((sum, each) => sum + (each[chip] ?? 0), 0));
  return { result, sent: sent.every((each) => each === 0) ? [] : sent };
}

/** The way back of an all-to-all: rows for columns is columns for rows of what is turned over. */
function backToColumns(at: SimulatedMesh, parts: readonly Matrix[], axes: readonly AxisName[]): Matrix[] {
  const turned = (matrix: Matrix): Matrix =>
    (matrix[0] ?? []).map((_, column) => matrix.map((row) => row[column] ?? NaN));
  return at.allToAll('attention', parts.map(turned), axes).map(turned);
}
