import { stat } from 'node:fs/promises';
import { bytesOf } from '../../files/fileBytes.js';
import type { FileStore } from '../files/FileStore.js';
import { type Batch, type BatchEnding, type KeptBatch, now } from './Batch.js';
import type { BatchStore } from './BatchStore.js';

const LF = 0x0a;

/**
 * Makes files of the store of what a batch has written, and counts what is in them. Done again after a kill it does the
 * same.
 * @returns what becomes known of it
 * @throws the file system's errors
 */
export async function finishBatch(
  { batch: { id, request_counts: counts }, files: ids }: KeptBatch,
  ending: BatchEnding,
  batches: BatchStore,
  files: FileStore,
): Promise<{ readonly batch: Partial<Batch> }> {
  const output = batches.pathOf(id, 'output.jsonl');
  const errors = batches.pathOf(id, 'errors.jsonl');
  const [completed, failed] = [await linesOf(output), await linesOf(errors)];
  if (completed > 0) await files.adopt(ids.output, output, `${id}_output.jsonl`);
  if (failed > 0) await files.adopt(ids.errors, errors, `${id}_errors.jsonl`);
  const times = { completed: 'completed_at', cancelled: 'cancelled_at', expired: 'expired_at' } as const;
  return {
    batch: {
      status: ending,
      [times[ending]]: now(),
      output_file_id: completed > 0 ? ids.output : null,
      error_file_id: failed > 0 ? ids.errors : null,
      request_counts: { total: Math.max(counts.total, completed + failed), completed, failed },
    },
  };
}

/** Lines of a file; none of one that is not there. */
async function linesOf(path: string): Promise<number> {
  const there = await stat(path).catch(() => undefined);
  if (!there) return 0;
  let lines = 0;
  for await (const part of bytesOf(path))
    for (let at = part.indexOf(LF); at >= 0; at = part.indexOf(LF, at + 1)) lines += 1;
  return lines;
}
