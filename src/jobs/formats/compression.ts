import { once } from 'node:events';
import { Readable, type Duplex } from 'node:stream';
import zlib from 'node:zlib';
import { JobFileError } from '../../errors/JobFileError.js';
import { SpillwayError } from '../../errors/SpillwayError.js';
import { UsageError } from '../../errors/UsageError.js';
import { describeFileError, fileErrorCode } from '../../files/fileErrors.js';
import { ByteQueue } from './ByteQueue.js';
import { zstdFrames } from './zstdFrames.js';

export type Compression = 'gzip' | 'zstd';

const ENDINGS: readonly (readonly [string, Compression])[] = [
  ['.gz', 'gzip'],
  ['.zst', 'zstd'],
];

/** How a file is compressed, by the end of its name, and the name without that. */
export function compressionOf(path: string): { readonly name: string; readonly compression: Compression | undefined } {
  const [ending, compression] = ENDINGS.find(([end]) => path.toLowerCase().endsWith(end)) ?? ['', undefined];
  return { name: path.slice(0, path.length - ending.length), compression };
}

/** @throws UsageError where this Node cannot: Node 20 has no zstd */
export function checkCompression(path: string, compression: Compression | undefined): void {
  if (compression === 'zstd') zstdOf(path);
}

/**
 * @param name what errors call the file
 * @throws JobFileError for what is not compressed so, or cut off; whatever the source throws
 */
export async function* decompressed(
  chunks: AsyncIterable<Uint8Array | string>,
  compression: Compression | undefined,
  name: string,
): AsyncGenerator<Uint8Array | string, void, undefined> {
  if (compression === undefined) {
    yield* chunks;
    return;
  }
  await using input = new ByteQueue(chunks);
  try {
    if (compression === 'gzip') yield* gunzipped(input);
    else
      for await (const frame of zstdFrames(input, name))
        yield* through(Readable.from(frame), zstdOf(name).createZstdDecompress());
  } catch (error) {
    const code = fileErrorCode(error);
    if (error instanceof SpillwayError || code === undefined || !/^(Z_|ZSTD_|ERR_)/.test(code)) throw error;
    throw new JobFileError(
      name,
      `cannot be decompressed: ${describeFileError(error)}; expected a whole file in the format of ${compression}`,
      { cause: error },
    );
  }
}

/** @throws whatever the source throws */
export function compressed(
  chunks: AsyncIterable<Uint8Array | string>,
  compression: Compression | undefined,
  name: string,
): AsyncIterable<Uint8Array | string> {
  if (compression === undefined) return chunks;
  return through(
    Readable.from(copies(chunks)),
    compression === 'gzip' ? zlib.createGzip() : zstdOf(name).createZstdCompress(),
  );
}

/**
 * All members of a file. Node goes from one to the next by itself, but takes a zero after one for padding up to the
 * end of the file, and looks no further: that it is padding, and not the beginning of what was damaged, is found out
 * here.
 */
async function* gunzipped(input: ByteQueue): AsyncGenerator<Uint8Array, void, undefined> {
  for (let padding = false; await skipZeros(input, padding); padding = true) {
    const stream = zlib.createGunzip();
    /** The buffers that the stream was given and may not have taken, from this offset on. */
    const given: Buffer[] = [];
    let offset = 0;
    async function* feed(): AsyncGenerator<Buffer, void, undefined> {
      for (let bytes = await input.next(); bytes !== undefined; bytes = await input.next()) {
        for (
          let [first] = given;
          first !== undefined && offset + first.length <= stream.bytesWritten;
          [first] = given
        ) {
          offset += first.length;
          given.shift();
        }
        const copy = Buffer.from(bytes);
        given.push(copy);
        yield copy;
      }
    }
    const source = Readable.from(feed());
    yield* through(source, stream);
    // What it was about to be given, too.
    if (!source.closed) await once(source, 'close');
    input.giveBack(Buffer.concat(given).subarray(stream.bytesWritten - offset));
  }
}

/**
 * @param skip whether there may be any @returns whether something else comes; an empty file is for the decompressor to
 * judge
 */
async function skipZeros(input: ByteQueue, skip: boolean): Promise<boolean> {
  for (let bytes = skip ? await input.next() : Buffer.alloc(1, 1); bytes !== undefined; bytes = await input.next()) {
    const at = bytes.findIndex((byte) => byte !== 0);
    if (at < 0) continue;
    if (skip) input.giveBack(bytes.subarray(at));
    return true;
  }
  return false;
}

async function* through(source: Readable, stream: Duplex): AsyncGenerator<Uint8Array, void, undefined> {
  source.on('error', (error) => stream.destroy(error));
  source.pipe(stream);
  try {
    for await (const chunk of stream as AsyncIterable<Uint8Array>) yield chunk;
  } finally {
    source.destroy();
  }
}

/** The streams keep a chunk for longer than its source does. */
async function* copies(chunks: AsyncIterable<Uint8Array | string>): AsyncGenerator<Buffer, void, undefined> {
  for await (const chunk of chunks) yield Buffer.from(chunk as Uint8Array);
}

interface Zstd {
  createZstdDecompress(): Duplex;
  createZstdCompress(): Duplex;
}

function zstdOf(name: string): Zstd {
  const { createZstdDecompress, createZstdCompress } = zlib as Partial<Zstd>;
  if (createZstdDecompress && createZstdCompress) return { createZstdDecompress, createZstdCompress };
  throw new UsageError(
    `${name}: zstd needs Node 22.15 or later, and this is ${process.versions.node}; use gzip, or the program zstd`,
  );
}
