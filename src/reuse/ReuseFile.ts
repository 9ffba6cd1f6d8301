import { open as openFile, realpath, stat } from 'node:fs/promises';
import { dirname } from 'node:path';
import { checkMembers, type Check } from '../arguments/checkMembers.js';
import { checkFunction, checkSignal, checkText, checkWhole } from '../arguments/checks.js';
import { found } from '../arguments/found.js';
import { InterruptedError } from '../errors/InterruptedError.js';
import { SpillwayError } from '../errors/SpillwayError.js';
import { UsageError } from '../errors/UsageError.js';
import { describeFileError, fileErrorCode } from '../files/fileErrors.js';
import type { KeptAnswer } from '../KeptAnswer.js';
import { Generations, PATIENCE_MILLISECONDS, Warnings } from './Generations.js';
import { HEADER_BYTES } from './header.js';
import { answerBytes, answerOf } from './answer.js';
import type { FileOpener } from './openGeneration.js';
import { encodeRecord, KEY_BYTES, payloadOf } from './record.js';
import { WaitingRecords } from './WaitingRecords.js';

const DEFAULT_MAX_BYTES = 2 ** 30;
const LEAST_MAX_BYTES = 2 ** 20;
/** When so much waits, or something so many seconds, it is written. */
const FLUSH_BYTES = 2 ** 20;
const FLUSH_SECONDS = 1;
/** More does not wait: if the disk does not keep up, answers are not kept. */
const MOST_WAITING_BYTES = 8 * 2 ** 20;
/** A lookup that finds nothing looks at most so often whether other processes have written. */
const LOOK_SECONDS = 1;
/** Errors that say that the path is wrong; anything else is a store that cannot be used for now. */
const PATH_ERRORS = ['ENOENT', 'ENOTDIR', 'ELOOP', 'ENAMETOOLONG', 'EEXIST', 'ENXIO'];

export interface ReuseOptions {
  /** Bytes that FILE and FILE.old may take together, at least 1 MiB (1048576). Default 1 GiB. */
  readonly maxBytes?: number;
  /**
   * Hears, once each, that the store cannot be written or read, or that a part of it is damaged or of another version.
   * What it throws is ignored.
   */
  readonly onWarning?: (message: string) => void;
  /** Ends opening: the file is read then, a second for some 100,000 answers. */
  readonly signal?: AbortSignal;
}

const OPTION_CHECKS: Readonly<Record<keyof ReuseOptions, Check>> = {
  maxBytes: (name, value) => checkWhole(name, value, LEAST_MAX_BYTES),
  onWarning: checkFunction,
  signal: checkSignal,
};

/**
 * Answers that last: a file of them, each under the SHA-256 of everything that determines it. Any number of processes
 * may use it at once, each sees what the others had written when it opened the file, and what they wrote since about a
 * second later. A process that is killed loses what it put in the last second.
 *
 * It keeps what is used: when FILE holds half of `maxBytes` it becomes FILE.old, in place of the one before, and FILE
 * is begun anew; what is found in FILE.old is put into FILE again. FILE.lock is there while that happens. (Processes
 * that write in the same moment may exceed the bound by what they write.)
 *
 * An answer that was not written whole, or that the disk has changed, is not found. A file of another version is left
 * as it is: an earlier or a later Spillway may want it again, so nothing is kept, and nothing found there. (Answers of
 * other tasks, kernels, models and options lie side by side in one file, each under its own key.) Who can write the
 * file can put wrong answers there: it is to be trusted like the model.
 */
export class ReuseFile implements AsyncDisposable {
  readonly #waiting = new WaitingRecords(MOST_WAITING_BYTES);
  /** Work on the files, one after another. It never rejects. */
  #work: Promise<void> = Promise.resolve();
  #writes = true;
  #flushes = false;
  #timer: NodeJS.Timeout | undefined;
  #lastLook = performance.now();
  #closed: Promise<void> | undefined;

  private constructor(
    private readonly path: string,
    /** How large each of the files may be. */
    private readonly mostBytes: number,
    private readonly generations: Generations,
    private readonly warnings: Warnings,
  ) {}

