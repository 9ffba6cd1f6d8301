import { createHash } from 'node:crypto';
import { existsSync } from 'node:fs';
import { dirname } from 'node:path';
import * as z from 'zod';
import { SpillwayError } from '../../errors/SpillwayError.js';
import { readJsonObject } from '../../model/files/readJson.js';
import { replaceFile } from '../../files/atomicFile.js';
import { learn, type Learned, type WorkDone } from './learn.js';
import { areCorrections, CORRECTIONS_WORDS, WORK_KIND } from '../../plan/corrections.js';
import type { HardwareProfile } from '../../plan/HardwareProfile.js';
import { parsedFile } from '../../plan/parsed.js';
import { makeFolder } from '../../files/makeFolder.js';

const MOST_BYTES = 2 ** 18;
const FORMAT = 'spillway-corrections-1';

const fileSchema = z.strictObject({
  format: z.literal(FORMAT),
  /** The profile that the ratios are to. */
  profile: z.string().max(100),
  learned: z
    .record(
      z.string().regex(WORK_KIND),
      z.strictObject({
        logRatio: z.number(),
        lastLogRatio: z.number(),
        weight: z.number().min(0).max(1000),
        runs: z.int().min(1),
      }),
    )
    .refine((kinds) => [factorsOf(kinds, 'logRatio'), factorsOf(kinds, 'lastLogRatio')].every(areCorrections), {
      error: `expected logarithms of ${CORRECTIONS_WORDS}`,
    }),
});

/** @returns factors; rounding may have made one a hair larger than the largest, which is meant to pass */
function factorsOf(kinds: Learned, of: 'logRatio' | 'lastLogRatio'): Record<string, number> {
  return Object.fromEntries(Object.entries(kinds).map(([kind, known]) => [kind, Math.exp(known[of] * (1 - 1e-12))]));
}

/** The lessons of runs on this machine, as they are kept beside the machine's profile. */
export interface KeptCorrections {
  readonly learned: Learned;
  /** Why a file that is there is not used, in a line. */
  readonly ignored?: string;
}

/** Where the corrections of a kept profile are kept. */
export function correctionsPath(profilePath: string): string {
  return profilePath.replace(/\.json$/, '.corrections.json');
}

/**
 * Tells a profile from one that was measured at another time: by its figures. What is free of memory and disk changes
 * all the time, and is not in it.
 */
export function profileFingerprint({ machine, links, diskRequests, cpu, gpu }: HardwareProfile): string {
  return createHash('sha256')
    .update(JSON.stringify([machine, links, diskRequests ?? [], cpu, ...(gpu ? [gpu] : [])]))
    .digest('hex')
    .slice(0, 32);
}

/**
 * Reads what is kept for a profile: nothing where there is no file, and where it is of a profile that was measured
 * before. A file that is damaged is not used, and the next run writes it anew.
 */
export async function readCorrections(path: string, profile: HardwareProfile): Promise<KeptCorrections> {
  if (!existsSync(path)) return { learned: {} };
  try {
    const value = await readJsonObject(path, MOST_BYTES);
    const kept = parsedFile(fileSchema, value, path);
    return { learned: kept.profile === profileFingerprint(profile) ? kept.learned : {} };
  } catch (error) {
    if (error instanceof SpillwayError)
      return { learned: {}, ignored: `${error.message}; what runs taught of this machine is not used` };
    throw error;
  }
}

/**
 * Adds a run to what is kept. Of processes that do so at once the last one wins; a reader sees one of them whole.
 * @returns what is known now, also where it cannot be kept
 */
export async function learnRun(
  path: string,
  profile: HardwareProfile,
  work: WorkDone,
  undisturbed: number,
): Promise<Learned> {
  const { learned } = await readCorrections(path, profile);
  const next = learn(learned, work, undisturbed);
  if (next === learned || Object.keys(next).length === 0) return next;
  const content = { format: FORMAT, profile: profileFingerprint(profile), learned: next };
  // Not being able to keep it costs later runs some accuracy, and this one nothing.
  try {
    makeFolder(dirname(path));
    await replaceFile(path, `${JSON.stringify(content, undefined, 2)}\n`);
  } catch {
    // They teach it again.
  }
  return next;
}
