import { once } from 'node:events';
import type { Transform } from 'node:stream';
import { Worker } from 'node:worker_threads';
import zlib from 'node:zlib';
import { compressors, decompressZstd } from 'hyparquet-compressors';

type Decompress = (bytes: Uint8Array, length: number) => Uint8Array | Promise<Uint8Array>;

/**
 * Pages of more are decompressed beside JavaScript, where Node can do that, and handed over so many bytes at a time.
 */
const AT_ONCE_BYTES = 2 ** 20;
const CHUNKS = { chunkSize: 2 ** 18 };

/** Pages of more that are decompressed in JavaScript, which others would wait for, go to a thread. */
const ON_THREAD_BYTES = 2 ** 21;
/** It gives the bytes back where it does not find the module: a hook of this process's own may find packages (PnP). */
const THREAD = `
  const { parentPort, workerData: { module, codec, bytes, length } } = require('node:worker_threads');
  import(module).then(({ compressors, decompressZstd }) => {
    const page = codec === 'ZSTD' ? decompressZstd(bytes, new Uint8Array(length)) : compressors[codec](bytes, length);
    const alone = page.byteLength === page.buffer.byteLength ? page : page.slice();
    parentPort.postMessage({ page: alone }, [alone.buffer]);
  }, () => parentPort.postMessage({ bytes }, [bytes.buffer]));`;

/** Node 20 has none. */
const { createZstdDecompress, zstdDecompressSync } = zlib as {
  readonly zstdDecompressSync?: (bytes: Uint8Array, options: object) => Buffer;
  readonly createZstdDecompress?: (options: object) => Transform;
};

/** None makes more than it is told. */
const DECOMPRESS: Readonly<Record<string, Decompress | undefined>> = {
  UNCOMPRESSED: (bytes) => bytes,
  SNAPPY: compressors.SNAPPY,
  GZIP: (bytes, length) =>
    length > AT_ONCE_BYTES
      ? inChunks(zlib.createGunzip(CHUNKS), bytes, length)
      : zlib.gunzipSync(bytes, { maxOutputLength: Math.max(length, 1) }),
  BROTLI: (bytes, length) =>
    length > AT_ONCE_BYTES
      ? inChunks(zlib.createBrotliDecompress(CHUNKS), bytes, length)
      : zlib.brotliDecompressSync(bytes, { maxOutputLength: Math.max(length, 1) }),
  LZ4_RAW: compressors.LZ4_RAW,
  ZSTD: (bytes, length) =>
    length > AT_ONCE_BYTES && createZstdDecompress
      ? inChunks(createZstdDecompress(CHUNKS), bytes, length)
      : (zstdDecompressSync?.(bytes, { maxOutputLength: Math.max(length, 1) }) ??
        decompressZstd(bytes, new Uint8Array(length))),
};

const BY_JAVASCRIPT: ReadonlySet<string> = new Set(['SNAPPY', 'LZ4_RAW', ...(createZstdDecompress ? [] : ['ZSTD'])]);

/**
 * Puts what a decompressor hands over where it belongs, each piece in a turn of the event loop of its own: what Node
 * itself would put together takes tens of milliseconds for a large page, and the page's memory twice.
 * @throws Error for more than was said
 */
async function inChunks(decompressor: Transform, bytes: Uint8Array, length: number): Promise<Uint8Array> {
  const page = new Uint8Array(length);
  let at = 0;
  decompressor.end(bytes);
  for await (const chunk of decompressor as AsyncIterable<Uint8Array>) {
    if (chunk.length > length - at)
      throw new Error(`a page has more than the ${length} bytes, decompressed, that its header says`);
    page.set(chunk, at);
    at += chunk.length;
  }
  return page.subarray(0, at);
}

type Answer = { readonly page: Uint8Array } | { readonly bytes: Uint8Array };

/** @throws what the decompressor throws */
async function onThread(
  work: {
    readonly module: string;
    readonly codec: string;
    readonly bytes: Uint8Array<ArrayBuffer>;
    readonly length: number;
  },
  otherwise: Decompress,
): Promise<Uint8Array> {
  const worker = new Worker(THREAD, {
    eval: true,
    // The program's own flags, and those of NODE_OPTIONS, may say that what is evaluated is a module, or load others.
    execArgv: [],
    env: {},
    workerData: work,
    transferList: [work.bytes.buffer],
  });
  try {
    const [answer] = (await once(worker, 'message')) as [Answer];
    return 'page' in answer ? answer.page : await otherwise(answer.bytes, work.length);
  } finally {
    await worker.terminate();
  }
}

/**
 * Gives the content of a page, in memory of its own.
 * @param length that it is said to have, decompressed; within the limits
 * @throws Error unless it is so; what the decompressor throws
 */
export async function decompressPage(
  bytes: Uint8Array<ArrayBuffer>,
  length: number,
  codec: string,
): Promise<Uint8Array<ArrayBuffer>> {
  const decompress = DECOMPRESS[codec];
  if (decompress === undefined)
    throw new Error(`it is compressed as ${codec}, expected one of ${Object.keys(DECOMPRESS).join(', ')}`);
  const { resolve } = import.meta as { readonly resolve?: (name: string) => string };
  const module = length > ON_THREAD_BYTES && BY_JAVASCRIPT.has(codec) ? resolve?.('hyparquet-compressors') : undefined;
  const page =
    length === 0
      ? new Uint8Array()
      : await (module === undefined
          ? decompress(bytes, length)
          : onThread({ module, codec, bytes, length }, decompress));
  if (page.length !== length)
    throw new Error(`a page has ${page.length} bytes decompressed, expected ${length}, as its header says`);
  const alone = page.byteOffset === 0 && page.buffer instanceof ArrayBuffer && page.buffer.byteLength === page.length;
  return alone ? new Uint8Array(page.buffer) : new Uint8Array(page);
}
