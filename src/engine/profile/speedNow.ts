import type { MachineFigures } from '../../bindings/Addon.js';
import { loadAddon } from '../../bindings/loadAddon.js';
import { SPEED_TOKENS, type MachineSpeed } from '../policy/atSpeed.js';
import type { HardwareProfile } from '../policy/HardwareProfile.js';
import { matmulFlopsPerSecond } from '../policy/spillway/computeSeconds.js';
import { PAGE_TOKENS } from '../reserves.js';
import { measure } from './profileMachine.js';

/** Three rounds of some hundredths of a second. */
const BUDGET = 0.5;
/** What is further off than this says nothing of the machine. */
const MOST = 8;

/**
 * How fast this machine is now, over its profile: what a profile of yesterday says of memory and products is measured again, in about half a second. Machines
 * slow down when they are hot, and virtual ones when others need the same processor.
 *
 * @throws NativeError where there is no memory for it; InterruptedError when `signal` fires
 */
export async function speedNow(profile: HardwareProfile, signal?: AbortSignal): Promise<MachineSpeed> {
  const { threads } = profile.cpu;
  const figures = await measure(loadAddon(), { threads, budget: BUDGET, pageTokens: PAGE_TOKENS, otherInstructionSets: false, speedOnly: true }, signal, undefined);
  return speedOf(figures, profile);
}

/** What was measured over what the profile says. Pure. @internal exported for tests */
export function speedOf({ figures }: MachineFigures, { cpu }: Pick<HardwareProfile, 'cpu'>): MachineSpeed {
  const over = (found: number | undefined, usual: number): number => Math.min(MOST, Math.max(1 / MOST, (found ?? usual) / usual));
  const product = (tokens: number): number =>
    over(figures.find((figure) => figure.what === 'matmul' && figure.tokens === tokens)?.perSecond, matmulFlopsPerSecond(cpu, 'q4', tokens));
  return {
    memory: over(figures.find(({ what, threads }) => what === 'memory-read' && threads === cpu.threads)?.perSecond, cpu.memoryBytesPerSecond),
    fewRows: product(SPEED_TOKENS.fewRows),
    manyRows: product(SPEED_TOKENS.manyRows),
  };
}
