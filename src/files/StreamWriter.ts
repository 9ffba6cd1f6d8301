import type { Writable } from 'node:stream';
import { finished } from 'node:stream/promises';
import { InterruptedError } from '../errors/InterruptedError.js';
import { JobFileError } from '../errors/JobFileError.js';
import { fileFailure } from './fileErrors.js';

/** Where lines go, in the order of the calls. */
export interface RowSink {
  /**
   * Resolves when the sink takes more; what it holds until then is bounded.
   * @param line with its LF; or, where what is written has no lines, a piece of it
   * @throws JobFileError, also for an earlier line
   */
  write(line: string | Uint8Array): Promise<void>;
  /** Waits until everything is written. @throws JobFileError */
  close(): Promise<void>;
}

/** How long an interrupted writer waits for its reader to take what is written. */
const LAST_WAIT_MILLISECONDS = 100;

export interface StreamWriterOptions {
  /** Close the stream with the writer. Default false. */
  readonly end?: boolean;
  /** Ends the wait for the reader. */
  readonly signal?: AbortSignal | undefined;
}

/** Writes lines to a stream (standard output, a pipe, a device) at its reader's pace. */
export class StreamWriter implements RowSink {
  #failure: JobFileError | undefined;
  /** Ends the wait for the reader, if `write` is waiting. */
  #wake: (() => void) | undefined;
  readonly #onReady = (): void => this.#wake?.();
  readonly #end: boolean;
  readonly #signal: AbortSignal | undefined;
  readonly #onError = (error: unknown): void => {
    this.#failure ??= fileFailure(this.name, 'written', error);
    this.#wake?.();
  };

  /**
   * @param name what errors call the stream
   */
  constructor(
    private readonly stream: Writable,
    private readonly name: string,
    { end = false, signal }: StreamWriterOptions = {},
  ) {
    this.#end = end;
    this.#signal = signal;
    stream.on('error', this.#onError);
    stream.on('drain', this.#onReady);
    stream.on('close', this.#onReady);
  }

  async write(line: string | Uint8Array): Promise<void> {
    this.#check();
    if (!this.#send(line)) {
      const ready = new Promise<void>((resolve) => {
        this.#wake = resolve;
      });
      await this.#inTime(ready);
      this.#wake = undefined;
    }
    this.#check();
  }

  async close(): Promise<void> {
    this.#check();
    const taken = this.#end ? this.#ended() : this.#taken();
    await this.#inTime(taken);
    if (!this.#end) this.#check();
    if (this.#failure !== undefined) throw this.#failure;
    this.stream.off('error', this.#onError);
    this.stream.off('drain', this.#onReady);
    this.stream.off('close', this.#onReady);
  }

  async #ended(): Promise<void> {
    this.stream.end();
    await finished(this.stream).catch(this.#onError);
  }

  async #taken(): Promise<void> {
    // The callback of an empty write comes after everything before it, and an 'error' event right after a failed
    // callback.
    await new Promise<void>((resolve) => {
      this.#send('', resolve);
    });
    await new Promise<void>((resolve) => {
      setImmediate(resolve);
    });
  }

  /** Waits for the reader, but once the signal has fired, no longer for one that sleeps. @throws InterruptedError */
  async #inTime(taken: Promise<void>): Promise<void> {
    const signal = this.#signal;
    if (signal === undefined) return taken;
    let timer: NodeJS.Timeout | undefined;
    let onAbort = (): void => undefined;
    const late = new Promise<never>((_, reject) => {
      const giveUp = (): void => {
        if (this.#end) this.stream.destroy();
        reject(new InterruptedError(signal.reason));
      };
      onAbort = (): void => void (timer = setTimeout(giveUp, LAST_WAIT_MILLISECONDS));
    });
    if (signal.aborted) onAbort();
    else signal.addEventListener('abort', onAbort, { once: true });
    try {
      await Promise.race([taken, late]);
    } finally {
      clearTimeout(timer);
      signal.removeEventListener('abort', onAbort);
    }
  }

  /**
   * Sends a line, and tells whether the stream takes more. A stream that throws instead of failing as streams do has
   * failed, too: its callbacks will not come.
   */
  #send(line: string | Uint8Array, done?: () => void): boolean {
    try {
      // Without a callback where none is needed: a stream keeps each one until its next turn, and rows may come without
      // one in between.
      return done === undefined ? this.stream.write(line) : this.stream.write(line, () => done());
    } catch (error) {
      this.#onError(error);
      done?.();
      return true;
    }
  }

  #check(): void {
    // A stream that fails is destroyed at once, and says why a little later.
    if (this.stream.errored) this.#onError(this.stream.errored);
    if (this.#failure !== undefined) throw this.#failure;
    if (this.stream.destroyed) throw new JobFileError(this.name, 'cannot be written: the stream was closed');
  }
}
