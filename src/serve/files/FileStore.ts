import { randomBytes } from 'node:crypto';
import { link, copyFile, readdir, readFile, rename, rm, stat } from 'node:fs/promises';
import { join } from 'node:path';
import { isObject } from '../../arguments/isObject.js';
import { replaceFile } from '../../files/atomicFile.js';
import { fileErrorCode } from '../../files/fileErrors.js';
import { makeFolder } from '../../files/makeFolder.js';
import { ApiError } from '../http/ApiError.js';
import type { ServeLimits } from '../ServeOptions.js';

export const PURPOSES = ['batch', 'assistants', 'fine-tune', 'vision', 'user_data', 'evals'] as const;

/** A file as OpenAI describes one. */
export interface StoredFile {
  readonly id: string;
  readonly object: 'file';
  readonly bytes: number;
  readonly created_at: number;
  readonly expires_at?: number | null;
  readonly filename: string;
  readonly purpose: string;
  readonly status: 'processed';
}

/** Such ids alone are looked for: no other text gets as far as a path. */
const FILE_ID = /^file-[0-9a-f]{32}$/;
/** How long nobody looks for files that are past their time. */
const EXPIRY_MILLISECONDS = 60_000;

export function newFileId(): string {
  return `file-${randomBytes(16).toString('hex')}`;
}

/** Files that were sent, and those that batches made, in one folder: of each its bytes, and what is said of it. */
export class FileStore {
  readonly #files = new Map<string, StoredFile>();
  #bytes = 0;
  #looked = Date.now();

  private constructor(
    private readonly folder: string,
    private readonly limits: ServeLimits,
  ) {}

  /** @throws the file system's errors */
  static async open(folder: string, limits: ServeLimits): Promise<FileStore> {
    makeFolder(folder);
    const store = new FileStore(folder, limits);
    for (const name of await readdir(folder)) {
      const path = join(folder, name);
      // What a server that was killed had received of a file.
      if (name.endsWith('.part')) await rm(path, { force: true });
      const file = name.endsWith('.json') ? await describedFile(path) : undefined;
      if (file && `${file.id}.json` === name) store.#add(file);
    }
    return store;
  }

  /** Bytes of all files. */
  get bytes(): number {
    return this.#bytes;
  }

  /** The files that there are, the latest first. */
  list(): readonly StoredFile[] {
    this.#expire();
    return [...this.#files.values()].sort((a, b) => b.created_at - a.created_at || (a.id < b.id ? 1 : -1));
  }

  /** @throws ApiError where there is none */
  get(id: string): StoredFile {
    this.#expire();
    const file = FILE_ID.test(id) ? this.#files.get(id) : undefined;
    if (!file) throw new ApiError(404, 'there is no such file', { code: 'file_not_found', param: 'file_id' });
    return file;
  }

  pathOf({ id }: Pick<StoredFile, 'id'>): string {
    return join(this.folder, `${id}.data`);
  }

  /** Where a file is written that is being received. */
  partOf(id: string): string {
    return join(this.folder, `${id}.part`);
  }

  /** @throws ApiError where no more may be kept */
  checkRoom(moreBytes: number): void {
    this.#expire();
    const { storedBytes, storedFiles } = this.limits;
    if (this.#files.size >= storedFiles || this.#bytes + moreBytes > storedBytes)
      throw new ApiError(507, 'there is no room for more files; delete some', { code: 'storage_full' });
  }

  /** Keeps what was received. @throws the file system's errors */
  async received(file: StoredFile): Promise<void> {
    await rename(this.partOf(file.id), this.pathOf(file));
    await this.#describe(file);
  }

  /**
   * Keeps a file of a batch under an id that it had from the beginning, so that a server that was killed between two
   * steps does the same again.
   * @throws the file system's errors
   */
  async adopt(id: string, path: string, filename: string): Promise<StoredFile> {
    const known = this.#files.get(id);
    if (known) return known;
    const file: StoredFile = {
      id,
      object: 'file',
      bytes: (await stat(path)).size,
      created_at: Math.floor(Date.now() / 1000),
      filename,
      purpose: 'batch_output',
      status: 'processed',
    };
    await linked(path, this.pathOf(file));
    await this.#describe(file);
    return file;
  }

  /** @throws ApiError where there is none; the file system's errors */
  async remove(id: string): Promise<void> {
    const file = this.get(id);
    this.#files.delete(id);
    this.#bytes -= file.bytes;
    await rm(join(this.folder, `${id}.json`), { force: true });
    await rm(this.pathOf(file), { force: true });
  }

  async #describe(file: StoredFile): Promise<void> {
    await replaceFile(join(this.folder, `${file.id}.json`), JSON.stringify(file));
    this.#add(file);
  }

  #add(file: StoredFile): void {
    this.#files.set(file.id, file);
    this.#bytes += file.bytes;
  }

  #expire(): void {
    if (Date.now() - this.#looked < EXPIRY_MILLISECONDS) return;
    this.#looked = Date.now();
    for (const { id, expires_at: end } of this.#files.values())
      if (typeof end === 'number' && end * 1000 < this.#looked) void this.remove(id).catch(() => undefined);
  }
}

/** Gives a file a second name, or where the file system knows no such, a copy. */
export async function linked(path: string, to: string): Promise<void> {
  await rm(to, { force: true });
  try {
    await link(path, to);
  } catch (error) {
    if (fileErrorCode(error) === 'ENOENT') throw error;
    await copyFile(path, to);
  }
}

/** Reads what a file of ours says; undefined for one that is none, or damaged. */
async function describedFile(path: string): Promise<StoredFile | undefined> {
  try {
    const file: unknown = JSON.parse(await readFile(path, 'utf8'));
    const sound =
      isObject(file) &&
      typeof file['id'] === 'string' &&
      FILE_ID.test(file['id']) &&
      typeof file['bytes'] === 'number' &&
      typeof file['created_at'] === 'number' &&
      typeof file['filename'] === 'string' &&
      typeof file['purpose'] === 'string';
    return sound ? (file as unknown as StoredFile) : undefined;
  } catch {
    return undefined;
  }
}
