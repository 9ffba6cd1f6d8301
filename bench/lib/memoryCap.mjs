// A memory cgroup for one run: its limit, and what the kernel counted. Versions 1 and 2; root is needed.
import { existsSync, mkdirSync, readFileSync, rmdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';

const V1 = '/sys/fs/cgroup/memory';
const V2 = '/sys/fs/cgroup';
/** Tenths of a second. */
const CLOSING_TRIES = 100;

/**
 * @returns the folder that groups are made in, and the version; throws an Error in words where there is none that this
 * process may use
 */
function controller() {
  if (process.getuid?.() !== 0)
    throw new Error(
      'a memory cap needs root (found user ' +
        String(process.getuid?.() ?? 'of another system') +
        '): run this with sudo',
    );
  if (existsSync(join(V1, 'memory.limit_in_bytes'))) return { version: 1, root: V1 };
  const controllers = join(V2, 'cgroup.controllers');
  if (existsSync(controllers) && readFileSync(controllers, 'utf8').split(/\s+/).includes('memory')) {
    // Groups below the root have the controller only if the root hands it on.
    try {
      writeFileSync(join(V2, 'cgroup.subtree_control'), '+memory');
    } catch (error) {
      throw new Error(`the memory controller cannot be handed on in ${V2}: ${error.message}`, { cause: error });
    }
    return { version: 2, root: V2 };
  }
  throw new Error(`found no memory controller in ${V1} or ${V2}, expected cgroup version 1 or 2 (Linux)`);
}

/** A group with a limit; `undefined` bytes: no limit, counting only. */
export class MemoryCap {
  /** @throws Error in words where there can be none */
  constructor(bytes) {
    const { version, root } = controller();
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
    for (let tries = 0; ; tries++) {
      try {
        rmdirSync(this.folder);
        return;
      } catch (error) {
        // A killed process is in its group until the kernel has put its memory away.
        if (error.code !== 'EBUSY' || tries === CLOSING_TRIES) throw error;
        Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 100);
      }
    }
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
