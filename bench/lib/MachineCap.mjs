// A small machine for what runs in it: a cgroup that bounds processors, memory and the disk. Versions 1 and 2; root is
// needed.
import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { cgroupController, removeCgroup } from './cgroup.mjs';
import { deviceBelow } from './disk.mjs';

const PERIOD_MICROSECONDS = 100_000;

/** What bounds each: the controller, a file of its first version, and what is written where. */
const BOUNDS = {
  processors: {
    controller: 'cpu',
    sign: 'cpu.cfs_quota_us',
    files: (processors, version) => {
      const quota = Math.round(processors * PERIOD_MICROSECONDS);
      return version === 1
        ? { 'cpu.cfs_period_us': PERIOD_MICROSECONDS, 'cpu.cfs_quota_us': quota }
        : { 'cpu.max': `${quota} ${PERIOD_MICROSECONDS}` };
    },
  },
  memoryBytes: {
    controller: 'memory',
    sign: 'memory.limit_in_bytes',
    files: (bytes, version) => ({ [version === 1 ? 'memory.limit_in_bytes' : 'memory.max']: bytes }),
  },
  disk: {
    controller: 'blkio',
    second: 'io',
    sign: 'blkio.throttle.read_bps_device',
    files: ({ folder, bytesPerSecond }, version) => {
      const { major, minor } = deviceBelow(folder);
      const device = `${major}:${minor}`;
      return version === 1
        ? { 'blkio.throttle.read_bps_device': `${device} ${bytesPerSecond}` }
        : { 'io.max': `${device} rbps=${bytesPerSecond}` };
    },
  },
};

export class MachineCap {
  /**
   * @param bounds those that are given hold: `processors` that its processes have together, e.g. 0.45; `memoryBytes`;
   * `disk`: `{ folder, bytesPerSecond }` that they read from the disk below the folder
   * @param name of the group, beside others of this process's
   * @throws Error in words where there can be none
   */
  constructor(bounds, name) {
    this.folders = new Set();
    try {
      for (const [bound, value] of Object.entries(bounds)) {
        if (value === undefined) continue;
        const { controller, second = controller, sign, files } = BOUNDS[bound];
        const { version, root } = cgroupController(controller, sign, second);
        // Of the second version there is one tree, and a process is in one group.
        const folder = join(root, `spillway-bench-${process.pid}-${name}`);
        mkdirSync(folder, { recursive: true });
        this.folders.add(folder);
        for (const [file, content] of Object.entries(files(value, version)))
          writeFileSync(join(folder, file), String(content));
      }
    } catch (error) {
      this.close();
      throw error;
    }
  }

  /** What runs a command in it. */
  around(...command) {
    const joined = [...this.folders].map((folder) => `echo $$ > ${folder}/cgroup.procs`);
    return ['sh', '-c', [...joined, 'exec "$@"'].join(' && '), 'sh', ...command];
  }

  close() {
    for (const folder of this.folders) removeCgroup(folder);
    this.folders.clear();
  }
}