  /**
   * Opens a store, or makes one. Where the disk does not let us make, write or read it, or it is that of another
   * version, that is a warning, and the store goes on without.
   * @param path FILE; of a link what it leads to
   * @param opener how files are opened: tests open some that fail
   * @throws UsageError for options out of range, for a path where no file can be, and where FILE or FILE.old is neither
   * empty nor a file of this kind: it is left as it is;
   *   InterruptedError
   */
  static async open(path: string, options: ReuseOptions = {}, opener: FileOpener = openFile): Promise<ReuseFile> {
    checkText('path', path);
    checkMembers('options', options, OPTION_CHECKS);
    const place = await placeOf(path);
    const warnings = new Warnings(options.onWarning);
    const file = new ReuseFile(
      place,
      Math.floor((options.maxBytes ?? DEFAULT_MAX_BYTES) / 2),
      new Generations(place, opener, warnings),
      warnings,
    );
    await file.#begin(options.signal);
    return file;
  }

  /**
   * Gives the answer that was put under a key, by whomever; undefined if nothing was. Never rejects because of the
   * disk.
   * @param key SHA-256 of everything that determines the answer: 32 bytes, or 64 hexadecimal digits
   * @throws UsageError for anything else
   */
  async get(key: Buffer | string): Promise<KeptAnswer | undefined> {
    const bytes = keyBytes(key);
    if (this.#closed) return undefined;
    return (await this.#find(bytes)) ?? ((await this.#look()) ? this.#find(bytes) : undefined);
  }

  /**
   * Keeps an answer, unless there is one under the key. It is written within about a second, or by `close`; the system
   * writes it to the disk when it likes. An answer that takes more than half of `maxBytes`, or 64 MiB, is not kept, nor
   * are those for which the disk is too slow: at most 8 MiB wait.
   * @param key see `get`
   * @throws UsageError for a key that is none; never because of the disk
   */
  put(key: Buffer | string, answer: KeptAnswer): void {
    const bytes = keyBytes(key);
    if (
      !this.#takes() ||
      this.#waiting.get(bytes) !== undefined ||
      this.generations.current?.index.get(bytes) !== undefined
    )
      return;
    const payload = answerBytes(answer);
    const record = payload && encodeRecord(bytes, payload);
    if (record !== undefined) this.#keep(bytes, record);
  }

  /**
   * Writes what waits, to the disk itself (fsync), and closes the files. Never rejects. What is put after it is not
   * kept, and nothing is found any more.
   */
  async close(): Promise<void> {
    return (this.#closed ??= this.#end());
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.close();
  }

  #takes(): boolean {
    return this.#writes && this.#closed === undefined;
  }

  async #begin(signal: AbortSignal | undefined): Promise<void> {
    const { generations } = this;
    const steps = [
      () => generations.open(),
      () => generations.refresh(signal),
      // Where nothing will be written nothing is made, not even a lock.
      async () => {
        if (this.#writes) await generations.make(true, signal);
      },
    ];
    for (const step of steps) {
      try {
        await step();
      } catch (error) {
        const refusal = refusalOf(this.path, error);
        if (refusal === undefined) this.#stopWriting(error);
        else {
          await generations.close();
          throw refusal;
        }
      }
    }
    if (generations.current?.writable === false) this.#stopWriting(new Error('the system allows reading alone'));
  }

  async #find(key: Buffer): Promise<KeptAnswer | undefined> {
    const waiting = this.#waiting.get(key);
    if (waiting !== undefined) return answerOf(payloadOf(waiting));
    for (const generation of this.generations.all) {
      try {
        const kept = await generation.read(key);
        if (kept.kind === 'damaged')
          this.warnings.say(
            'damage',
            `${this.path}: found an answer that is not as it was written; it is computed again`,
          );
        if (kept.kind !== 'answer') continue;
        // A copy: the record lies in a larger buffer.
        if (generation !== this.generations.current && this.#takes()) this.#keep(key, Buffer.from(kept.record));
        return kept.answer;
      } catch (error) {
        // EBADF: it was closed meanwhile, as its place was taken.
        if (fileErrorCode(error) !== 'EBADF') this.#noteReadError(error);
      }
    }
    return undefined;
  }

  /** Tells whether there may be something new. */
  async #look(): Promise<boolean> {
    const now = performance.now();
    if (now - this.#lastLook < LOOK_SECONDS * 1000) return false;
    this.#lastLook = now;
    await this.#inTurn(async () => {
      try {
        if (!this.#closed) await this.generations.refresh();
      } catch (error) {
        this.#noteReadError(error);
      }
    });
    return true;
  }

  #keep(key: Buffer, record: Buffer): void {
    if (HEADER_BYTES + record.length > this.mostBytes) return;
    if (!this.#waiting.add(key, record)) {
      this.warnings.say('late', `${this.path}: answers come faster than they can be written; some are not kept`);
    }
    if (this.#flushes) return;
    if (this.#waiting.bytes >= FLUSH_BYTES) this.#startFlush();
    else this.#timer ??= setTimeout(() => this.#startFlush(), FLUSH_SECONDS * 1000).unref();
  }

  #startFlush(): void {
    clearTimeout(this.#timer);
    this.#timer = undefined;
    this.#flushes = true;
    void this.#inTurn(() => this.#flush(0));
  }

  /** Writes what waits. Where another process has the lock that this takes, the rest goes on waiting. */
  async #flush(patienceMilliseconds: number): Promise<void> {
    try {
      if (this.#writes && this.#waiting.bytes > 0) {
        await this.generations.refresh();
        await this.generations.make(false);
        while (this.#waiting.bytes > 0 && (await this.#writeBatch(patienceMilliseconds)));
      }
    } catch (error) {
      this.#stopWriting(error);
    }
    this.#flushes = false;
    if (this.#waiting.bytes > 0 && !this.#closed)
      this.#timer ??= setTimeout(() => this.#startFlush(), FLUSH_SECONDS * 1000).unref();
  }

  /** False if it has to be tried again later. */
  async #writeBatch(patienceMilliseconds: number): Promise<boolean> {
    const { current } = this.generations;
    if (current === undefined) return false;
    const batch = this.#waiting.first(this.mostBytes - (await current.bytes()));
    if (batch.length === 0) {
      const refusal = await this.generations.rotate(patienceMilliseconds);
      if (refusal !== undefined && patienceMilliseconds > 0) throw refusal;
      return refusal === undefined;
    }
    await current.append(Buffer.concat(batch));
    await this.generations.scan(current);
    this.#waiting.drop(batch.length);
    return true;
  }

  async #end(): Promise<void> {
    clearTimeout(this.#timer);
    await this.#inTurn(async () => {
      await this.#flush(PATIENCE_MILLISECONDS);
      try {
        if (this.#writes) await this.generations.current?.sync();
      } catch (error) {
        this.#stopWriting(error);
      }
      await this.generations.close().catch((error: unknown) => this.#stopWriting(error));
    });
  }

  /** Work on the files: after what is under way. */
  #inTurn(work: () => Promise<void>): Promise<void> {
    return (this.#work = this.#work.then(work));
  }

  #stopWriting(error: unknown): void {
    this.#writes = false;
    this.#waiting.clear();
    const reason =
      error instanceof SpillwayError ? error.message : `${this.path}: cannot be written: ${describeFileError(error)}`;
    this.warnings.say('write', `${reason}; the run goes on, and no more answers are kept`);
  }

  #noteReadError(error: unknown): void {
    this.warnings.say(
      'read',
      `${this.path}: cannot be read: ${describeFileError(error)}; what is not found is computed again`,
    );
  }
}

