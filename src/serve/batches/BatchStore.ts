import { mkdir, readdir, readFile, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { isObject, membersOf } from '../../arguments/isObject.js';
import { replaceFile } from '../../files/atomicFile.js';
import { makeFolder } from '../../files/makeFolder.js';
import { ApiError } from '../http/ApiError.js';
import { BATCH_ID, type Batch, isOver, type KeptBatch } from './Batch.js';

const DESCRIPTION = 'batch.json';

/** Batches in one folder, each in one of its own: what is said of it, its input, and the job's files while it runs. */
export class BatchStore {
  readonly #batches = new Map<string, KeptBatch>();

  private constructor(private readonly folder: string) {}

  /** @param warn told of folders that are no batch's @throws the file system's errors */
  static async open(folder: string, warn: (message: string) => void): Promise<BatchStore> {
    makeFolder(folder);
    const store = new BatchStore(folder);
    for (const id of await readdir(folder)) {
      const kept = BATCH_ID.test(id) ? await keptBatch(join(folder, id, DESCRIPTION)) : undefined;
      if (kept?.batch.id === id) {
        store.#batches.set(id, kept);
        // A server that was killed may not have come to it.
        if (isOver(kept.batch)) await store.clear(id);
      } else warn(`${join(folder, id)}: found what is no batch; it is left alone`);
    }
    return store;
  }

  /** The latest first. */
  list(): readonly Batch[] {
    return [...this.#batches.values()]
      .map(({ batch }) => batch)
      .sort((a, b) => b.created_at - a.created_at || (a.id < b.id ? 1 : -1));
  }

  /** The batches that are not over, the oldest first. */
  open(): readonly KeptBatch[] {
    return [...this.#batches.values()]
      .filter(({ batch }) => !isOver(batch))
      .sort((a, b) => a.batch.created_at - b.batch.created_at);
  }

  /** How many there are, by status. */
  counts(): ReadonlyMap<string, number> {
    const counts = new Map<string, number>();
    for (const { batch } of this.#batches.values()) counts.set(batch.status, (counts.get(batch.status) ?? 0) + 1);
    return counts;
  }

  /** @throws ApiError where there is none */
  get(id: string): KeptBatch {
    const kept = BATCH_ID.test(id) ? this.#batches.get(id) : undefined;
    if (!kept) throw new ApiError(404, 'there is no such batch', { code: 'batch_not_found', param: 'batch_id' });
    return kept;
  }

  /** A file of a batch's own. */
  pathOf(id: string, file: 'input.jsonl' | 'output.jsonl' | 'errors.jsonl'): string {
    return join(this.folder, id, file);
  }

  /** Makes a batch's folder. @throws the file system's errors */
  async make(id: string): Promise<void> {
    await mkdir(join(this.folder, id), { mode: 0o700 });
  }

  /** Keeps what is known of a batch by now. @throws the file system's errors */
  async keep(kept: KeptBatch): Promise<KeptBatch> {
    this.#batches.set(kept.batch.id, kept);
    await replaceFile(join(this.folder, kept.batch.id, DESCRIPTION), `${JSON.stringify(kept)}\n`);
    return kept;
  }

  /** How many rows are through, which is written with the next change of more weight. */
  count(id: string, counts: Batch['request_counts']): void {
    const kept = this.#batches.get(id);
    if (kept) this.#batches.set(id, { ...kept, batch: { ...kept.batch, request_counts: counts } });
  }

  /** Removes what a batch that is over needs no more: all but what is said of it. */
  async clear(id: string): Promise<void> {
    const folder = join(this.folder, id);
    for (const name of await readdir(folder)) if (name !== DESCRIPTION) await rm(join(folder, name), { force: true });
  }

  /** Removes a folder of which nothing is said yet. */
  async forget(id: string): Promise<void> {
    this.#batches.delete(id);
    await rm(join(this.folder, id), { recursive: true, force: true });
  }
}

async function keptBatch(path: string): Promise<KeptBatch | undefined> {
  try {
    const kept: unknown = JSON.parse(await readFile(path, 'utf8'));
    const { format, version, batch, files } = membersOf(kept);
    const { id, endpoint, status, created_at: created, expires_at: expires, request_counts: counts } = membersOf(batch);
    const { output, errors } = membersOf(files);
    const sound =
      format === 'spillway-batch' &&
      version === 1 &&
      [id, endpoint, status, output, errors].every((each) => typeof each === 'string') &&
      [created, expires].every((each) => typeof each === 'number') &&
      isObject(counts);
    return sound ? (kept as KeptBatch) : undefined;
  } catch {
    return undefined;
  }
}
