import type { Writable } from 'node:stream';
import { finished } from 'node:stream/promises';
import { JobFileError } from '../errors/JobFileError.js';
import { fileFailure } from './fileErrors.js';
import type { RowSink } from './RowSink.js';

/** Writes lines to a stream (standard output, a pipe, a device) at its reader's pace. */
export class StreamWriter implements RowSink {
  #failure: JobFileError | undefined;
  /** Ends the wait for the reader, if `write` is waiting. */
  #wake: (() => void) | undefined;
  readonly #onReady = (): void => this.#wake?.();
  readonly #onError = (error: unknown): void => {
    this.#failure ??= fileFailure(this.name, 'written', error);
    this.#wake?.();
  };

  /**
   * @param name what errors call the stream
   * @param end close the stream with the writer; default false
   */
  constructor(
    private readonly stream: Writable,
    private readonly name: string,
    private readonly end = false,
  ) {
    stream.on('error', this.#onError);
    stream.on('drain', this.#onReady);
    stream.on('close', this.#onReady);
  }

  async write(line: string): Promise<void> {
    this.#check();
    if (!this.#send(line)) {
      await new Promise<void>((resolve) => {
        this.#wake = resolve;
      });
      this.#wake = undefined;
    }
    this.#check();
  }

  async close(): Promise<void> {
    this.#check();
    if (this.end) {
      this.stream.end();
      await finished(this.stream).catch(this.#onError);
    } else {
      // The callback of an empty write comes after everything before it, and an 'error' event right after a failed callback.
      await new Promise<void>((resolve) => {
        this.#send('', resolve);
      });
      await new Promise<void>((resolve) => {
        setImmediate(resolve);
      });
      this.#check();
    }
    if (this.#failure !== undefined) throw this.#failure;
    this.stream.off('error', this.#onError);
    this.stream.off('drain', this.#onReady);
    this.stream.off('close', this.#onReady);
  }

  /** Whether the stream takes more. One that throws instead of failing as streams do has failed, too: its callbacks will not come. */
  #send(line: string, done?: () => void): boolean {
    try {
      // Without a callback where none is needed: a stream keeps each one until its next turn, and rows may come without one in between.
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
