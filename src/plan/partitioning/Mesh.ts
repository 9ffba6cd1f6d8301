import type { Interconnect } from './ChipProfile.js';

export const AXES = ['x', 'y', 'z'] as const;
/** X, Y and Z of the paper: what tensors are split over. */
export type AxisName = (typeof AXES)[number];

/** Chips along the three axes that tensors are split over. */
export type AxisSizes = Readonly<Record<AxisName, number>>;

/** Chips as a model sees them: x · y · z of them. */
export interface Mesh extends AxisSizes {
  /** The number of nodes that each axis spans, of an interconnect with nodes. */
  readonly nodes?: AxisSizes;
}

/** Chips of some axes of a mesh. */
export function chipsAlong(sizes: AxisSizes, axes: readonly AxisName[] = AXES): number {
  return axes.reduce((product, axis) => product * sizes[axis], 1);
}

/** The longest axis of a torus over the shortest: TPU v4 comes as 2x2x4, 4x4x4, 4x4x8 and the like. */
const LONGEST = 2;

/** All meshes of so many chips on an interconnect, none where there is no such slice of it. Pure. */
export function meshesOf(interconnect: Interconnect, chips: number): Mesh[] {
  if (chips > interconnect.mostChips) return [];
  if (interconnect.kind === 'torus')
    return factors(chips).filter(
      (sizes) =>
        AXES.filter((axis) => sizes[axis] > 1).length <= interconnect.axes &&
        isSlice(
          Object.values(sizes)
            .sort((a, b) => b - a)
            .slice(0, interconnect.axes),
        ),
    );
  const { nodes } = interconnect;
  if (nodes === undefined || chips <= nodes.chips) return factors(chips);
  if (chips % nodes.chips !== 0) return [];
  return factors(nodes.chips).flatMap((inside) =>
    factors(chips / nodes.chips).map((across) => ({
      x: inside.x * across.x,
      y: inside.y * across.y,
      z: inside.z * across.z,
      nodes: across,
    })),
  );
}

/**
 * Numbers of chips worth a try on an interconnect, rising: doublings of one chip, what divides a node (of a torus: a
 * stretch whose ends are joined), doublings of it, and as many as there are. Pure.
 */
export function chipCounts(interconnect: Interconnect): number[] {
  const { kind, mostChips } = interconnect;
  const unit = kind === 'torus' ? interconnect.wrapsAt : (interconnect.nodes?.chips ?? 1);
  const along = rising([
    ...doublings(1, mostChips),
    ...doublings(unit, mostChips),
    ...Array.from({ length: Math.min(unit, mostChips) }, (_, at) => at + 1).filter((chips) => unit % chips === 0),
  ]);
  let slices: readonly (readonly number[])[] = [[]];
  for (let axis = 0; axis < (kind === 'torus' ? interconnect.axes : 1); axis++)
    slices = slices.flatMap((slice) =>
      along
        .filter((chips) => chips >= (slice.at(-1) ?? 1) && product(slice) * chips <= mostChips)
        .map((chips) => [...slice, chips])
        .filter(isSlice),
    );
  return rising([...slices.map(product), mostChips, mostChips - (mostChips % unit)]).filter(
    (chips) => chips > 0 && meshesOf(interconnect, chips).length > 0,
  );
}

function doublings(from: number, most: number): number[] {
  return from > most ? [] : [from, ...doublings(2 * from, most)];
}

function rising(numbers: readonly number[]): number[] {
  return [...new Set(numbers)].sort((a, b) => a - b);
}

function product(sizes: readonly number[]): number {
  return sizes.reduce((all, size) => all * size, 1);
}

function isSlice(sizes: readonly number[]): boolean {
  return Math.max(...sizes) <= LONGEST * Math.min(...sizes);
}

/** All ways to write a number as a product of three. */
function factors(chips: number): AxisSizes[] {
  const found: AxisSizes[] = [];
  for (let x = 1; x <= chips; x++) {
    if (chips % x !== 0) continue;
    for (let y = 1; y <= chips / x; y++) if ((chips / x) % y === 0) found.push({ x, y, z: chips / x / y });
  }
  return found;
}
