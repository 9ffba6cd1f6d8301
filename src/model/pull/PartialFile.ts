import { createHash, type Hash } from 'node:crypto';
import { createReadStream } from 'node:fs';
import { mkdir, open, rename, rm, stat, unlink, type FileHandle } from 'node:fs/promises';
import { dirname } from 'node:path';
import { leftoversOf, removeLeftovers, temporaryPath } from '../../files/temporaryFiles.js';
import { ifThere } from '../../files/ifThere.js';
import { makeFolder } from '../../files/makeFolder.js';

/** The file is not what whoever has it said that it is. */
export class WrongBytes extends Error {}

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
    for (const file of leftoversOf(target)) await ifThere(rename(file, leftover(target)));
    const path = temporaryPath(target);
    await ifThere(rename(leftover(target), path));
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

  /**
   * Appends the rest of the file as it comes.
   * @param onBytes called with the bytes that are there, after each piece
   * @throws WrongBytes for more than the file has, before the disk fills; Error for less; whatever the source throws
   */
  async fill(chunks: AsyncIterable<Uint8Array>, onBytes: (bytes: number) => void): Promise<void> {
    for await (const chunk of chunks) {
      if (this.#bytes + chunk.byteLength > this.maximumBytes) {
        await this.clear();
        throw new WrongBytes(`it sent more than the ${this.maximumBytes} bytes of the file`);
      }
      this.#hash.update(chunk);
      await this.file.appendFile(chunk);
      this.#bytes += chunk.byteLength;
      onBytes(this.#bytes);
    }
    if (this.#bytes < this.maximumBytes)
      throw new Error(`the transfer ended after ${this.#bytes} of ${this.maximumBytes} bytes`);
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
      await ifThere(unlink(this.path));
      return;
    }
    await ifThere(rename(this.path, leftover(this.target)));
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

/** A file as it has to be: its length, and its hash in hexadecimal, which `newHash` begins to compute. */
export interface WholeFile {
  readonly bytes: number;
  readonly digest: string;
  readonly newHash: () => Hash;
}

/** Tells whether a file is there by its length, with `verify` by its hash, too. */
export async function isThere(path: string, { bytes, digest, newHash }: WholeFile, verify: boolean): Promise<boolean> {
  const size = await stat(path).then(
    (facts) => (facts.isFile() ? facts.size : -1),
    () => -1,
  );
  if (size !== bytes || !verify) return size === bytes;
  const hash = newHash();
  for await (const chunk of createReadStream(path, { highWaterMark: 1 << 20 })) hash.update(chunk as Buffer);
  return hash.digest('hex') === digest;
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
