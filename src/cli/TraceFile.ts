import { closeSync, constants, openSync, writeSync } from 'node:fs';
import { describeFileError, JobFileError, type TraceEvent } from './library.js';

const FLUSH_CHARACTERS = 256 * 1024;
/** A FIFO is not waited for. */
const { O_WRONLY, O_CREAT, O_TRUNC, O_NONBLOCK } = constants;

/**
 * Writes trace events as the JSON array that Chrome's trace viewer and Perfetto open; both also read an array that a
 * killed process left open. Holds little, as it writes in pieces, synchronously: a trace is not for timing the
 * JavaScript thread. A failure does not end the run; `close` reports it.
 */
export class TraceFile {
  #file: number | undefined;
  #pending = '[';
  #separator = '\n';
  #failure: JobFileError | undefined;

  /**
   * @param waits the file that is there stays as it is until there is a task to tell of: a job that has nothing to do
   * keeps the trace of the run that did it
   * @throws JobFileError if the file cannot be made and begun
   */
  constructor(
    private readonly path: string,
    waits = false,
  ) {
    if (!waits) this.#open();
  }

  #open(): void {
    let file: number;
    try {
      file = openSync(this.path, O_WRONLY | O_CREAT | O_TRUNC | O_NONBLOCK, 0o666);
    } catch (error) {
      throw this.#failed(error);
    }
    this.#file = file;
    this.#flush();
    if (this.#failure === undefined) return;
    closeSync(file);
    this.#file = undefined;
    throw this.#failure;
  }

  add(event: TraceEvent): void {
    if (this.#failure !== undefined) return;
    this.#pending += `${this.#separator}${JSON.stringify(event)}`;
    this.#separator = ',\n';
    if (this.#file === undefined && event.ph === 'X') this.#begin();
    if (this.#file !== undefined && this.#pending.length > FLUSH_CHARACTERS) this.#flush();
  }

  /** @throws JobFileError, also for an earlier failure */
  close(): void {
    const file = this.#file;
    if (file !== undefined) {
      this.#pending += '\n]\n';
      this.#flush();
      closeSync(file);
      this.#file = undefined;
    }
    if (this.#failure !== undefined) throw this.#failure;
  }

  #begin(): void {
    try {
      this.#open();
    } catch (error) {
      this.#failure ??= this.#failed(error);
    }
  }

  #flush(): void {
    const file = this.#file;
    if (file === undefined) return;
    try {
      const bytes = Buffer.from(this.#pending);
      for (let at = 0; at < bytes.length;) at += writeSync(file, bytes, at);
    } catch (error) {
      this.#failure ??= this.#failed(error);
    }
    this.#pending = '';
  }

  #failed(error: unknown): JobFileError {
    return error instanceof JobFileError
      ? error
      : new JobFileError(this.path, `the trace cannot be written: ${describeFileError(error)}`, { cause: error });
  }
}