function keyBytes(key: unknown): Buffer {
  if (Buffer.isBuffer(key) && key.length === KEY_BYTES) return key;
  if (typeof key === 'string' && /^[0-9a-f]{64}$/i.test(key)) return Buffer.from(key, 'hex');
  throw new UsageError(
    `key: found ${Buffer.isBuffer(key) ? `${key.length} bytes` : found(key)}, expected ${KEY_BYTES} bytes, or ${2 * KEY_BYTES} hexadecimal digits`,
  );
}

/**
 * Where the files are: beside each other, also where the path is a link. @throws UsageError for a path where no file
 * can be
 */
async function placeOf(path: string): Promise<string> {
  try {
    return await realpath(path);
  } catch {
    // It is not there yet, or cannot be looked at, which opening it will say.
  }
  try {
    await stat(dirname(path));
  } catch (error) {
    const refusal = refusalOf(path, error);
    if (refusal !== undefined) throw refusal;
  }
  return path;
}

/** Gives the error that ends opening; undefined for one that is only a pity. */
function refusalOf(path: string, error: unknown): Error | undefined {
  if (error instanceof UsageError || error instanceof InterruptedError) return error;
  return PATH_ERRORS.includes(fileErrorCode(error) ?? '')
    ? new UsageError(`${path}: cannot be opened: ${describeFileError(error)}`, { cause: error })
    : undefined;
}
