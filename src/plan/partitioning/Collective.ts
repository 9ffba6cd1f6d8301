import type { Interconnect } from './ChipProfile.js';
import { AXES, chipsAlong, type AxisName, type AxisSizes, type Mesh } from './Mesh.js';

/** Chips of some axes that exchange parts of tensors (Pope et al., section 3.1). */
export interface Collective {
  readonly kind: 'all-gather' | 'reduce-scatter' | 'all-to-all';
  readonly axes: readonly AxisName[];
  /**
   * The bytes of a chip's larger buffer: what it has after gathering, or before scattering; of an all-to-all, in which
   * chips exchange the axis that a tensor is split over, both.
   */
  readonly bytes: number;
}

/** Bytes that each chip sends, and receives: D (K-1)/K of D bytes over K chips (appendix A.1). Pure. */
export function bytesSent({ axes, bytes }: Collective, mesh: AxisSizes): number {
  return bytes * (1 - 1 / chipsAlong(mesh, axes));
}

/** A line of chips' movement over that of a ring. */
const LINE = 0.5;

/**
 * Gives the seconds that a collective takes: its bytes over the network's bandwidth (appendix A.1, one bandwidth
 * whichever axes it goes along), and its steps. Between nodes each chip fetches its share of what is in others, and
 * then chips of a node exchange these. Pure.
 * @param efficiency share of the bandwidth that collectives reach
 */
export function collectiveSeconds(
  collective: Collective,
  mesh: Mesh,
  interconnect: Interconnect,
  efficiency: number,
): number {
  const { axes, bytes, kind } = collective;
  const all = chipsAlong(mesh, axes);
  if (all === 1 || bytes === 0) return 0;
  if (interconnect.kind === 'torus') {
    const wraps = AXES.every((axis) => mesh[axis] === 1 || mesh[axis] % interconnect.wrapsAt === 0);
    const long = axes.map((axis) => mesh[axis]).filter((chips) => chips > 1);
    const steps = long.reduce((sum, chips) => sum + (wraps ? Math.floor(chips / 2) : chips - 1), 0);
    const bandwidth = interconnect.bytesPerSecond * efficiency * (wraps ? 1 : LINE);
    return bytesSent(collective, mesh) / bandwidth + steps * interconnect.stepSeconds;
  }
  const across = mesh.nodes === undefined ? 1 : chipsAlong(mesh.nodes, axes);
  const inside = all / across;
  // Only of gathered or summed data a share is enough: what is exchanged is meant for one chip alone.
  const [fetched, shared] = kind === 'all-to-all' ? [bytes, bytes / across] : [bytes / inside, bytes];
  const { bytesPerSecond, stepSeconds, nodes } = interconnect;
  const between =
    nodes === undefined || across === 1
      ? 0
      : (fetched * (1 - 1 / across)) / (nodes.bytesPerSecond * efficiency) + rounds(across) * nodes.stepSeconds;
  return between + (shared * (1 - 1 / inside)) / (bytesPerSecond * efficiency) + rounds(inside) * stepSeconds;
}

function rounds(chips: number): number {
  return Math.ceil(Math.log2(chips));
}
