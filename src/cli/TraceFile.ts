import { closeSync, constants, openSync, writeSync } from 'node:fs';
import { describeFileError, JobFileError, type TraceEvent } from './library.js';

const FLUSH_CHARACTERS = 256 * 1024;
/** A FIFO is not waited for. */
const { O_WRONLY, O_CREAT, O_TRUNC, O_NONBLOCK } = constants;

/**
 * Writes trace events as the JSON array that Chrome's trace viewer and Perfetto open; both also read an array that a killed process
 * left open. Holds little, as it writes in pieces, synchronously: a trace is not for timing the JavaScript thread. A failure
 * does not end the run; `close` reports it.
 */
export class TraceFile {
  readonly #file: number;
  #pending = '[';
  #separator = '\n';
  #failure: JobFileError | undefined;

  /** @throws JobFileError if the file cannot be made and begun */
  constructor(private readonly path: string) {
    try {
      this.#file = openSync(path, O_WRONLY | O_CREAT | O_TRUNC | O_NONBLOCK, 0o666);
    } catch (error) {
      throw this.#failed(error);
    }
    this.#flush();
    if (this.#failure === undefined) return;
    closeSync(this.#file);
    throw this.#failure;
  }

  add(event: TraceEvent): void {
    if (this.#failure !== undefined) return;
    this.#pending += `${this.#separator}${JSON.stringify(event)}`;
    this.#separator = ',\n';
    if (this.#pending.length > FLUSH_CHARACTERS) this.#flush();
  }

  /** @throws JobFileError, also for an earlier failure */
  close(): void {
    this.#pending += '\n]\n';
    this.#flush();
    closeSync(this.#file);
    if (this.#failure !== undefined) throw this.#failure;
  }

  #flush(): void {
    try {
      const bytes = Buffer.from(this.#pending);
      for (let at = 0; at < bytes.length; ) at += writeSync(this.#file, bytes, at);
    } catch (error) {
      this.#failure ??= this.#failed(error);
    }
    this.#pending = '';
  }

  #failed(error: unknown): JobFileError {
    return new JobFileError(this.path, `the trace cannot be written: ${describeFileError(error)}`, { cause: error });
  }
}
