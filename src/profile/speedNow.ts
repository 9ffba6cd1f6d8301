import type { MachineFigures } from '../bindings/Profile.js';
import { loadAddon } from '../bindings/loadAddon.js';
import { SPEED_TOKENS, type MachineSpeed } from '../plan/atSpeed.js';
import type { HardwareProfile } from '../plan/HardwareProfile.js';
import { matmulFlopsPerSecond } from '../plan/model/computeSeconds.js';
import { PAGE_TOKENS } from '../plan/reserves.js';
import { measure } from './profileMachine.js';

/** Three rounds of some hundredths of a second. */
const BUDGET = 0.5;
/** A figure that is further off than this says nothing of the machine. */
const MOST = 8;
/**
 * So far a look strays from what the run after it meets: over 125 runs of `bench:policy`, errors in computing and
 * reading scatter less for leaving this out (0.12 to 0.10, 0.19 to 0.15 of a logarithm).
 */
const STRAYS = 1.1;

/** Most that is written to read it again. */
const DISK_BYTES = 64 * 2 ** 20;

/**
 * How fast this machine is now, over its profile: what a profile of yesterday says of memory, products and the disk is
 * measured again, in about half a second. Machines slow down when they are hot, and virtual ones when others need the
 * same processor or the same disk.
 *
 * @param disk folder of the disk to look at; undefined: it is not looked at
 * @throws NativeError where there is no memory for it; InterruptedError when `signal` fires
 */
export async function speedNow(
  profile: HardwareProfile,
  disk: string | undefined,
  signal?: AbortSignal,
): Promise<MachineSpeed> {
  const {
    cpu: { threads },
    links,
  } = profile;
  const looks = disk !== undefined && links.diskReadBytesPerSecond !== undefined;
  const figures = await measure(
    loadAddon(),
    {
      threads,
      coreThreads: threads,
      budget: BUDGET,
      pageTokens: PAGE_TOKENS,
      weights: ['q4'],
      otherInstructionSets: false,
      speedOnly: true,
      ...(looks && { disk: { folder: disk, bytes: DISK_BYTES } }),
    },
    signal,
    undefined,
  );
  return speedOf(figures, profile);
}

/**
 * Gives the measured speed over the profile's, where it is beyond what such a short look strays by. Pure. @internal
 * exported for tests
 */
export function speedOf(
  { figures }: MachineFigures,
  { cpu, links }: Pick<HardwareProfile, 'cpu' | 'links'>,
): MachineSpeed {
  const over = (found: number | undefined, usual: number): number =>
    beyondChance(Math.min(MOST, Math.max(1 / MOST, (found ?? usual) / usual)));
  const product = (tokens: number): number =>
    over(
      figures.find((figure) => figure.what === 'matmul' && figure.tokens === tokens)?.perSecond,
      matmulFlopsPerSecond(cpu, 'q4', tokens),
    );
  const disk = figures.find(({ what }) => what === 'disk-read')?.perSecond;
  return {
    memory: over(
      figures.find(({ what, threads }) => what === 'memory-read' && threads === cpu.threads)?.perSecond,
      cpu.memoryBytesPerSecond,
    ),
    fewRows: product(SPEED_TOKENS.fewRows),
    manyRows: product(SPEED_TOKENS.manyRows),
    ...(disk !== undefined &&
      links.diskReadBytesPerSecond !== undefined && { disk: over(disk, links.diskReadBytesPerSecond) }),
  };
}

/** A tenth more or less is none, and of more what goes beyond it. */
function beyondChance(ratio: number): number {
  return ratio > STRAYS ? ratio / STRAYS : ratio < 1 / STRAYS ? ratio * STRAYS : 1;
}
