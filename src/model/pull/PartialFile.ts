import { createHash, randomUUID } from 'node:crypto';
import { mkdir, open, readdir, rename, rm, stat, unlink, type FileHandle } from 'node:fs/promises';
import { basename, dirname, join } from 'node:path';

/** A temporary file that nobody wrote to for this long belongs to a process that is gone. */
const ABANDONED_SECONDS = 24 * 3600;

/**
 * A file that is being fetched, under a name of its own until it is complete and its hash is right. Any number of processes
 * may fetch the same file at once: each writes to its own, and the last rename wins with the same bytes.
 */
export class PartialFile implements AsyncDisposable {
  #hash = createHash('sha256');
  #bytes = 0;

  private constructor(
    readonly target: string,
    readonly path: string,
    private readonly file: FileHandle,
  ) {}

  /** Takes over what an interrupted download left (one process gets it, the others begin anew). */
  static async open(target: string, maximumBytes: number): Promise<PartialFile> {
    await mkdir(dirname(target), { recursive: true });
    await removeAbandoned(target);
    const path = `${target}.${randomUUID()}.tmp`;
    await rename(leftover(target), path).catch(ignoreMissing);
    const file = await open(path, 'a+', 0o644);
    const partial = new PartialFile(target, path, file);
    try {
      const { size } = await file.stat();
      if (size >= maximumBytes) await file.truncate(0);
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
    this.#hash = createHash('sha256');
    this.#bytes = 0;
  }

  /** The SHA-256 of all bytes so far, in hexadecimal. */
  digest(): string {
    return this.#hash.copy().digest('hex');
  }

  /** Puts the file in its place; its contents are on disk before its name is. */
  async commit(): Promise<void> {
    await this.file.sync();
    await rename(this.path, this.target);
  }

  /** Keeps what is there for the next attempt, unless it was committed or is empty. */
  async [Symbol.asyncDispose](): Promise<void> {
    await this.file.close();
    if (this.#bytes > 0) await rename(this.path, leftover(this.target)).catch(ignoreMissing);
    else await unlink(this.path).catch(ignoreMissing);
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

async function removeAbandoned(target: string): Promise<void> {
  const folder = dirname(target);
  for (const name of await readdir(folder)) {
    if (!name.startsWith(`${basename(target)}.`) || !(name.endsWith('.tmp') || name.endsWith('.work'))) continue;
    const path = join(folder, name);
    const age = Date.now() - (await stat(path).then(({ mtimeMs }) => mtimeMs, () => Date.now()));
    if (age > ABANDONED_SECONDS * 1000) await rm(path, { recursive: true, force: true });
  }
}

function ignoreMissing(error: unknown): void {
  if ((error as NodeJS.ErrnoException).code !== 'ENOENT') throw error;
}
