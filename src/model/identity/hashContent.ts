import { createHash, webcrypto } from 'node:crypto';
import type { ModelFile } from '../files/ModelFile.js';

/** Bytes of one part, and how many parts are read and hashed at once: as many as Node has threads for such work. */
const PART_BYTES = 2 ** 20;
const PARTS_AT_ONCE = 4;

/**
 * A hash of everything in a file: SHA-256 over its length and the SHA-256 of each of its MiB, in order. In parts, so
 * that several threads can hash, and none of it happens on JavaScript's.
 *
 * @param onBytes gets how many more bytes are done; may throw
 * @returns 64 hexadecimal digits
 * @throws ModelFileError where the file cannot be read to the length that it was opened with; what `onBytes` throws
 */
export async function hashContent(file: ModelFile, onBytes: (bytes: number) => void): Promise<string> {
  const parts = Math.ceil(file.bytes / PART_BYTES);
  const digests = Buffer.alloc(parts * 32);
  let next = 0;
  let stopped = false;
  const work = async (): Promise<void> => {
    const buffer = Buffer.allocUnsafeSlow(Math.min(PART_BYTES, file.bytes));
    while (next < parts && !stopped) {
      const part = next;
      next += 1;
      const bytes = buffer.subarray(0, Math.min(PART_BYTES, file.bytes - part * PART_BYTES));
      await file.fill(bytes, part * PART_BYTES);
      digests.set(new Uint8Array(await webcrypto.subtle.digest('SHA-256', bytes)), part * 32);
      onBytes(bytes.length);
    }
  };
  const working = Array.from({ length: Math.min(PARTS_AT_ONCE, parts) }, () =>
    work().catch((error: unknown) => {
      stopped = true;
      throw error;
    }),
  );
  // The file may be closed only when nobody reads it any more.
  const failed = (await Promise.allSettled(working)).find((each) => each.status === 'rejected');
  if (failed) throw failed.reason;
  return createHash('sha256').update(`spillway-content ${file.bytes}\n`).update(digests).digest('hex');
}
