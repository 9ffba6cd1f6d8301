import { createHash } from 'node:crypto';
import { basename } from 'node:path';
import { InterruptedError } from '../../errors/InterruptedError.js';
import { stampOf } from './FileStamp.js';
import { hashFile, type HashedFile } from './hashFile.js';
import { KnownHashes } from './KnownHashes.js';
import { modelSettings } from '../modelFiles.js';

/** A file by its contents. */
export interface FileIdentity {
  readonly name: string;
  readonly bytes: number;
  /** See `hashContent`. */
  readonly hash: string;
}

/** Where it was found, and its stamp when it was hashed (`FileStamp.text`). */
export interface FoundFile extends FileIdentity {
  readonly path: string;
  readonly stamp: string;
}

/** Which model it is, by what is in its files, whatever they are called and wherever they lie. */
export interface ModelIdentity {
  /** One value for all of it: 64 hexadecimal digits. */
  readonly hash: string;
  /** In the order in which they were given. */
  readonly weights: readonly FoundFile[];
  /** Configuration, tokenizer and templates beside them, by name. */
  readonly settings: readonly FoundFile[];
}

export interface IdentifyOptions {
  readonly signal?: AbortSignal | undefined;
  /** Gets bytes of those files that are not known yet. */
  readonly onProgress?: ((bytes: number, totalBytes: number) => void) | undefined;
}

/**
 * Hashes every file of a model as a whole, once: a file with the stamp of one that was hashed before is that one.
 * Stamps change with every write to a file, and where another takes its place (see `FileStamp`); on file systems that
 * are not known to keep them so, files are hashed each time.
 *
 * @param files those of the weights
 * @throws ModelFileError for a file that cannot be read or is written meanwhile; InterruptedError when the signal fires
 */
export async function identifyModel(
  files: readonly string[],
  { signal, onProgress }: IdentifyOptions = {},
): Promise<ModelIdentity> {
  const known = await KnownHashes.read();
  const there = await Promise.all(
    [...files, ...(await modelSettings(files))].map(async (path) => {
      const { bytes, text: stamp } = await stampOf(path);
      return { path, name: basename(path), bytes, stamp, hash: known.of(stamp) };
    }),
  );
  const totalBytes = there.reduce((sum, { hash, bytes }) => sum + (hash === undefined ? bytes : 0), 0);
  let doneBytes = 0;
  const report = (bytes: number): void => {
    if (signal?.aborted) throw new InterruptedError(signal.reason);
    doneBytes += bytes;
    onProgress?.(doneBytes, totalBytes);
  };
  const found: FoundFile[] = [];
  const learned: HashedFile[] = [];
  for (const { hash: before, ...file } of there) {
    if (before !== undefined) {
      found.push({ ...file, hash: before });
      continue;
    }
    const hashed = await hashFile(file.path, report);
    found.push({ ...file, bytes: hashed.stamp.bytes, stamp: hashed.stamp.text, hash: hashed.hash });
    learned.push(hashed);
  }
  await known.add(learned);
  const [weights, settings] = [found.slice(0, files.length), found.slice(files.length)];
  const content = [weights.map(({ hash }) => hash).sort(), settings.map(({ name, hash }) => [name, hash])];
  return { hash: createHash('sha256').update(JSON.stringify(content)).digest('hex'), weights, settings };
}
