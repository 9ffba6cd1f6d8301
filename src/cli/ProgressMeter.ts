import { Presets, SingleBar } from 'cli-progress';
import { Log, log } from './Log.js';
import { visible } from './table.js';

export type ProgressMode = 'auto' | 'on' | 'off';

/** A bar's width, in letters; what room its words leave it is between these. */
const BAR = { least: 10, most: 40 };

/** Without a terminal, a line is written this often, if progress was asked for; and if it was not. */
const LINE_SECONDS = { on: 5, auto: 30 };

/** How far a piece of long work is. */
export interface ProgressState {
  readonly done: number;
  /** Undefined while nobody knows. */
  readonly total?: number | undefined;
  /** The other things there are to say, e.g. `0:12 left, 130 tokens/s`; a narrow terminal shows their beginning. */
  readonly words: string;
}

/**
 * Shows how far long work is: a bar on a terminal; without one, or beside lines of a log, a line every few seconds if
 * asked for, and else every thirty, of what takes so long. One piece of work after another: each `show` with another
 * label begins a new bar. It never takes more than one line.
 */
export class ProgressMeter {
  /** There is one terminal, and one bar on it at a time. */
  static #shown: ProgressMeter | undefined;

  /** Takes the bar off the terminal, for words that are to stay there; the next `show` draws it anew, below them. */
  static clear(): void {
    ProgressMeter.#shown?.stop();
  }

  #label: string | undefined;
  #bar: SingleBar | undefined;
  #lastLine: number | undefined;
  readonly #log: Log;

  constructor(
    private readonly mode: ProgressMode,
    private readonly stream: NodeJS.WritableStream & { readonly isTTY?: boolean; readonly columns?: number },
    /** Seconds; for tests. */
    private readonly now: () => number = () => performance.now() / 1000,
  ) {
    this.#log = stream === process.stderr ? log : new Log(stream);
  }

  show(name: string, given: ProgressState): void {
    if (this.mode === 'off') return;
    // Names of models and files among them.
    const label = visible(name);
    const state = { ...given, words: visible(given.words) };
    if (label !== this.#label) this.#begin(label, state);
    if (this.#bar !== undefined) {
      this.#bar.update(state.done, { words: state.words });
    } else if (this.now() - (this.#lastLine ??= this.now()) >= LINE_SECONDS[this.mode]) {
      this.#lastLine = this.now();
      const count = state.total === undefined ? String(state.done) : `${state.done}/${state.total}`;
      const { done, total } = given;
      this.#log.say(`${label}: ${count}, ${state.words}`, 'info', { progress: { of: name, done, total } });
    }
  }

  /** Takes the bar off the terminal. */
  stop(): void {
    this.#bar?.stop();
    this.#bar = undefined;
    this.#label = undefined;
    if (ProgressMeter.#shown === this) ProgressMeter.#shown = undefined;
  }

  #begin(label: string, state: ProgressState): void {
    this.stop();
    this.#label = label;
    if (this.mode === 'on') this.#lastLine = -Infinity;
    if (this.stream.isTTY !== true || this.#log.format !== undefined) return;
    ProgressMeter.clear();
    ProgressMeter.#shown = this;
    this.#bar = new SingleBar(
      {
        format: (_, { value, total }, payload: Pick<ProgressState, 'words'>) =>
          barLine(
            label,
            { done: value, total: state.total === undefined ? undefined : total, words: payload.words },
            this.stream.columns,
          ),
        // The bar is cleared at the end, as a summary follows. Nothing is drawn between: whoever steps in between draws
        // the bar off first.
        stream: this.stream,
        clearOnComplete: true,
        hideCursor: true,
        fps: 10,
        gracefulExit: false,
      },
      Presets.shades_classic,
    );
    this.#bar.start(state.total ?? 0, state.done, { words: state.words });
  }
}

/** The columns of a terminal that does not say how many it has, or says 0. */
const USUAL_COLUMNS = 80;

/**
 * A line of progress that fits: the bar takes what room there is, words that do not fit are cut. @param columns of the
 * terminal
 */
export function barLine(label: string, { done, total, words }: ProgressState, columns = 0): string {
  // The last column stays free: some terminals begin a new line when it is written.
  const room = (columns || USUAL_COLUMNS) - 1;
  const count = total === undefined ? String(done) : `${done}/${total}`;
  const free = room - label.length - count.length - ' '.length * 2 - ' | '.length - words.length;
  const width = Math.min(BAR.most, free);
  // Of nothing, nothing is done.
  const filled = total === undefined || total === 0 ? 0 : Math.round((Math.min(done, total) / total) * width);
  const bar = total === undefined || width < BAR.least ? ' ' : ` ${'█'.repeat(filled)}${'░'.repeat(width - filled)} `;
  const line = `${label}${bar}${count} | ${words}`;
  return line.length <= room ? line : `${line.slice(0, Math.max(0, room - 1))}…`;
}

/** `1:05`, `2:03:09` */
export function formatDuration(seconds: number): string {
  const whole = Math.max(0, Math.round(seconds));
  const [hours, minutes, rest] = [
    Math.floor(whole / 3600),
    Math.floor((whole % 3600) / 60),
    String(whole % 60).padStart(2, '0'),
  ];
  return hours > 0 ? `${hours}:${String(minutes).padStart(2, '0')}:${rest}` : `${minutes}:${rest}`;
}

/** Shows how work gets on, on stderr, as long as it takes. */
export async function withMeter<Result>(work: (meter: ProgressMeter) => Promise<Result>): Promise<Result> {
  const meter = new ProgressMeter('auto', process.stderr);
  try {
    return await work(meter);
  } finally {
    meter.stop();
  }
}
