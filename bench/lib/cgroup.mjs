// What groups of any controller have in common. Versions 1 and 2; root is needed.
import { existsSync, readFileSync, rmdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';

const ROOT = '/sys/fs/cgroup';
/** Tenths of a second. */
const CLOSING_TRIES = 100;

/**
 * @param name of the controller, `sign`: a file of its first version, and `secondName`: what it is in the second one
 * @returns the folder that groups are made in, and the version; throws an Error in words where there is none that this
 * process may use
 */
export function cgroupController(name, sign, secondName = name) {
  if (process.getuid?.() !== 0) {
    const user = String(process.getuid?.() ?? 'of another system');
    throw new Error(`a ${name} cap needs root (found user ${user}): run this with sudo`);
  }
  const first = join(ROOT, name);
  if (existsSync(join(first, sign))) return { version: 1, root: first };
  const controllers = join(ROOT, 'cgroup.controllers');
  if (existsSync(controllers) && readFileSync(controllers, 'utf8').split(/\s+/).includes(secondName)) {
    // Groups below the root have the controller only if the root hands it on.
    try {
      writeFileSync(join(ROOT, 'cgroup.subtree_control'), `+${secondName}`);
    } catch (error) {
      throw new Error(`the ${name} controller cannot be handed on in ${ROOT}: ${error.message}`, { cause: error });
    }
    return { version: 2, root: ROOT };
  }
  throw new Error(`found no ${name} controller in ${first} or ${ROOT}, expected cgroup version 1 or 2 (Linux)`);
}

/** Waits for what has ended in it: a process is in its group until the kernel has put it and its memory away. */
export function removeCgroup(folder) {
  for (let tries = 0; ; tries++) {
    try {
      rmdirSync(folder);
      return;
    } catch (error) {
      if (error.code !== 'EBUSY' || tries === CLOSING_TRIES) throw error;
      Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 100);
    }
  }
}
