import { Readable, type Duplex } from 'node:stream';
import zlib from 'node:zlib';
import { JobFileError } from '../../errors/JobFileError.js';
import { SpillwayError } from '../../errors/SpillwayError.js';
import { UsageError } from '../../errors/UsageError.js';
import { describeFileError, fileErrorCode } from '../fileErrors.js';

export type Compression = 'gzip' | 'zstd';

const ENDINGS: readonly (readonly [string, Compression])[] = [['.gz', 'gzip'], ['.zst', 'zstd']];

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
  chunks: AsyncIterable<Uint8Array | string>, compression: Compression | undefined, name: string,
): AsyncGenerator<Uint8Array | string, void, undefined> {
  if (compression === undefined) {
    yield* chunks;
    return;
  }
  const stream = compression === 'gzip' ? zlib.createGunzip() : zstdOf(name).createZstdDecompress();
  try {
    yield* through(chunks, stream);
  } catch (error) {
    const code = fileErrorCode(error);
    if (error instanceof SpillwayError || code === undefined || !/^(Z_|ZSTD_|ERR_)/.test(code)) throw error;
    throw new JobFileError(name, `cannot be decompressed: ${describeFileError(error)}; expected a whole file in the format of ${compression}`, { cause: error });
  }
}

/** @throws whatever the source throws */
export function compressed(
  chunks: AsyncIterable<Uint8Array | string>, compression: Compression | undefined, name: string,
): AsyncIterable<Uint8Array | string> {
  if (compression === undefined) return chunks;
  return through(chunks, compression === 'gzip' ? zlib.createGzip() : zstdOf(name).createZstdCompress());
}

async function* through(chunks: AsyncIterable<Uint8Array | string>, stream: Duplex): AsyncGenerator<Uint8Array, void, undefined> {
  const source = Readable.from(copies(chunks));
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
  throw new UsageError(`${name}: zstd needs Node 22.15 or later, and this is ${process.versions.node}; use gzip, or the program zstd`);
}
