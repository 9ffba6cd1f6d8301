import { createHash, type Hash } from 'node:crypto';
import { createReadStream } from 'node:fs';
import { stat, statfs } from 'node:fs/promises';
import { dirname } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { formatBytes } from '../../units.js';
import { folderRemedy } from '../pull/describeFailure.js';
import { PartialFile, removeParts } from '../pull/PartialFile.js';
import type { Patience } from '../pull/TimedFetch.js';
import { askHub, HubRefusal } from './hubRequest.js';
import type { HubSettings } from './hubSettings.js';
import type { HubFile } from './listHubFiles.js';

export interface BlobDownload {
  readonly file: HubFile;
  readonly url: string;
  /** Where the blob goes. */
  readonly target: string;
  readonly settings: HubSettings;
  readonly patience: Patience;
  readonly signal: AbortSignal;
  /** Read a blob that is there, instead of comparing its length alone. */
  readonly verify: boolean;
  /** Called with the bytes that are there, now and then. */
  readonly onBytes: (bytes: number) => void;
}

/** Attempts that get no byte further, one after another. */
const MOST_IDLE = 4;
const MOST_ATTEMPTS = 200;
/** Seconds between them: at first, and at most. */
const PAUSE = { first: 0.25, most: 8 };
/** A hub that wants to be left alone for longer is taken at its word. */
const MOST_WAIT_SECONDS = 60;

/** The file is not what the hub said that it is. */
export class WrongBytes extends Error {}

/** The folder of the cache cannot take the file. */
export class FolderFault extends Error {}

/**
 * Fetches a file into the cache, unless it is there: goes on where an earlier attempt ended, in this process or
 * another, tries again where the connection breaks off, and puts the file in its place only when its hash is right.
 * @throws WrongBytes, FolderFault; HubRefusal and others when it has been tried often enough; the signal's reason
 */
export async function downloadBlob(download: BlobDownload): Promise<void> {
  const { file, target, signal, verify, onBytes, patience } = download;
  if (await isThere(file, target, verify)) {
    await removeParts(target).catch(() => undefined);
    onBytes(file.bytes);
    return;
  }
  await using partial = await PartialFile.open(target, file.bytes, () => hashOf(file)).catch(folderFailure);
  await checkRoom(target, file.bytes - partial.bytes);
  let [idle, wrong] = [0, 0];
  for (let attempt = 1; ; attempt++) {
    const before = partial.bytes;
    try {
      if (partial.bytes < file.bytes) await fetchRest(download, partial, idle < MOST_IDLE);
      if (partial.digest() === file.hash.digest) break;
      await partial.clear();
      throw new WrongBytes(`its bytes have another ${file.hash.kind === 'git' ? 'hash' : 'sha256'} than it says`);
    } catch (error) {
      signal.throwIfAborted();
      // Once more from the beginning: what was there from an earlier attempt may have been at fault.
      if (error instanceof WrongBytes ? ++wrong > 1 : isFinal(error)) throw error;
      idle = partial.bytes > before ? 0 : idle + 1;
      if (idle > MOST_IDLE || attempt >= MOST_ATTEMPTS) throw error;
      const asked = error instanceof HubRefusal ? error.retryAfter : undefined;
      if (asked !== undefined && asked > MOST_WAIT_SECONDS) throw error;
      await sleep(1000 * (asked ?? Math.min(PAUSE.most, (patience.pause ?? PAUSE.first) * 2 ** idle)), undefined, {
        signal,
      });
    }
  }
  await partial.commit().catch(folderFailure);
  onBytes(file.bytes);
}

/** @param keeps what is there is not given up for an answer that begins anew and may be no file at all */
async function fetchRest(
  { file, url, settings, patience, signal, onBytes }: BlobDownload,
  partial: PartialFile,
  keeps: boolean,
): Promise<void> {
  const answer = await askHub(
    url,
    settings,
    patience,
    signal,
    partial.bytes > 0 ? { range: `bytes=${partial.bytes}-` } : {},
  );
  const [, first, total] = /^bytes (\d+)-\d+\/(\d+|\*)$/.exec(answer.headers.get('content-range') ?? '') ?? [];
  const length = Number(answer.headers.get('content-length') ?? NaN);
  if (answer.status === 206 && (Number(first) !== partial.bytes || (total !== '*' && Number(total) !== file.bytes))) {
    throw new WrongBytes(
      `it sent a part that does not fit: ${(answer.headers.get('content-range') ?? 'no range').slice(0, 80)}`,
    );
  }
  // Who cannot begin in the middle begins anew.
  if (answer.status !== 206) {
    if (Number.isFinite(length) && length !== file.bytes)
      throw new WrongBytes(`its file has ${length} bytes, expected ${file.bytes}`);
    if (partial.bytes > 0 && keeps && !Number.isFinite(length))
      throw new Error('it did not go on where the transfer had ended');
    await partial.clear();
  }
  for await (const chunk of answer.read()) {
    // Stopped before the disk fills, whatever is sent.
    if (partial.bytes + chunk.byteLength > file.bytes) {
      await partial.clear();
      throw new WrongBytes(`it sent more than the ${file.bytes} bytes of the file`);
    }
    await partial.append(chunk).catch(folderFailure);
    onBytes(partial.bytes);
  }
  if (partial.bytes < file.bytes) throw new Error(`the transfer ended after ${partial.bytes} of ${file.bytes} bytes`);
}

/** Errors that another attempt would meet again. */
function isFinal(error: unknown): boolean {
  return (
    error instanceof FolderFault ||
    (error instanceof HubRefusal && error.status < 500 && error.status !== 429 && error.status !== 408)
  );
}

/** @throws FolderFault */
function folderFailure(error: unknown): never {
  const remedy = folderRemedy(error);
  throw remedy === undefined ? error : new FolderFault(remedy, { cause: error });
}

async function checkRoom(target: string, bytes: number): Promise<void> {
  const folder = dirname(target);
  const system = await statfs(folder).catch(() => undefined);
  if (system === undefined) return;
  const free = system.bavail * system.bsize;
  if (free < bytes)
    throw new FolderFault(`${formatBytes(bytes)} are to come, and its disk has ${formatBytes(free)} free`);
}

async function isThere(file: HubFile, target: string, verify: boolean): Promise<boolean> {
  const size = await stat(target).then(
    (facts) => (facts.isFile() ? facts.size : -1),
    () => -1,
  );
  if (size !== file.bytes || !verify) return size === file.bytes;
  const hash = hashOf(file);
  for await (const chunk of createReadStream(target, { highWaterMark: 1 << 20 })) hash.update(chunk as Buffer);
  return hash.digest('hex') === file.hash.digest;
}

/** Git counts a file's length, too. */
function hashOf({ bytes, hash }: HubFile): Hash {
  return hash.kind === 'git' ? createHash('sha1').update(`blob ${bytes}\0`) : createHash('sha256');
}
