import { Presets, SingleBar } from 'cli-progress';

export type ProgressMode = 'auto' | 'on' | 'off';

/** Without a terminal, a line is written this often. */
const LINE_SECONDS = 5;

/** How far a piece of long work is. */
export interface ProgressState {
  readonly done: number;
  /** Undefined while nobody knows. */
  readonly total?: number | undefined;
  /** What else there is to say, e.g. `130 tokens/s, 0:12 left`. */
  readonly words: string;
}

/**
 * Shows how far long work is: a bar on a terminal; without one, a line every few seconds if asked for, and else nothing at all.
 * One piece of work after another: each `show` with another label begins a new bar.
 */
export class ProgressMeter {
  #label: string | undefined;
  #bar: SingleBar | undefined;
  #lastLine = -Infinity;

  constructor(
    private readonly mode: ProgressMode,
    private readonly stream: NodeJS.WritableStream & { readonly isTTY?: boolean },
    /** Seconds; for tests. */
    private readonly now: () => number = () => performance.now() / 1000,
  ) {}

  show(label: string, state: ProgressState): void {
    if (this.mode === 'off' || (this.mode === 'auto' && this.stream.isTTY !== true)) return;
    if (label !== this.#label) this.#begin(label, state);
    if (this.#bar !== undefined) {
      this.#bar.update(state.done, { words: state.words });
    } else if (this.now() - this.#lastLine >= LINE_SECONDS) {
      this.#lastLine = this.now();
      const count = state.total === undefined ? String(state.done) : `${state.done}/${state.total}`;
      this.stream.write(`${label}: ${count}, ${state.words}\n`);
    }
  }

  /** Takes the bar off the terminal. */
  stop(): void {
    this.#bar?.stop();
    this.#bar = undefined;
    this.#label = undefined;
  }

  #begin(label: string, state: ProgressState): void {
    this.stop();
    this.#label = label;
    this.#lastLine = -Infinity;
    if (this.stream.isTTY !== true) return;
    const format = state.total === undefined ? `${label} {value} | {words}` : `${label} {bar} {value}/{total} | {words}`;
    this.#bar = new SingleBar(
      // emptyOnZero: of nothing, nothing is done. The bar is cleared at the end, as a summary follows.
      { format, stream: this.stream, clearOnComplete: true, hideCursor: true, emptyOnZero: true, fps: 10 },
      Presets.shades_classic,
    );
    this.#bar.start(state.total ?? 0, state.done, { words: state.words });
  }
}

/** `1:05`, `2:03:09` */
export function formatDuration(seconds: number): string {
  const whole = Math.max(0, Math.round(seconds));
  const [hours, minutes, rest] = [Math.floor(whole / 3600), Math.floor((whole % 3600) / 60), String(whole % 60).padStart(2, '0')];
  return hours > 0 ? `${hours}:${String(minutes).padStart(2, '0')}:${rest}` : `${minutes}:${rest}`;
}
