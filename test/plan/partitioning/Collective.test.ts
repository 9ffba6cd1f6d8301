import { describe, expect, test } from '@jest/globals';
import type { Interconnect } from '../../../src/plan/partitioning/ChipProfile.js';
import { collectiveSeconds } from '../../../src/plan/partitioning/Collective.js';
import { chipsAlong, meshesOf, type Mesh } from '../../../src/plan/partitioning/Mesh.js';

const TORUS: Interconnect = {
  kind: 'torus',
  axes: 3,
  bytesPerSecond: 1000,
  wrapsAt: 4,
  stepSeconds: 0.5,
  mostChips: 256,
};
const SWITCH: Interconnect = { kind: 'switch', bytesPerSecond: 1000, stepSeconds: 0.5, mostChips: 64 };
const NODES: Interconnect = { ...SWITCH, nodes: { chips: 4, bytesPerSecond: 100, stepSeconds: 2 } };
const gather = (axes: readonly ('x' | 'y' | 'z')[], bytes: number) => ({ kind: 'all-gather', axes, bytes }) as const;

describe('what a collective takes', () => {
  test('on a torus: D (K-1)/K over the bandwidth, and half as many steps as chips where ends are joined', () => {
    const cube = { x: 4, y: 4, z: 4 };
    expect(collectiveSeconds(gather(['x'], 4000), cube, TORUS, 1)).toBeCloseTo(3 + 2 * 0.5, 9);
    expect(collectiveSeconds(gather(['y', 'z'], 4000), cube, TORUS, 0.5)).toBeCloseTo(2 * 3.75 + 4 * 0.5, 9);
  });

  test('on a line: half of the bandwidth, and all the way to the other end', () => {
    const line = { x: 2, y: 2, z: 4 };
    expect(collectiveSeconds(gather(['z'], 4000), line, TORUS, 1)).toBeCloseTo(2 * 3 + 3 * 0.5, 9);
  });

  test('on a switch: as many rounds as doublings', () => {
    expect(collectiveSeconds(gather(['x'], 8000), { x: 8, y: 1, z: 1 }, SWITCH, 1)).toBeCloseTo(7 + 3 * 0.5, 9);
    expect(collectiveSeconds(gather(['y'], 8000), { x: 8, y: 1, z: 1 }, SWITCH, 1)).toBe(0);
  });

  test('over nodes: each chip fetches its share from the others, then the chips of a node exchange it', () => {
    const mesh: Mesh = { x: 8, y: 1, z: 1, nodes: { x: 2, y: 1, z: 1 } };
    // 8000 bytes: of the half that is elsewhere a quarter each over the slow link, then three quarters of all inside.
    expect(collectiveSeconds(gather(['x'], 8000), mesh, NODES, 1)).toBeCloseTo(1000 / 100 + 2 + 6000 / 1000 + 1, 9);
    // What is exchanged is meant for one chip: half of it goes over the slow link.
    expect(collectiveSeconds({ kind: 'all-to-all', axes: ['x'], bytes: 8000 }, mesh, NODES, 1)).toBeCloseTo(
      4000 / 100 + 2 + 3000 / 1000 + 1,
      9,
    );
    expect(
      collectiveSeconds(gather(['x'], 8000), { ...mesh, x: 4, nodes: { x: 1, y: 1, z: 1 } }, NODES, 1),
    ).toBeCloseTo(6 + 1, 9);
  });
});

describe('meshes', () => {
  test('of a torus are the slices that it comes in', () => {
    const shapes = (chips: number): string[] => [
      ...new Set(meshesOf(TORUS, chips).map(({ x, y, z }) => [x, y, z].sort((a, b) => a - b).join('x'))),
    ];
    expect([1, 2, 8, 16, 64, 128, 256].flatMap(shapes)).toEqual([
      '1x1x1',
      '1x1x2',
      '2x2x2',
      '2x2x4',
      '4x4x4',
      '4x4x8',
      '4x8x8',
    ]);
    expect(shapes(5)).toEqual([]);
    expect(shapes(512)).toEqual([]);
    // Each axis may be any of x, y and z.
    expect(meshesOf(TORUS, 16)).toHaveLength(3);
    expect(meshesOf({ ...TORUS, axes: 2 }, 16)).toHaveLength(3);
    expect(meshesOf({ ...TORUS, axes: 1 }, 16)).toHaveLength(3);
  });

  test('of a switch are all ways to divide it; of nodes whole ones', () => {
    expect(meshesOf(SWITCH, 6)).toHaveLength(9);
    for (const mesh of meshesOf(NODES, 16)) {
      expect(chipsAlong(mesh)).toBe(16);
      expect(mesh.nodes && chipsAlong(mesh.nodes)).toBe(4);
    }
    expect(meshesOf(NODES, 4).every(({ nodes }) => nodes === undefined)).toBe(true);
    expect(meshesOf(NODES, 6)).toEqual([]);
    expect(meshesOf(SWITCH, 128)).toEqual([]);
  });
});
