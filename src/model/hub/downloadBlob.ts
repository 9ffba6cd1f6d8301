import { createHash, type Hash } from 'node:crypto';
import { statfs } from 'node:fs/promises';
import { dirname } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { formatBytes } from '../../units.js';
import { folderRemedy } from '../pull/describeFailure.js';
import { isThere, PartialFile, removeParts, WrongBytes } from '../pull/PartialFile.js';
import { askRest, type AskedFile } from './askRest.js';
import { HubRefusal } from './hubRequest.js';
import type { HubFile } from './listHubFiles.js';

export interface BlobDownload extends Omit<AskedFile, 'bytes'> {
  readonly file: HubFile;
  /** Where the blob goes. */
  readonly target: string;
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

/** The folder of the cache cannot take the file. */
export class FolderFault extends Error {}

/**
 * Fetches a file into the cache, unless it is there: goes on where an earlier attempt ended, in this process or
 * another, tries again where the connection breaks off, and puts the file in its place only when its hash is right.
 * @throws WrongBytes, FolderFault; HubRefusal and others when it has been tried often enough; the signal's reason
 */
export async function downloadBlob(download: BlobDownload): Promise<void> {
  const { file, target, signal, verify, onBytes, patience } = download;
  const whole = { bytes: file.bytes, digest: file.hash.digest, newHash: () => hashOf(file) };
  if (await isThere(target, whole, verify)) {
    await removeParts(target).catch(() => undefined);
    onBytes(file.bytes);
    return;
  }
  await using partial = await PartialFile.open(target, file.bytes, whole.newHash).catch(folderFailure);
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
  { file, onBytes, ...asked }: BlobDownload,
  partial: PartialFile,
  keeps: boolean,
): Promise<void> {
  const rest = await askRest({ ...asked, bytes: file.bytes }, partial.bytes);
  if (rest.offset !== partial.bytes) {
    if (keeps && !rest.sized) {
      await rest.cancel();
      throw new Error('it did not go on where the transfer had ended');
    }
    await partial.clear();
  }
  await partial.fill(rest.chunks, onBytes).catch(folderFailure);
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

/** Git counts a file's length, too. */
function hashOf({ bytes, hash }: HubFile): Hash {
  return hash.kind === 'git' ? createHash('sha1').update(`blob ${bytes}\0`) : createHash('sha256');
}
