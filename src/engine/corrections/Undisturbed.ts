import { readdirSync, readFileSync } from 'node:fs';

/** Where others took this share of the machine, a run counts half. */
const HALF = 0.15;

/** Where the figures come from; replaced in tests. */
export interface ProcFiles {
  read(path: string): string;
  list(path: string): readonly string[];
  /** Seconds. */
  now(): number;
}

const PROC: ProcFiles = { read: (path) => readFileSync(path, 'utf8'), list: (path) => readdirSync(path), now: () => performance.now() / 1000 };

/**
 * How much of the machine a stretch of time had for itself: by what Linux tells of this process's threads that were ready and waited for a processor
 * (schedstat), and of processor time that a virtual machine's owner took away (stat).
 */
export class Undisturbed {
  private readonly before: { readonly waited: number; readonly stolen: number; readonly ticks: number; readonly at: number };

  /** @param threads that compute: so many may be ready at once */
  constructor(private readonly threads: number, private readonly proc: ProcFiles = PROC) {
    this.before = this.look();
  }

  /** From 1, nobody else was there, to 0. 1 where the system does not tell. */
  share(): number {
    const { before, threads } = this;
    const after = this.look();
    const wall = after.at - before.at;
    if (!(wall > 0)) return 1;
    // JavaScript's thread and those that compute wait for each other now and then, which is in it: some hundredths.
    const waited = Math.max(0, after.waited - before.waited) / (wall * threads);
    const ticks = after.ticks - before.ticks;
    const stolen = ticks > 0 ? Math.max(0, after.stolen - before.stolen) / ticks : 0;
    return 1 / (1 + ((waited + stolen) / HALF) ** 2);
  }

  /** Seconds that threads waited, ticks that were stolen and all there were; 0 for what the system does not tell. */
  private look(): { waited: number; stolen: number; ticks: number; at: number } {
    const numbers = (path: string, skip: number): number[] => {
      try {
        return (this.proc.read(path).split('\n')[0] ?? '').trim().split(/\s+/).slice(skip).map(Number);
      } catch {
        return [];
      }
    };
    let threads: readonly string[] = [];
    try {
      threads = this.proc.list('/proc/self/task');
    } catch {
      // Another system.
    }
    const waited = threads.reduce((sum, thread) => sum + (numbers(`/proc/self/task/${thread}/schedstat`, 0)[1] ?? 0) / 1e9, 0);
    const ticks = numbers('/proc/stat', 1).slice(0, 8);
    return { waited, stolen: ticks[7] ?? 0, ticks: ticks.reduce((sum, each) => sum + each, 0), at: this.proc.now() };
  }
}
