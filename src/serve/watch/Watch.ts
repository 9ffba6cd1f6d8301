import type { EngineActivity } from '../../RunStats.js';
import { FailedRowLog } from './FailedRowLog.js';
import type { FailedRow, WatchedStretch, WatchEvent, WatchSample, WatchSource, WatchState } from './WatchSource.js';

const SAMPLE_SECONDS = 1;
/** Five minutes. */
const KEPT_SAMPLES = 300;

/** Somebody who waits for the next look. */
interface Watcher {
  wake: () => void;
}

/**
 * Looks at what runs once a second, and keeps what it saw for five minutes. Watchers pull: who is slow misses seconds,
 * and holds nothing.
 */
export class Watch {
  readonly #samples: WatchSample[] = [];
  readonly #failed = new FailedRowLog();
  readonly #begun = performance.now();
  #timer: NodeJS.Timeout | undefined;
  #engines: ReadonlyMap<string, EngineActivity> = new Map();
  #stretches: readonly WatchedStretch[] = [];
  #state: WatchState = 'running';
  #reason: string | undefined;
  /** How often it has looked. */
  #looks = 0;
  readonly #watchers = new Set<Watcher>();

  constructor(private readonly source: WatchSource) {}

  /** Begins to look. */
  begin(): void {
    this.sample();
    this.#timer = setInterval(() => this.sample(), SAMPLE_SECONDS * 1000);
    this.#timer.unref();
  }

  get watchers(): number {
    return this.#watchers.size;
  }

  /** The last of what was seen. */
  get latest(): WatchSample | undefined {
    return this.#samples.at(-1);
  }

  get state(): WatchState {
    return this.#state;
  }

  rowFailed(row: FailedRow): void {
    this.#failed.add(row);
  }

  /** It is over: all who watch are told, and told nothing more. */
  end(state: Exclude<WatchState, 'running'>, reason?: string): void {
    if (this.#state !== 'running') return;
    clearInterval(this.#timer);
    this.#state = state;
    this.#reason = reason;
    this.sample();
  }

  /** All that is kept, and from then on what each second brings, until it is over. */
  async *events(signal: AbortSignal): AsyncGenerator<WatchEvent, void, undefined> {
    const watcher: Watcher = { wake: () => undefined };
    const wake = (): void => watcher.wake();
    signal.addEventListener('abort', wake);
    this.#watchers.add(watcher);
    let [version, looks, seen, about] = [-1, 0, -Infinity, ''];
    try {
      while (!signal.aborted) {
        const [state, failed] = [this.#state, this.#failed.version];
        const { title } = this.source;
        const now = { title, facts: this.source.facts(), plan: this.source.plan() };
        const text = JSON.stringify(now);
        const event: WatchEvent = {
          state,
          ...(this.#reason !== undefined && { reason: this.#reason }),
          samples: this.#samples.filter(({ at }) => at > seen),
          stretches: this.#stretches,
          ...(failed !== version && { failed: this.#failed.read() }),
          // A model may have been opened since.
          ...(text !== about && { about: now }),
        };
        [version, looks, seen, about] = [failed, this.#looks, this.latest?.at ?? seen, text];
        yield event;
        if (state !== 'running') return;
        while (this.#looks === looks && !signal.aborted) await new Promise<void>((resolve) => (watcher.wake = resolve));
      }
    } finally {
      signal.removeEventListener('abort', wake);
      this.#watchers.delete(watcher);
    }
  }

  /** Takes a look now. */
  sample(): void {
    const { source } = this;
    const [rows, tokens, engines] = [source.rows(), source.tokens(), source.engines()];
    const seconds = (performance.now() - this.#begun) / 1000;
    // The last look may come right after the one before.
    const before = this.#samples.findLast((sample) => seconds - sample.seconds > SAMPLE_SECONDS / 2);
    const span = Math.max(1e-3, seconds - (before?.seconds ?? 0));
    const since = (now: number, then: number | undefined): number => Math.max(0, (now - (then ?? 0)) / span);
    const left = secondsLeft(rows, seconds);
    this.#samples.push({
      at: Math.max(Date.now(), (this.latest?.at ?? 0) + 1),
      seconds,
      rows,
      tokens,
      rates: {
        rows: since(rows.done + rows.failed, before && before.rows.done + before.rows.failed),
        prompt: since(tokens.prompt, before?.tokens.prompt),
        generated: since(tokens.generated, before?.tokens.generated),
      },
      ...(left !== undefined && this.#state === 'running' && { left }),
      queues: this.#queues(engines),
      memory: eachOf(engines, ({ memory }) => memory).map(([name, { usedBytes, capacityBytes }]) => ({
        name,
        used: usedBytes,
        capacity: capacityBytes,
      })),
      residentBytes: process.memoryUsage.rss(),
    });
    if (this.#samples.length > KEPT_SAMPLES) this.#samples.shift();
    this.#stretches = this.#newStretches(engines);
    this.#engines = engines;
    this.#looks++;
    for (const watcher of this.#watchers) watcher.wake();
  }

  #queues(engines: ReadonlyMap<string, EngineActivity>): WatchSample['queues'] {
    return [...engines].flatMap(([model, { at, queues }]) => {
      const before = this.#engines.get(model);
      const span = Math.max(1e-3, at - (before?.at ?? at - SAMPLE_SECONDS));
      return Object.entries(queues).map(([queue, { busySeconds, bytes }]) => ({
        name: nameOf(engines, model, queue),
        busy: Math.min(1, Math.max(0, (busySeconds - (before?.queues[queue]?.busySeconds ?? 0)) / span)),
        bytes: Math.max(0, (bytes - (before?.queues[queue]?.bytes ?? 0)) / span),
      }));
    });
  }

  /** Gives the stretches ended since the last sample. */
  #newStretches(engines: ReadonlyMap<string, EngineActivity>): WatchedStretch[] {
    return [...engines].flatMap(([model, { at, stretches }]) => {
      const from = this.#engines.get(model)?.at ?? -Infinity;
      return stretches
        .filter(({ end }) => end > from)
        .map(({ queue, name, start, end, tasks }): WatchedStretch => {
          const before = (time: number): number => Math.round((at - time) * 1e4) / 10;
          return [nameOf(engines, model, queue), name, before(start), before(end), tasks];
        });
    });
  }
}

/** Lists the values of all engines, by names that tell them apart. */
function eachOf<Value>(
  engines: ReadonlyMap<string, EngineActivity>,
  of: (activity: EngineActivity) => Readonly<Record<string, Value>>,
): [string, Value][] {
  return [...engines].flatMap(([model, activity]) =>
    Object.entries(of(activity)).map(([name, value]): [string, Value] => [nameOf(engines, model, name), value]),
  );
}

function nameOf(engines: ReadonlyMap<string, unknown>, model: string, name: string): string {
  return engines.size > 1 ? `${model} ${name}` : name;
}

/** Rows that are under way are half done on average. */
function secondsLeft(
  { done, failed, active = 0, total, kept = 0 }: WatchSample['rows'],
  seconds: number,
): number | undefined {
  if (total === undefined || done + failed === 0) return undefined;
  const finished = done + failed + active / 2;
  return (seconds / finished) * Math.max(0, total - kept - finished);
}
