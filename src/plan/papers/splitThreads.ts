import { checkWhole } from '../../arguments/checks.js';
import { kahnLevels, type Dependencies } from './kahnLevels.js';

/** The work that computes and moves in one layer of one sweep. */
export interface ThreadedWork {
  /** The operations of the compute task. */
  readonly graph: Dependencies;
  /** Seconds of one operation with so many threads, others beside it. */
  readonly operationSeconds: (operation: string, threads: number) => number;
  /** Tasks that load and store, by name: their bytes, and the bytes that one thread moves in a second. */
  readonly transfers: Readonly<Record<string, { readonly bytes: number; readonly bytesPerSecond: number }>>;
}

export interface ThreadSplit {
  /** Operations at once, and threads of each. */
  readonly interOp: number;
  readonly intraOp: number;
  /** Threads of each transfer. */
  readonly transfers: Readonly<Record<string, number>>;
  readonly seconds: number;
}

/**
 * How threads are divided between computing and moving data (LM-Offload, algorithm 3): for every number of threads an
 * operation may have, the widest level of the compute graph says how many operations run at once; what is left goes to
 * the transfers by their bytes, at least one each; the split whose slowest part is fastest wins. Where there are fewer
 * threads than transfers and one (the paper's bound), transfers share the ones that are left, one after another.
 *
 * @returns all splits looked at, the best first
 * @throws UsageError for fewer than one thread
 */
export function splitThreads(threads: number, { graph, operationSeconds, transfers }: ThreadedWork): ThreadSplit[] {
  checkWhole('threads', threads, 1);
  const levels = kahnLevels(graph);
  const widest = Math.max(1, ...levels.map((level) => level.length));
  const moving = Object.entries(transfers).filter(([, { bytes }]) => bytes > 0);
  const splits: ThreadSplit[] = [];
  for (let interOp = 1; interOp <= Math.min(widest, threads); interOp++) {
    for (let intraOp = 1; interOp * intraOp <= threads; intraOp++) {
      const left = threads - interOp * intraOp;
      // Somebody has to move what moves; with a single thread in all it is the one that computes.
      if (moving.length > 0 && left === 0 && threads > 1) continue;
      const computing = levels.reduce(
        (sum, level) =>
          sum +
          levelSeconds(
            level.map((name) => operationSeconds(name, intraOp)),
            interOp,
          ),
        0,
      );
      const given = shareOut(
        left,
        moving.map(([name, { bytes }]) => [name, bytes]),
      );
      const each = moving.map(
        ([name, { bytes, bytesPerSecond }]) => bytes / (bytesPerSecond * Math.max(1, given[name] ?? 1)),
      );
      const oneByOne = left < moving.length;
      const loads = oneByOne ? each.reduce((sum, s) => sum + s, 0) / Math.max(1, left) : Math.max(0, ...each);
      const seconds = left === 0 ? computing + loads : Math.max(computing, loads);
      splits.push({ interOp, intraOp, transfers: given, seconds });
    }
  }
  return splits.sort((a, b) => a.seconds - b.seconds || a.interOp * a.intraOp - b.interOp * b.intraOp);
}

/** Operations of one level on so many workers, longest first. */
function levelSeconds(operations: readonly number[], workers: number): number {
  const busy = new Array<number>(workers).fill(0);
  for (const seconds of [...operations].sort((a, b) => b - a)) {
    const least = busy.indexOf(Math.min(...busy));
    busy[least] = (busy[least] ?? 0) + seconds;
  }
  return Math.max(...busy);
}

/** Threads by bytes, at least one each where there are as many. */
function shareOut(threads: number, parts: readonly (readonly [string, number])[]): Record<string, number> {
  const given = Object.fromEntries(parts.map(([name]) => [name, 0]));
  for (let i = 0; i < threads && parts.length > 0; i++) {
    // The next thread goes to whoever has most bytes a thread so far.
    const [name] = parts.reduce((most, each) =>
      each[1] / (given[each[0]] ?? 0) > most[1] / (given[most[0]] ?? 0) ? each : most,
    );
    given[name] = (given[name] ?? 0) + 1;
  }
  return given;
}
