import { readFileSync } from 'node:fs';

/** Others may have this share of the processors while they are measured, and figures may vary so. */
const MOST = { others: 0.15, stolen: 0.05, waiting: 0.2, spread: 0.5 };
/** Ticks of /proc/stat, a second. */
const TICKS = 100;

/** Where the figures come from; replaced in tests. */
export interface BusyClocks {
  read(path: string): string;
  /** Seconds. */
  now(): number;
  /** Processor seconds of this process, all threads together, those that have ended among them. */
  used(): number;
}

const CLOCKS: BusyClocks = {
  read: (path) => readFileSync(path, 'utf8'),
  now: () => performance.now() / 1000,
  used: () => {
    const { user, system } = process.cpuUsage();
    return (user + system) / 1e6;
  },
};

/**
 * Tells whether a machine was busy with something else while it was measured, by what Linux tells: processors that
 * others had (/proc/stat), while somebody waited for one (pressure; in a container the processors may be those of the
 * whole machine), and time that a virtual machine's owner took away.
 */
export class Disturbance {
  readonly #before: Look;

  constructor(private readonly clocks: BusyClocks = CLOCKS) {
    this.#before = this.#look();
  }

  /**
   * Says in words what has disturbed the measuring since; undefined: nothing that is known of.
   * @param spread of what was measured, by its name: half the interquartile range over the median
   */
  words(spread: Readonly<Record<string, number>>): string | undefined {
    const [before, after] = [this.#before, this.#look()];
    const wall = after.at - before.at;
    const ticks = after.ticks - before.ticks;
    const words: string[] = [];
    if (wall > 0 && ticks > 0) {
      const stolen = (after.stolen - before.stolen) / ticks;
      const others = (after.busy - before.busy - (after.used - before.used) * TICKS) / ticks;
      const waiting =
        after.waited === undefined || before.waited === undefined ? 1 : (after.waited - before.waited) / wall;
      if (others > MOST.others && waiting > MOST.waiting)
        words.push(`other programs had ${percent(others)} of the processors`);
      if (stolen > MOST.stolen) words.push(`the owner of this virtual machine took ${percent(stolen)} of them away`);
    }
    const most = Math.max(0, ...Object.values(spread));
    const wide = Object.values(spread).filter((each) => each > MOST.spread).length;
    if (wide > 0)
      words.push(
        `${wide} of ${Object.keys(spread).length} figures vary by more than ±${percent(MOST.spread)}, up to ±${percent(most)}`,
      );
    return words.length === 0 ? undefined : words.join(', and ');
  }

  #look(): Look {
    const { clocks } = this;
    const read = (path: string): string => {
      try {
        return clocks.read(path);
      } catch {
        // Another system, or an older kernel.
        return '';
      }
    };
    // user nice system idle iowait irq softirq steal; what guests took is in the first.
    const fields = (read('/proc/stat').split('\n')[0] ?? '').trim().split(/\s+/).slice(1, 9).map(Number);
    const ticks = fields.reduce((sum, each) => sum + each, 0);
    const [idle, disk, stolen] = [fields[3] ?? 0, fields[4] ?? 0, fields[7] ?? 0];
    const micros = /^some .*total=(\d+)/m.exec(read('/proc/pressure/cpu'))?.[1];
    return {
      stolen,
      ticks,
      busy: ticks - idle - disk - stolen,
      waited: micros === undefined ? undefined : Number(micros) / 1e6,
      used: clocks.used(),
      at: clocks.now(),
    };
  }
}

function percent(share: number): string {
  return `${Math.round(100 * share)}%`;
}

/** Ticks of all processors that were busy, stolen, and all; seconds in which somebody waited for one. */
interface Look {
  readonly busy: number;
  readonly stolen: number;
  readonly ticks: number;
  readonly waited: number | undefined;
  readonly used: number;
  readonly at: number;
}

/** Gives the warning for using a profile that was measured on a busy machine. */
export function disturbedWords(disturbed: string): string {
  return `this machine was busy when it was measured (${disturbed}): predictions may be far off; \`spillway profile\` measures it again while nothing else runs`;
}
