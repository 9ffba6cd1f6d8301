import { statfs } from 'node:fs/promises';
import { dirname } from 'node:path';
import type { MachineFacts } from '../../bindings/Addon.js';
import type { HardwareProfile } from '../policy/HardwareProfile.js';

/** Left to everybody else: of memory, and of the disk. */
const SHARE = 0.9;

/** What is there for a run to use now. @param disk folder of stores and spill files; undefined: no disk. @param gpuBytes as much of a GPU as it may use, whoever else does */
export async function freeMemory({ availableBytes }: Pick<MachineFacts, 'availableBytes'>, disk: string | undefined, gpuBytes = 0): Promise<HardwareProfile['memory']> {
  return { gpuBytes, cpuBytes: Math.max(1, Math.floor(availableBytes * SHARE)), diskBytes: disk === undefined ? 0 : await freeDisk(disk) };
}

async function freeDisk(folder: string): Promise<number> {
  for (let path = folder; ; path = dirname(path)) {
    try {
      const { bavail, bsize } = await statfs(path);
      return Math.floor(bavail * bsize * SHARE);
    } catch {
      // A folder that is not there yet will be where its parent is.
      if (dirname(path) === path) return 0;
    }
  }
}
