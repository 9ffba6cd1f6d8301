// A cgroup that bounds the processor time of what runs in it. Versions 1 and 2; root is needed.
import { existsSync, mkdirSync, rmdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';

const V1 = '/sys/fs/cgroup/cpu';
const V2 = '/sys/fs/cgroup';
const PERIOD_MICROSECONDS = 100_000;
/** Tenths of a second. */
const CLOSING_TRIES = 100;

export class ProcessorCap {
  /**
   * @param processors that its processes have together, e.g. 0.45
   * @param name of the group, beside others of this process's
   */
  constructor(processors, name) {
    const old = existsSync(join(V1, 'cpu.cfs_quota_us'));
    const quota = Math.round(processors * PERIOD_MICROSECONDS);
    this.folder = join(old ? V1 : V2, `spillway-bench-${process.pid}-${name}`);
    if (!old) writeFileSync(join(V2, 'cgroup.subtree_control'), '+cpu');
    mkdirSync(this.folder);
    if (old) {
      writeFileSync(join(this.folder, 'cpu.cfs_period_us'), String(PERIOD_MICROSECONDS));
      writeFileSync(join(this.folder, 'cpu.cfs_quota_us'), String(quota));
    } else writeFileSync(join(this.folder, 'cpu.max'), `${quota} ${PERIOD_MICROSECONDS}`);
  }

  /** What runs a command in it. */
  around(...command) {
    return ['sh', '-c', `echo $$ > ${this.folder}/cgroup.procs && exec "$@"`, 'sh', ...command];
  }

  close() {
    for (let tries = 0; ; tries++)
      try {
        rmdirSync(this.folder);
        return;
      } catch (error) {
        // A process that has ended is in its group until the kernel has put it away.
        if (error.code !== 'EBUSY' || tries === CLOSING_TRIES) throw error;
        Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 100);
      }
  }
}
