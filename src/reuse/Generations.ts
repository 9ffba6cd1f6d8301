import { rename, rm } from 'node:fs/promises';
import { setTimeout as sleep } from 'node:timers/promises';
import { InterruptedError } from '../errors/InterruptedError.js';
import { JobFileError } from '../errors/JobFileError.js';
import { UsageError } from '../errors/UsageError.js';
import { acquireFileLock, type FileLock } from '../files/fileLock.js';
import type { Generation } from './Generation.js';
import { begin, type FileOpener, makeGeneration, type Opened, openGeneration, statOf } from './openGeneration.js';

/** Making a file takes another process milliseconds. */
export const PATIENCE_MILLISECONDS = 5_000;

/**
 * The two files of a store. FILE is appended to; when it is full it becomes FILE.old, whose place it takes, and is
 * begun anew. Several processes do so: what stands at the two paths is what counts, and each of them finds out by
 * `refresh`. Calls of its methods must not overlap.
 */
export class Generations {
  #current: Generation | undefined;
  #old: Generation | undefined;

  /** @param path without links */
  constructor(
    private readonly path: string,
    private readonly opener: FileOpener,
    private readonly warnings: Warnings,
  ) {}

  /** The generation appended to. Undefined where there is none, or none of ours. */
  get current(): Generation | undefined {
    return this.#current;
  }

  /** The generations there are, the newer one first. */
  get all(): readonly Generation[] {
    return [this.#current, this.#old].filter((generation) => generation !== undefined);
  }

  get #oldPath(): string {
    return `${this.path}.old`;
  }

