import { UsageError } from '../errors/UsageError.js';
import { formatBytes } from '../units.js';
import type { HardwareProfile } from './HardwareProfile.js';

/** What tells one machine from another. */
export interface MachineIdentity {
  readonly processorName: string;
  readonly processors: number;
  readonly memoryBytes: number;
  /** Of the GPU that is to compute; undefined: none is. */
  readonly gpuName?: string | undefined;
}

/**
 * Refuses a profile that was measured on another machine than this one: for whoever is about to run by it, not for
 * plans of machines elsewhere.
 * @throws UsageError saying what differs
 */
export function checkSameMachine({ name, machine }: HardwareProfile, here: MachineIdentity): void {
  const refuse = (what: string, found: string, expected: string): never => {
    throw new UsageError(
      `hardware profile ${JSON.stringify(name)} is of another machine: its ${what} is ${found}, this machine's ${expected}; measure again with profile`,
    );
  };
  if (machine.processorName === undefined) refuse('processor', 'not stated', here.processorName);
  else if (machine.processorName !== here.processorName) refuse('processor', machine.processorName, here.processorName);
  if (machine.processors !== undefined && machine.processors !== here.processors)
    refuse('number of processors', String(machine.processors), String(here.processors));
  const { memoryBytes } = machine;
  if (here.gpuName !== undefined && machine.gpuName !== undefined && machine.gpuName !== here.gpuName)
    refuse('GPU', machine.gpuName, here.gpuName);
  // A cgroup or a kernel may take a little of the memory from one boot to the next.
  if (memoryBytes !== undefined && Math.abs(memoryBytes - here.memoryBytes) > 0.1 * here.memoryBytes)
    refuse('memory', formatBytes(memoryBytes), formatBytes(here.memoryBytes));
}
