import { createHash, type Hash } from 'node:crypto';
import { mkdir, open, rename, rm, stat, unlink, type FileHandle } from 'node:fs/promises';
import { dirname } from 'node:path';
import { leftoversOf, removeLeftovers, temporaryPath } from '../../files/temporaryFiles.js';
import { makeFolder } from '../../files/makeFolder.js';

/**
 * A file that is being fetched, under a name of its own until it is complete and its hash is right. Any number of
 * processes may fetch the same file at once: each writes to its own, and the last rename wins with the same bytes.
 */
export class PartialFile implements AsyncDisposable {
  #hash: Hash;
  #bytes = 0;

  private constructor(
    readonly target: string,
    readonly path: string,
    private readonly file: FileHandle,
    private readonly maximumBytes: number,
    private readonly newHash: () => Hash,
  ) {
    this.#hash = newHash();
  }

  /**
   * Takes over what an interrupted download left, or one whose process was killed (one process gets it, the others
   * begin anew).
   * @param newHash begins the hash that `digest` tells; default SHA-256
   */
  static async open(
    target: string,
    maximumBytes: number,
    newHash = (): Hash => createHash('sha256'),
  ): Promise<PartialFile> {
    makeFolder(dirname(target));
    for (const file of leftoversOf(target)) await rename(file, leftover(target)).catch(ignoreMissing);
    const path = temporaryPath(target);
    await rename(leftover(target), path).catch(ignoreMissing);
    const file = await open(path, 'a+', 0o644);
    const partial = new PartialFile(target, path, file, maximumBytes, newHash);
    try {
      const { size } = await file.stat();
      if (size > maximumBytes) await file.truncate(0);
      else if (size > 0) await partial.#hashExisting();
      return partial;
    } catch (error) {
      await file.close();
      throw error;
    }
  }

  /** Bytes that are there and hashed. */
  get bytes(): number {
    return this.#bytes;
  }

  async append(chunk: Uint8Array): Promise<void> {
    this.#hash.update(chunk);
    await this.file.appendFile(chunk);
    this.#bytes += chunk.byteLength;
  }

  /** Begins anew, e.g. for a source that cannot start in the middle. */
  async clear(): Promise<void> {
    await this.file.truncate(0);
    this.#hash = this.newHash();
    this.#bytes = 0;
  }

  /** The hash of all bytes so far, in hexadecimal. */
  digest(): string {
    return this.#hash.copy().digest('hex');
  }

  /** Puts the file in its place; its contents are on disk before its name is. */
  async commit(): Promise<void> {
    await this.file.sync();
    await rename(this.path, this.target);
    // What another attempt has left is of no use any more.
    await rm(leftover(this.target), { force: true });
  }

  /**
   * Keeps what is there for the next attempt, unless it is empty, or the file has been committed, here or by another
   * process.
   */
  async [Symbol.asyncDispose](): Promise<void> {
    await this.file.close();
    if (this.#bytes === 0) {
      await unlink(this.path).catch(ignoreMissing);
      return;
    }
    await rename(this.path, leftover(this.target)).catch(ignoreMissing);
    // In this order: whoever commits between the two removes it.
    const { size } = await stat(this.target).catch(() => ({ size: -1 }));
    if (size === this.maximumBytes) await rm(leftover(this.target), { force: true });
  }

  async #hashExisting(): Promise<void> {
    const buffer = Buffer.alloc(1 << 20);
    for (;;) {
      const { bytesRead } = await this.file.read(buffer, 0, buffer.length, this.#bytes);
      if (bytesRead === 0) return;
      this.#hash.update(buffer.subarray(0, bytesRead));
      this.#bytes += bytesRead;
    }
  }
}

function leftover(target: string): string {
  return `${target}.partial`;
}

/** Removes what other downloads of a file have left that is there. */
export async function removeParts(target: string): Promise<void> {
  removeLeftovers(target);
  removeLeftovers(workPath(target));
  await rm(leftover(target), { force: true });
}

/** Where a download keeps what it needs beside the file: a folder whose name says whose it is. */
export async function makeWorkFolder(target: string): Promise<string> {
  removeLeftovers(workPath(target));
  const folder = temporaryPath(workPath(target));
  await mkdir(folder);
  return folder;
}

function workPath(target: string): string {
  return `${target}.work`;
}

function ignoreMissing(error: unknown): void {
  if ((error as NodeJS.ErrnoException).code !== 'ENOENT') throw error;
}
