// A memory cgroup for one run: its limit, and what the kernel counted. Versions 1 and 2; root is needed.
import { mkdirSync, readFileSync, rmdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { cgroupController, removeCgroup } from './cgroup.mjs';

/** A group with a limit; `undefined` bytes: no limit, counting only. */
export class MemoryCap {
  /** @throws Error in words where there can be none */
  constructor(bytes) {
    const { version, root } = cgroupController('memory', 'memory.limit_in_bytes');
    this.version = version;
    this.folder = join(root, `spillway-bench-${process.pid}`);
    mkdirSync(this.folder, { recursive: true });
    if (bytes === undefined) return;
    try {
      this.write(version === 1 ? 'memory.limit_in_bytes' : 'memory.max', String(bytes));
    } catch (error) {
      rmdirSync(this.folder);
      throw error;
    }
    // Without swap, so that what does not fit is seen and not hidden.
    this.write(
      version === 1 ? 'memory.memsw.limit_in_bytes' : 'memory.swap.max',
      version === 1 ? String(bytes) : '0',
      true,
    );
  }

  /**
   * Peak bytes charged to the group (page cache included) and processes that the kernel killed for memory; the peak is
   * undefined on kernels before 5.19 with version 2.
   */
  figures() {
    const events = this.read(this.version === 1 ? 'memory.oom_control' : 'memory.events');
    const peak = this.read(this.version === 1 ? 'memory.max_usage_in_bytes' : 'memory.peak');
    return {
      peakBytes: peak === '' ? undefined : Number(peak),
      oomKills: Number(/^oom_kill (\d+)$/m.exec(events)?.[1] ?? 0),
    };
  }

  close() {
    if (this.version === 1) this.write('memory.force_empty', '0', true);
    removeCgroup(this.folder);
  }

  read(name) {
    try {
      return readFileSync(join(this.folder, name), 'utf8').trim();
    } catch {
      return '';
    }
  }

  /** `optional`: kernels without this file (no swap accounting, say) do without. */
  write(name, value, optional = false) {
    try {
      writeFileSync(join(this.folder, name), value);
    } catch (error) {
      if (!optional) throw new Error(`${join(this.folder, name)}: ${error.message}`, { cause: error });
    }
  }
}
