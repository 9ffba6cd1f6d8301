import { readFile, stat } from 'node:fs/promises';

/** Who is repacking a model. */
export interface StoreHolder {
  /** The file that it makes. */
  readonly path: string;
  /**
   * Undefined where it cannot be seen from here: in another container, on another machine, or on a system without
   * /proc.
   */
  readonly pid: number | undefined;
}

/** Who has the lock of a file, by the system's list of locks (Linux). */
export async function lockHolder(file: string): Promise<number | undefined> {
  try {
    const { ino } = await stat(file, { bigint: true });
    // "1: FLOCK  ADVISORY  WRITE 4711 fe:00:131085 0 EOF"; lines with -> wait.
    const line = new RegExp(`^\\d+: FLOCK +ADVISORY +WRITE +(\\d+) +[0-9a-f]+:[0-9a-f]+:${ino} `, 'm');
    const held = line.exec(await readFile('/proc/locks', 'utf8'));
    return held ? Number(held[1]) : undefined;
  } catch {
    return undefined;
  }
}
