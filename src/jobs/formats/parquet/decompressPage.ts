import zlib from 'node:zlib';
import { compressors, decompressZstd } from 'hyparquet-compressors';

type Decompress = (bytes: Uint8Array, length: number) => Uint8Array;

const nativeZstd = (zlib as { readonly zstdDecompressSync?: (bytes: Uint8Array, options: object) => Buffer })
  .zstdDecompressSync;

/** None makes more than it is told. */
const DECOMPRESS: Readonly<Record<string, Decompress | undefined>> = {
  UNCOMPRESSED: (bytes) => bytes,
  SNAPPY: compressors.SNAPPY,
  GZIP: (bytes, length) => zlib.gunzipSync(bytes, { maxOutputLength: Math.max(length, 1) }),
  BROTLI: (bytes, length) => zlib.brotliDecompressSync(bytes, { maxOutputLength: Math.max(length, 1) }),
  LZ4_RAW: compressors.LZ4_RAW,
  ZSTD: (bytes, length) =>
    nativeZstd?.(bytes, { maxOutputLength: Math.max(length, 1) }) ?? decompressZstd(bytes, new Uint8Array(length)),
};

/**
 * What a page holds, in memory of its own.
 * @param length that it is said to have, decompressed; within the limits
 * @throws Error unless it is so; what the decompressor throws
 */
export function decompressPage(bytes: Uint8Array<ArrayBuffer>, length: number, codec: string): Uint8Array<ArrayBuffer> {
  const decompress = DECOMPRESS[codec];
  if (decompress === undefined)
    throw new Error(`it is compressed as ${codec}, expected one of ${Object.keys(DECOMPRESS).join(', ')}`);
  const page = length === 0 ? new Uint8Array() : decompress(bytes, length);
  if (page.length !== length)
    throw new Error(`a page has ${page.length} bytes decompressed, expected ${length}, as its header says`);
  const alone = page.byteOffset === 0 && page.buffer instanceof ArrayBuffer && page.buffer.byteLength === page.length;
  return alone ? new Uint8Array(page.buffer) : new Uint8Array(page);
}
