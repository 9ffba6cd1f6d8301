import { JobFileError } from '../../errors/JobFileError.js';
import type { ByteQueue } from './ByteQueue.js';

const MAGIC = 0xfd2fb528;
/** Frames that hold something else than data begin with one of sixteen numbers. */
const SKIPPABLE = 0x184d2a50;
const RAW_BYTES = 2 ** 17;

/**
 * A file of zstd in its frames, each with its bytes (RFC 8878). What Node makes of several frames, and of one that is
 * cut off, differs from version to version: some drop what comes after the first, some take half a frame for a whole
 * one. Frames that hold no data are left out.
 * @throws JobFileError for what is no frame, or not all of one
 */
export async function* zstdFrames(
  input: ByteQueue,
  name: string,
): AsyncGenerator<AsyncGenerator<Buffer, void, undefined>, void, undefined> {
  for (;;) {
    const magic = await input.take(4);
    if (magic.length === 0) return;
    if (magic.length === 4 && (magic.readUInt32LE() & 0xfffffff0) >>> 0 === SKIPPABLE) {
      const length = (await whole(input, 4, name)).readUInt32LE();
      for await (const _ of piecesOf(input, length, name));
    } else {
      if (magic.length < 4 || magic.readUInt32LE() !== MAGIC) {
        throw new JobFileError(
          name,
          `cannot be decompressed: found ${magic.toString('hex')} where a frame of zstd begins, expected 28b52ffd; expected a whole file in the format of zstd`,
        );
      }
      yield frameOf(input, magic, name);
    }
  }
}

async function* frameOf(input: ByteQueue, magic: Buffer, name: string): AsyncGenerator<Buffer, void, undefined> {
  const descriptor = await whole(input, 1, name);
  const flags = descriptor.readUInt8();
  const singleSegment = (flags & 0x20) !== 0;
  const contentSizeBytes = [singleSegment ? 1 : 0, 2, 4, 8][flags >>> 6] ?? 0;
  const header = await whole(input, (singleSegment ? 0 : 1) + ([0, 1, 2, 4][flags & 3] ?? 0) + contentSizeBytes, name);
  yield Buffer.concat([magic, descriptor, header]);
  for (let last = false; !last;) {
    const block = await whole(input, 3, name);
    yield block;
    const word = block.readUIntLE(0, 3);
    last = (word & 1) === 1;
    // A block of one byte, repeated, holds that byte alone.
    yield* piecesOf(input, ((word >>> 1) & 3) === 1 ? 1 : word >>> 3, name);
  }
  if ((flags & 4) !== 0) yield await whole(input, 4, name);
}

async function* piecesOf(input: ByteQueue, length: number, name: string): AsyncGenerator<Buffer, void, undefined> {
  for (let left = length; left > 0;) {
    const piece = await whole(input, Math.min(left, RAW_BYTES), name);
    left -= piece.length;
    yield piece;
  }
}

async function whole(input: ByteQueue, length: number, name: string): Promise<Buffer> {
  const bytes = await input.take(length);
  if (bytes.length === length) return bytes;
  throw new JobFileError(
    name,
    'cannot be decompressed: unexpected end of file; expected a whole file in the format of zstd',
  );
}
