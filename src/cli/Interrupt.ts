import { InterruptedError } from './library.js';

/** 128 and the signal's number, as shells report it. */
const EXIT_CODES = { SIGHUP: 129, SIGINT: 130, SIGTERM: 143 } as const;
type Signal = keyof typeof EXIT_CODES;
/** Timers take 31 bits of milliseconds; one that is longer is set again. */
const LONGEST_TIMER = 2 ** 31 - 1;

/**
 * Turns the first SIGINT, SIGTERM or SIGHUP (its terminal is closed) into an abort, so that a command can end in order,
 * and say what becomes of its work; the second one ends the process at once: what is written by then stays, and what is
 * finished and not written is computed again.
 */
export class Interrupt {
  readonly #controller = new AbortController();
  #exitCode: number = EXIT_CODES.SIGINT;
  readonly #handlers: readonly (readonly [Signal, () => void])[];
  readonly #timers = new Set<NodeJS.Timeout>();

  /** @param say writes a line for people @param atOnce called before the process ends at once */
  constructor(
    private readonly say: (text: string) => void,
    atOnce: () => void = () => undefined,
  ) {
    this.#handlers = (Object.keys(EXIT_CODES) as Signal[]).map((signal) => [
      signal,
      (): void => {
        this.#exitCode = EXIT_CODES[signal];
        if (this.signal.aborted) {
          atOnce();
          process.exit(this.#exitCode);
        }
        say('stopping (again to stop at once)');
        this.#controller.abort(signal);
      },
    ]);
    this.#listen();
  }

  get signal(): AbortSignal {
    return this.#controller.signal;
  }

  /** The exit code of an interrupted run. */
  get exitCode(): number {
    return this.#exitCode;
  }

  /** Ends the command as the first SIGTERM does. @param why what ends it, for people */
  endAfter(milliseconds: number, why: string): void {
    const timer = setTimeout(
      () => {
        this.#timers.delete(timer);
        if (milliseconds > LONGEST_TIMER) this.endAfter(milliseconds - LONGEST_TIMER, why);
        else if (!this.signal.aborted) {
          this.#exitCode = EXIT_CODES.SIGTERM;
          this.say(`stopping: ${why}`);
          this.#controller.abort(why);
        }
      },
      Math.min(milliseconds, LONGEST_TIMER),
    );
    timer.unref();
    this.#timers.add(timer);
  }

  /**
   * Does work that keeps the event loop for seconds and has nothing to end in order: meanwhile a signal ends the
   * process as it does one that does not listen.
   * @throws InterruptedError where one came before
   */
  async endingAtOnce<T>(work: () => T | Promise<T>): Promise<T> {
    if (this.signal.aborted) throw new InterruptedError(this.signal.reason);
    this.#deafen();
    try {
      return await work();
    } finally {
      this.#listen();
    }
  }

  dispose(): void {
    for (const timer of this.#timers) clearTimeout(timer);
    this.#deafen();
  }

  #listen(): void {
    for (const [signal, handler] of this.#handlers) process.on(signal, handler);
  }

  #deafen(): void {
    for (const [signal, handler] of this.#handlers) process.off(signal, handler);
  }
}