  /**
   * Opens what there is.
   * @throws UsageError for files that are somebody else's; JobFileError for one of another version; the system's errors
   */
  async open(): Promise<void> {
    const old = await openGeneration(this.#oldPath, this.opener);
    this.#old = await this.#ours(old);
    refuseForeign(this.#oldPath, old);
    if (old.kind === 'unusable')
      this.warnings.say('header', `${this.#oldPath}: ${wordsFor(old)}; its answers are computed again`);
    refuseVersion(this.#oldPath, old);
    const current = await openGeneration(this.path, this.opener);
    this.#current = await this.#ours(current);
    refuseForeign(this.path, current);
    refuseVersion(this.path, current);
  }

  /**
   * Makes FILE, if it is not there or empty.
   * @param replace whether it may take the place of one that was ours and cannot be used. Without, that is an error
   * @throws UsageError for one that is somebody else's, and where another process keeps the store locked; JobFileError
   * for one of another version, and for a lock that cannot be made; InterruptedError; the system's errors
   */
  async make(replace: boolean, signal?: AbortSignal): Promise<void> {
    if (this.#current !== undefined) return;
    const refusal = await withStoreLock(this.path, PATIENCE_MILLISECONDS, signal, async () => {
      const opened = await openGeneration(this.path, this.opener);
      refuseForeign(this.path, opened);
      refuseVersion(this.path, opened);
      if (opened.kind === 'ours') this.#current = opened.generation;
      else if (opened.kind === 'empty') {
        await begin(opened.generation);
        this.#current = opened.generation;
      } else {
        if (opened.kind === 'unusable') {
          if (!replace) throw new UsageError(wordsFor(opened));
          this.warnings.say(
            'header',
            `${this.path}: ${wordsFor(opened)}; it is begun anew, and its answers are computed again`,
          );
          await rm(this.path);
        }
        this.#current = await makeGeneration(this.path, this.opener);
      }
      await this.scan(this.#current, signal);
    });
    if (refusal) throw refusal;
  }

  /**
   * Takes note of what other processes have done: appended, made FILE, renamed it.
   * @throws the system's errors; InterruptedError
   */
  async refresh(signal?: AbortSignal): Promise<void> {
    const held = this.all;
    this.#current = await this.#at(this.path, held);
    this.#old = await this.#at(this.#oldPath, held);
    for (const generation of held) if (!this.all.includes(generation)) await generation.close();
    for (const generation of this.all) await this.scan(generation, signal);
  }

  /** @throws the system's errors; InterruptedError */
  async scan(generation: Generation, signal?: AbortSignal): Promise<void> {
    const damage = await generation.scan(signal);
    if (damage === undefined) return;
    const file = generation === this.#old ? this.#oldPath : this.path;
    this.warnings.say(
      'damage',
      `${file}: ${damage.bytes} bytes from byte ${damage.offset} on are no whole records, as a process leaves them that is ended while it writes, or a disk that fails; what they held is computed again`,
    );
  }

  /**
   * Makes FILE the old one and begins it anew, unless another process has done so already.
   * @param patienceMilliseconds how long other processes are waited for that do the same
   * @returns why it is to be tried again later: they take longer
   * @throws UsageError for an old file that is somebody else's; JobFileError for one of another version, and for a lock
   * that cannot be made; the system's errors
   */
  async rotate(patienceMilliseconds: number): Promise<UsageError | undefined> {
    return withStoreLock(this.path, patienceMilliseconds, undefined, async () => {
      const current = this.#current;
      if (current?.is(await statOf(this.path)) !== true) return this.refresh();
      const opened = await openGeneration(this.#oldPath, this.opener);
      await this.#closed(opened);
      refuseForeign(this.#oldPath, opened);
      refuseVersion(this.#oldPath, opened);
      await rename(this.path, this.#oldPath);
      const replaced = this.#old;
      this.#old = current;
      this.#current = undefined;
      await replaced?.close();
      this.#current = await makeGeneration(this.path, this.opener);
    });
  }

  /** @throws the system's errors */
  async close(): Promise<void> {
    const held = this.all;
    this.#current = this.#old = undefined;
    for (const generation of held) await generation.close();
  }

  async #at(path: string, held: readonly Generation[]): Promise<Generation | undefined> {
    const stats = await statOf(path);
    if (stats === undefined) return undefined;
    return held.find((generation) => generation.is(stats)) ?? this.#ours(await openGeneration(path, this.opener));
  }

  async #ours(opened: Opened): Promise<Generation | undefined> {
    if (opened.kind === 'ours') return opened.generation;
    await this.#closed(opened);
    return undefined;
  }

  async #closed(opened: Opened): Promise<void> {
    if (opened.kind === 'ours' || opened.kind === 'empty') await opened.generation.close();
  }
}

function refuseForeign(path: string, opened: Opened): void {
  if (opened.kind === 'foreign') {
    throw new UsageError(
      `${path}: found ${opened.found}, expected no file, an empty one, or one in which Spillway keeps answers; nothing was changed; give another name`,
    );
  }
}

function refuseVersion(path: string, opened: Opened): void {
  if (opened.kind === 'otherVersion')
    throw new JobFileError(
      path,
      `${wordsFor(opened)}; nothing was changed; give another name to keep answers beside it`,
    );
}

function wordsFor({ found, expected }: Extract<Opened, { kind: 'unusable' | 'otherVersion' }>): string {
  return `found ${found} of a file of answers, expected ${expected}`;
}

/**
 * The kinds of trouble that a store can have without ending anything: its header, a part of its contents, writing,
 * reading, keeping up.
 */
export type WarningKind = 'header' | 'damage' | 'write' | 'read' | 'late';

/** Says each kind of thing once, however often it happens. */
export class Warnings {
  readonly #said = new Set<WarningKind>();

  constructor(private readonly onWarning: ((message: string) => void) | undefined) {}

  /** Never throws: it is called where nobody could catch it, and what a store has to say ends no run. */
  say(kind: WarningKind, message: string): void {
    if (this.#said.has(kind)) return;
    this.#said.add(kind);
    try {
      this.onWarning?.(message);
    } catch {
      // What the callback throws has nowhere to go.
    }
  }
}

/** How often somebody else's lock is tried: it is held for milliseconds. */
const POLL_MILLISECONDS = 20;

/**
 * Does something while no other process makes or renames the files of a store. Nobody needs the lock to append, or to
 * read.
 * @param patienceMilliseconds how long somebody else's lock is waited for. 0: not at all
 * @returns why it was not done: another one goes on holding the lock. Undefined when it was done
 * @throws JobFileError when the lock cannot be made; InterruptedError; what `body` throws
 */
async function withStoreLock(
  path: string,
  patienceMilliseconds: number,
  signal: AbortSignal | undefined,
  body: () => Promise<void>,
): Promise<UsageError | undefined> {
  const lock = await acquire(path, performance.now() + patienceMilliseconds, signal);
  if (lock instanceof UsageError) return lock;
  try {
    await body();
  } finally {
    lock.release();
  }
  return undefined;
}

async function acquire(path: string, until: number, signal: AbortSignal | undefined): Promise<FileLock | UsageError> {
  for (;;) {
    if (signal?.aborted) throw new InterruptedError(signal.reason);
    try {
      return await acquireFileLock(`${path}.lock`, path, { signal });
    } catch (error) {
      if (!(error instanceof UsageError)) throw error;
      if (performance.now() >= until) return error;
    }
    await sleep(POLL_MILLISECONDS);
  }
}
