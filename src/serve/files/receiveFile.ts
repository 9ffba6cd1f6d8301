import { Busboy } from '@fastify/busboy';
import { on } from 'node:events';
import { createWriteStream } from 'node:fs';
import { open, rm } from 'node:fs/promises';
import { pipeline } from 'node:stream/promises';
import { formatBytes } from '../../units.js';
import { ApiError } from '../http/ApiError.js';
import { checkBody } from '../http/bodies.js';
import { ClientGone } from '../http/EventStream.js';
import type { Exchange } from '../http/Exchange.js';
import { type FileStore, newFileId, PURPOSES, type StoredFile } from './FileStore.js';

/** Bytes that go round a file in a body: names, boundaries, and fields that are no file. */
const ROUND_BYTES = 2 ** 16;
const LIMITS = {
  files: 1,
  fields: 16,
  parts: 17,
  fieldNameSize: 100,
  fieldSize: 1024,
  headerPairs: 32,
  headerSize: 8192,
};
/** Pieces of a body, of 64 KiB at most, that may wait for the disk. */
const PIECES = 16;
/** How long a file may be kept that says so itself: an hour to thirty days, as OpenAI has it. */
const [LEAST_SECONDS, MOST_SECONDS] = [3600, 2_592_000];
const MOST_NAME_UNITS = 255;

/**
 * Takes a file of `multipart/form-data` into the store, piece by piece as it comes.
 * @throws ApiError for a body that is none, has no file or no purpose, or is larger than it may be; the file system's
 * errors. Nothing is left of it then
 */
export async function receiveFile(exchange: Exchange, store: FileStore): Promise<StoredFile> {
  const { request, limits } = exchange;
  const { uploadBytes, uploadSeconds, stallSeconds } = limits;
  checkBody(request, 'multipart/form-data', uploadBytes + ROUND_BYTES);
  store.checkRoom(Number(request.headers['content-length'] ?? 0));
  exchange.greet();
  const id = newFileId();
  const part = store.partOf(id);
  const fields = new Map<string, string>();
  const ending = new AbortController();
  let received: Promise<void> | undefined;
  let filename = 'file';
  let problem: ApiError | undefined;
  const refuse = (message: string, status = 400, code = 'invalid_multipart'): void => {
    problem ??= new ApiError(status, message, { code });
    ending.abort();
  };
  const form = formOf(request.headers, uploadBytes);
  form.on('field', (name, value, _nameCut, cut) => {
    if (cut) refuse(`found a field of more than ${LIMITS.fieldSize} bytes`);
    fields.set(name, value);
  });
  form.on('file', (name, stream, called) => {
    if (name !== 'file') refuse('found a file in another field, expected it in `file`');
    filename = nameOf(called);
    stream.once('limit', () =>
      refuse(`the file has more than ${formatBytes(uploadBytes)}, expected at most that`, 413, 'body_too_large'),
    );
    received = pipeline(stream, createWriteStream(part, { flags: 'wx', mode: 0o600 }), { signal: ending.signal });
    // It is awaited below; who sends is not to go on until then.
    received.catch(() => ending.abort());
  });
  for (const event of ['partsLimit', 'filesLimit', 'fieldsLimit'] as const)
    form.on(event, () => refuse('found more parts than one file and some fields'));
  const late = setTimeout(
    () => refuse(`the file did not come within ${uploadSeconds} s`, 408, 'timeout'),
    uploadSeconds * 1000,
  );
  // Of the request, not of its socket, which Node would close, and which may bring any number of files.
  request.setTimeout(stallSeconds * 1000, () =>
    refuse(`nothing came of the file for ${stallSeconds} s`, 408, 'timeout'),
  );
  try {
    await pipeline(
      async function* () {
        let bytes = 0;
        // Not by the request's own iterator, which nothing ends while it waits for what may never come.
        const body = on(request, 'data', { close: ['end', 'close'], highWaterMark: PIECES, signal: ending.signal });
        for await (const [chunk] of body as AsyncIterable<[Buffer]>) {
          bytes += chunk.length;
          if (bytes > uploadBytes + ROUND_BYTES)
            throw new ApiError(413, `the body has more than ${formatBytes(uploadBytes)}, expected at most that`, {
              code: 'body_too_large',
            });
          store.checkRoom(bytes);
          yield chunk;
        }
      },
      form,
      { signal: ending.signal },
    );
    if (problem) throw problem;
    if (!received)
      throw new ApiError(400, 'found no file, expected one in the field `file`', {
        code: 'invalid_multipart',
        param: 'file',
      });
    await received;
    const file = described(id, filename, fields, await synced(part));
    await store.received(file);
    return file;
  } catch (error) {
    // What has come of the file may wait for the rest.
    ending.abort();
    await received?.catch(() => undefined);
    await rm(part, { force: true });
    if (exchange.signal.aborted) throw exchange.signal.reason;
    throw problem ?? ofSender(error);
  } finally {
    clearTimeout(late);
    request.setTimeout(0);
  }
}

function formOf(headers: Exchange['request']['headers'], uploadBytes: number): Busboy {
  try {
    return new Busboy({
      headers: { ...headers, 'content-type': headers['content-type'] ?? '' },
      limits: { ...LIMITS, fileSize: uploadBytes },
    });
  } catch {
    throw new ApiError(400, 'Content-Type: found no boundary, expected one', { code: 'invalid_multipart' });
  }
}

/** A body that ends before its end, or is no form, is the sender's; what the disk says is ours. */
function ofSender(error: unknown): unknown {
  const fromSystem = error instanceof Error && 'errno' in error;
  if (error instanceof ApiError || error instanceof ClientGone || fromSystem) return error;
  return new ApiError(400, 'found what is no form with a file, expected multipart/form-data', {
    code: 'invalid_multipart',
    cause: error,
  });
}

/** @throws ApiError for fields that say nothing that is known */
function described(id: string, filename: string, fields: ReadonlyMap<string, string>, bytes: number): StoredFile {
  const purpose = fields.get('purpose');
  if (purpose === undefined || !(PURPOSES as readonly string[]).includes(purpose))
    throw new ApiError(400, `purpose: expected one of ${PURPOSES.join(', ')}`, {
      code: 'invalid-parameter',
      param: 'purpose',
    });
  const created = Math.floor(Date.now() / 1000);
  const seconds = fields.get('expires_after[seconds]');
  if (seconds !== undefined && !(Number(seconds) >= LEAST_SECONDS && Number(seconds) <= MOST_SECONDS))
    throw new ApiError(400, `expires_after[seconds]: expected ${LEAST_SECONDS} to ${MOST_SECONDS}`, {
      code: 'invalid-parameter',
      param: 'expires_after',
    });
  return {
    id,
    object: 'file',
    bytes,
    created_at: created,
    ...(seconds !== undefined && { expires_at: created + Math.floor(Number(seconds)) }),
    filename,
    purpose,
    status: 'processed',
  };
}

/** Gives the shown part of a name: it is no path of ours. */
function nameOf(called: string | undefined): string {
  const name = (called ?? '').replace(/^.*[\\/]/s, '').replace(/\p{Cc}/gu, '');
  return name === '' ? 'file' : name.slice(0, MOST_NAME_UNITS);
}

/** Has the disk keep what was written. @returns how many bytes */
async function synced(path: string): Promise<number> {
  const handle = await open(path, 'r+');
  try {
    await handle.sync();
    return (await handle.stat()).size;
  } finally {
    await handle.close();
  }
}
