// A cgroup that bounds the processor time of what runs in it. Versions 1 and 2; root is needed.
import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { cgroupController, removeCgroup } from './cgroup.mjs';

const PERIOD_MICROSECONDS = 100_000;

export class ProcessorCap {
  /**
   * @param processors that its processes have together, e.g. 0.45
   * @param name of the group, beside others of this process's
   * @throws Error in words where there can be none
   */
  constructor(processors, name) {
    const { version, root } = cgroupController('cpu', 'cpu.cfs_quota_us');
    const quota = Math.round(processors * PERIOD_MICROSECONDS);
    this.folder = join(root, `spillway-bench-${process.pid}-${name}`);
    mkdirSync(this.folder);
    if (version === 1) {
      writeFileSync(join(this.folder, 'cpu.cfs_period_us'), String(PERIOD_MICROSECONDS));
      writeFileSync(join(this.folder, 'cpu.cfs_quota_us'), String(quota));
    } else writeFileSync(join(this.folder, 'cpu.max'), `${quota} ${PERIOD_MICROSECONDS}`);
  }

  /** What runs a command in it. */
  around(...command) {
    return ['sh', '-c', `echo $$ > ${this.folder}/cgroup.procs && exec "$@"`, 'sh', ...command];
  }

  close() {
    removeCgroup(this.folder);
  }
}
