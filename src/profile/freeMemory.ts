import type { MachineFacts } from '../bindings/Addon.js';
import { freeDisk } from '../engine/open/diskFolder.js';
import type { HardwareProfile } from '../plan/HardwareProfile.js';

/** The rest is left to everybody else. */
const SHARE = 0.9;

/**
 * Says what a run may use now. @param disk folder of stores and spill files; undefined: no disk. @param gpuBytes as
 * much of a GPU as it may use, whoever else does
 */
export async function freeMemory(
  { availableBytes }: Pick<MachineFacts, 'availableBytes'>,
  disk: string | undefined,
  gpuBytes = 0,
): Promise<HardwareProfile['memory']> {
  return {
    gpuBytes,
    cpuBytes: Math.max(1, Math.floor(availableBytes * SHARE)),
    diskBytes: disk === undefined ? 0 : await freeDisk(disk),
  };
}
