import { access, copyFile, readdir, rm, stat } from 'node:fs/promises';
import { join } from 'node:path';
import { fileFailure } from '../../files/fileErrors.js';
import { recordPath } from '../output/sidecarFiles.js';
import { shardPath } from '../shards/Shard.js';
import type { JobManifest } from './JobManifest.js';
import { isAttempt } from './shardStates.js';
import { makeFolder } from '../../files/makeFolder.js';

// Where attempts at shards leave their parts: PARTS/ID/SHARD/ATTEMPT/part-SHARD-of-COUNT.jsonl. Each attempt has a
// folder of its own, so that a worker that comes late, whatever it still writes, writes into none of somebody else's.

/** The name of a part: lines of JSON, whatever the output is to be. */
const PART = 'part.jsonl';

/** Beside it: which rows are under way. */
const MARK = 'under-way';

const FULL: readonly unknown[] = ['ENOSPC', 'EDQUOT', 'EROFS'];

/** Which shard of which job. */
export interface ShardPlace {
  /** The folder of all parts, as this machine sees it. */
  readonly parts: string;
  readonly manifest: Pick<JobManifest, 'id' | 'shards'>;
  readonly shard: number;
}

/** The part of an attempt. */
export function partPath(place: ShardPlace, attempt: string): string {
  const { manifest, shard } = place;
  return join(attemptFolder(place, attempt), shardPath(PART, { index: shard, count: manifest.shards.count }));
}

/** Where an attempt notes which rows it has under way, and where the others have. */
export async function markPaths(
  place: ShardPlace,
  attempt: string,
): Promise<{ readonly own: string; readonly others: readonly string[] }> {
  const of = (each: string): string => join(attemptFolder(place, each), MARK);
  return { own: of(attempt), others: (await attemptsAt(place)).filter((each) => each !== attempt).map(of) };
}

/** Makes the folder of an attempt. @throws JobFileError */
export function makeAttempt(place: ShardPlace, attempt: string): void {
  const folder = attemptFolder(place, attempt);
  try {
    makeFolder(folder);
  } catch (error) {
    throw fileFailure(folder, 'made', error);
  }
}

/** Tells whether nobody has removed what an attempt has left. */
export function isThere(place: ShardPlace, attempt: string): Promise<boolean> {
  return access(attemptFolder(place, attempt)).then(
    () => true,
    () => false,
  );
}

/** Removes what an attempt has left. What cannot be removed stays, and is nothing to anybody. */
export async function removeAttempt(place: ShardPlace, attempt: string): Promise<void> {
  await rm(attemptFolder(place, attempt), { recursive: true, force: true }).catch(() => undefined);
}

export async function removeOtherAttempts(place: ShardPlace, kept: string): Promise<void> {
  for (const attempt of await attemptsAt(place)) if (attempt !== kept) await removeAttempt(place, attempt);
}

/**
 * Takes over what an earlier attempt has finished: the largest part that there is, as a copy, so that it does not
 * matter whether its worker is at work still. Its record comes first: lines that are added meanwhile are that record's,
 * too, and one that is there in part is not read by whoever goes on.
 * @returns whether there was one
 * @throws JobFileError
 */
export async function takeOver(place: ShardPlace, attempt: string): Promise<boolean> {
  const own = partPath(place, attempt);
  const others = await Promise.all(
    (await attemptsAt(place))
      .filter((other) => other !== attempt)
      .map(async (other) => {
        const part = partPath(place, other);
        return { part, bytes: (await stat(part).catch(() => undefined))?.size ?? 0 };
      }),
  );
  const [most] = others.sort((a, b) => b.bytes - a.bytes);
  if (most === undefined || most.bytes === 0) return false;
  try {
    await copyFile(recordPath(most.part), recordPath(own));
    await copyFile(most.part, own);
    return true;
  } catch (error) {
    await startAnew(place, attempt);
    // A full disk is no reason to do all of it once more.
    if (FULL.includes((error as NodeJS.ErrnoException).code)) throw fileFailure(own, 'written', error);
    // It was removed meanwhile, or its run was killed as it began.
    return false;
  }
}

/** Removes what an attempt has taken over. @throws JobFileError */
export async function startAnew(place: ShardPlace, attempt: string): Promise<void> {
  await removeAttempt(place, attempt);
  makeAttempt(place, attempt);
}

function shardFolder({ parts, manifest, shard }: ShardPlace): string {
  return join(parts, manifest.id, String(shard).padStart(5, '0'));
}

function attemptFolder(place: ShardPlace, attempt: string): string {
  return join(shardFolder(place), attempt);
}

async function attemptsAt(place: ShardPlace): Promise<readonly string[]> {
  return (await readdir(shardFolder(place)).catch(() => [])).filter(isAttempt);
}
