import { readdirSync, readFileSync } from 'node:fs';

/** Where others took this share of the machine, a run counts half. */
const HALF = 0.15;

/** Where the figures come from; replaced in tests. */
export interface MachineClocks {
  read(path: string): string;
  list(path: string): readonly string[];
  /** Seconds. */
  now(): number;
  /** Processor seconds of this process, all threads together. */
  used(): number;
}

const CLOCKS: MachineClocks = {
  read: (path) => readFileSync(path, 'utf8'),
  list: (path) => readdirSync(path),
  now: () => performance.now() / 1000,
  used: () => {
    const { user, system } = process.cpuUsage();
    return (user + system) / 1e6;
  },
};
/** Ticks of /proc/stat a second. */
const TICKS = 100;

/**
 * How much of the machine a stretch of time had for itself, by what Linux tells. Others disturb only where both are
 * seen: processors that were busy with something else (stat), which in a container may be those of the whole machine,
 * and threads of this process that were ready and waited for a processor (schedstat), which may have waited for each
 * other. Time that a virtual machine's owner took away disturbs in any case. After three runs beside a busy neighbour
 * the next three predictions were off by +3, -9 and +7% with it, by -9, -15 and -8% where those counted in full.
 */
export class CpuContention {
  private readonly before: Look;

  /** @param threads that compute: so many may be ready at once */
  constructor(
    private readonly threads: number,
    private readonly clocks: MachineClocks = CLOCKS,
  ) {
    this.before = this.look();
  }

  /** From 1, nobody else was there, to 0. 1 where the system does not tell. */
  undisturbed(): number {
    const { before, threads } = this;
    const after = this.look();
    const wall = after.at - before.at;
    const ticks = after.ticks - before.ticks;
    if (!(wall > 0) || !(ticks > 0)) return 1;
    const waited = (after.waited - before.waited) / (wall * threads);
    const stolen = Math.max(0, after.stolen - before.stolen) / ticks;
    const others = (after.busy - before.busy - (after.used - before.used) * TICKS) / ticks;
    return 1 / (1 + ((Math.max(0, Math.min(waited, others)) + stolen) / HALF) ** 2);
  }

  private look(): Look {
    const { clocks } = this;
    const numbers = (path: string, skip: number): number[] => {
      try {
        return (clocks.read(path).split('\n')[0] ?? '').trim().split(/\s+/).slice(skip).map(Number);
      } catch {
        return [];
      }
    };
    let threads: readonly string[] = [];
    try {
      threads = clocks.list('/proc/self/task');
    } catch {
      // Another system.
    }
    const waited = threads.reduce(
      (sum, thread) => sum + (numbers(`/proc/self/task/${thread}/schedstat`, 0)[1] ?? 0) / 1e9,
      0,
    );
    // user nice system idle iowait irq softirq steal; what guests took is in the first.
    const fields = numbers('/proc/stat', 1).slice(0, 8);
    const ticks = fields.reduce((sum, each) => sum + each, 0);
    const [idle, waiting, stolen] = [fields[3] ?? 0, fields[4] ?? 0, fields[7] ?? 0];
    return { waited, stolen, busy: ticks - idle - waiting - stolen, ticks, used: clocks.used(), at: clocks.now() };
  }
}

/**
 * Seconds that threads waited and that they ran; ticks of all processors that were busy, stolen, and all. 0 for what
 * the system does not tell.
 */
interface Look {
  readonly waited: number;
  readonly used: number;
  readonly busy: number;
  readonly stolen: number;
  readonly ticks: number;
  readonly at: number;
}
