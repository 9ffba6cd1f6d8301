import { readdir } from 'node:fs/promises';
import { fileURLToPath } from 'node:url';
import { found } from '../arguments/found.js';
import { UsageError } from '../errors/UsageError.js';
import { readJsonObject } from '../model/files/readJson.js';
import { packageRoot } from '../packageRoot.js';
import { parseChip, type ChipProfile } from '../plan/partitioning/ChipProfile.js';
import { parseHardware, type HardwareProfile } from '../plan/HardwareProfile.js';
import { cachedProfile } from './cachedProfile.js';
import { disturbedWords } from './disturbance.js';
import type { ProfileOptions } from './profileMachine.js';

/** The package's own hardware files: of machines, and of chips that share a model. */
const builtIn = (file: string): URL => new URL(`hardware/${file}`, packageRoot().folder);
const MOST_BYTES = 4 * 2 ** 20;
const ENDINGS = { machine: '.json', chip: '.chip.json' } as const;

/** Names of the machines, or of the chips, that come with the package. */
export async function builtInHardware(kind: keyof typeof ENDINGS = 'machine'): Promise<string[]> {
  return (await readdir(builtIn('')))
    .filter((name) => name.endsWith(ENDINGS[kind]) && (kind === 'chip' || !name.endsWith(ENDINGS.chip)))
    .map((name) => name.slice(0, -ENDINGS[kind].length))
    .sort();
}

/**
 * A machine by name or file; `this` is the one that this runs on, measured once and remembered (`cachedProfile`).
 * @param options how to measure it, where that is still to be done
 * @throws UsageError for a name that is not known
 * @throws PlanFileError, ModelFileError for a file that cannot be used
 * @throws NativeError, InterruptedError where measuring fails or is interrupted
 */
export async function readHardware(nameOrFile: string, options: ProfileOptions = {}): Promise<HardwareProfile> {
  if (nameOrFile === 'this') return cachedProfile(options);
  const names = await builtInHardware();
  if (names.includes(nameOrFile)) return readProfileFile(fileURLToPath(builtIn(`${nameOrFile}.json`)), nameOrFile);
  const profile = await readHardwareFile(nameOrFile, names);
  if (profile.disturbed !== undefined) options.onNote?.(disturbedWords(profile.disturbed));
  return profile;
}

/**
 * A machine by file alone: for whoever is about to run on it, which nobody does on the package's own.
 * @param names that the caller knows beside `this`, for the message
 * @throws UsageError for a word that is no path
 * @throws PlanFileError, ModelFileError for a file that cannot be used
 */
export async function readHardwareFile(file: string, names: readonly string[] = []): Promise<HardwareProfile> {
  if (typeof file !== 'string' || !/[\\/.]/.test(file)) {
    throw new UsageError(
      `hardware: found ${found(file)}, expected ${['this', ...names].join(', ')}, or a file (./NAME for one of that name)`,
    );
  }
  return readProfileFile(file, file);
}

/**
 * A chip by name or file, of which several are to share a model.
 * @throws UsageError for a name that is not known
 * @throws PlanFileError, ModelFileError for a file that cannot be used
 */
export async function readChip(nameOrFile: string): Promise<ChipProfile> {
  const names = await builtInHardware('chip');
  const read = async (path: string): Promise<ChipProfile> =>
    parseChip(await readJsonObject(path, MOST_BYTES), nameOrFile);
  if (names.includes(nameOrFile)) return read(fileURLToPath(builtIn(`${nameOrFile}${ENDINGS.chip}`)));
  if (typeof nameOrFile !== 'string' || !/[\\/.]/.test(nameOrFile))
    throw new UsageError(`hardware: found ${found(nameOrFile)}, expected a chip: ${names.join(', ')}, or a file`);
  return read(nameOrFile);
}

async function readProfileFile(path: string, name: string): Promise<HardwareProfile> {
  return parseHardware(await readJsonObject(path, MOST_BYTES), name);
}
