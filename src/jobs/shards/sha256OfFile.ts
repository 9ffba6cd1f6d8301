import { createHash } from 'node:crypto';
import { createReadStream } from 'node:fs';
import { fileFailure } from '../../files/fileErrors.js';

/** @throws JobFileError for a file that cannot be read */
export async function sha256OfFile(path: string): Promise<string> {
  const hash = createHash('sha256');
  try {
    for await (const piece of createReadStream(path, { highWaterMark: 2 ** 20 })) hash.update(piece as Buffer);
  } catch (error) {
    throw fileFailure(path, 'read', error);
  }
  return hash.digest('hex');
}
