import { createHash } from 'node:crypto';
import { stat, statfs } from 'node:fs/promises';
import { dirname, join, resolve } from 'node:path';
import type { MachineFacts } from '../bindings/Addon.js';
import { addonFingerprint } from '../bindings/addonFingerprint.js';
import { loadAddon } from '../bindings/loadAddon.js';
import { SpillwayError } from '../errors/SpillwayError.js';
import { readJsonObject } from '../model/files/readJson.js';
import { replaceFile } from '../files/atomicFile.js';
import { userCacheFolder } from '../files/userFolders.js';
import { defaultDiskFolder } from '../engine/open/diskFolder.js';
import {
  type HardwareProfile,
  type MachineIdentity,
  MATMUL_WEIGHTS,
  checkSameMachine,
  parseHardware,
} from '../plan/HardwareProfile.js';
import { correctionsOf } from '../engine/calibration/learn.js';
import { correctionsPath, readCorrections } from '../engine/calibration/correctionsFile.js';
import { disturbedWords } from './disturbance.js';
import { freeMemory } from './freeMemory.js';
import {
  checkProfileOptions,
  diskBytesOf,
  gpuOf,
  identityOfGpu,
  profileMachine,
  type ProfileOptions,
} from './profileMachine.js';
import { makeFolder } from '../files/makeFolder.js';

const MOST_BYTES = 2 ** 20;
/** So long a profile of a machine that was busy is gone by. */
const DISTURBED_MILLISECONDS = 600_000;
/** The key leaves out what the memory varies by from one boot to the next; `checkSameMachine` looks at it. */
const MEMORY_STEP = 2 ** 28;

/**
 * The profile of this machine: measured by the first who asks and kept in the user's cache folder, for this processor,
 * its count (affinity and cgroup included), memory, instruction sets, version of the package and build of its addon,
 * file system of the disk folder and number of threads; with `gpuMemory` also for the GPU by name, memory and driver.
 * However little effort (`budget`) it was measured with, it is used until somebody measures again; one of all weights
 * and the disk serves those who ask for less (`weights`, `diskBytes` 0). What memory and disk have free is looked up
 * each time. A kept file that is of another machine or damaged is measured again. What runs
 * since then taught is in its `corrections`.
 *
 * @throws UsageError, NativeError, InterruptedError as `profileMachine`
 */
export async function cachedProfile(options: ProfileOptions = {}): Promise<HardwareProfile> {
  checkProfileOptions(options);
  const machine = loadAddon().machine();
  const gpu = gpuOf(options.gpuMemory, machine);
  const found = await keptProfile(options, machine);
  if (found === undefined) {
    const measured = await refreshProfile(options);
    if (measured.disturbed !== undefined) options.onNote?.(disturbedWords(measured.disturbed));
    return measured;
  }
  const { path, kept } = found;
  const disk = kept.links.diskReadBytesPerSecond === undefined ? undefined : (options.disk ?? defaultDiskFolder());
  if (kept.disturbed !== undefined) options.onNote?.(disturbedWords(kept.disturbed));
  const { learned, ignored } = await readCorrections(correctionsPath(path), kept);
  if (ignored !== undefined) options.onNote?.(ignored);
  const corrections = correctionsOf(learned);
  return { ...kept, ...(corrections && { corrections }), memory: await freeMemory(machine, disk, gpu?.capBytes) };
}

/**
 * Measures this machine, and keeps the profile for whoever calls `cachedProfile` next; what runs taught was about the
 * one before. Where the cache folder cannot be written it is not kept; one of a
 * machine that was busy meanwhile is marked, and measured again by whoever comes after ten minutes.
 * @throws UsageError, NativeError, InterruptedError as `profileMachine`
 */
export async function refreshProfile(options: ProfileOptions = {}): Promise<HardwareProfile> {
  const profile = await profileMachine(options);
  const path = await profilePath(options, loadAddon().machine());
  // Not being able to keep it costs the next one some seconds, and this one nothing.
  try {
    makeFolder(dirname(path));
    await replaceFile(path, `${JSON.stringify(profile, undefined, 2)}\n`);
  } catch {
    // It is measured again.
  }
  return profile;
}

/** Where the profile is kept that `cachedProfile` gives; where there is none yet, where it will be. */
export async function keptProfilePath(options: ProfileOptions, machine: MachineFacts): Promise<string> {
  return (await keptProfile(options, machine))?.path ?? profilePath(options, machine);
}

/** The first good one of the profiles that have all that is asked for: the whole one, then that of these options. */
async function keptProfile(
  options: ProfileOptions,
  machine: MachineFacts,
): Promise<{ readonly path: string; readonly kept: HardwareProfile } | undefined> {
  const gpu = gpuOf(options.gpuMemory, machine);
  const identity = { ...machine, ...(gpu && identityOfGpu(gpu.facts)) };
  const whole = { ...options, weights: undefined, diskBytes: undefined };
  for (const path of new Set([await profilePath(whole, machine), await profilePath(options, machine)])) {
    const kept = await readProfile(path, identity);
    if (kept !== undefined) return { path, kept };
  }
  return undefined;
}

/** Where a profile of this machine is kept, once it was measured with these options. @internal exported for tests */
export async function profilePath(options: ProfileOptions, machine: MachineFacts): Promise<string> {
  const { processorName, processors, processorSeconds, memoryBytes, instructionSets, cacheBytes } = machine;
  const { disk = defaultDiskFolder(), threads, gpuMemory, weights } = options;
  const gpu = gpuOf(gpuMemory, machine)?.facts;
  const key = JSON.stringify([
    loadAddon().version,
    addonFingerprint(),
    processorName,
    processors,
    processorSeconds,
    Math.round(memoryBytes / MEMORY_STEP),
    instructionSets,
    cacheBytes,
    diskBytesOf(options.diskBytes) > 0 ? await fileSystemOf(disk) : 'none',
    threads ?? processors,
    // How much of it a run may use says nothing of its speed.
    ...(gpu ? [gpu.name, gpu.memoryBytes, gpu.driver] : []),
    ...(weights ? [MATMUL_WEIGHTS.filter((kind) => weights.includes(kind))] : []),
  ]);
  return join(userCacheFolder(), 'profiles', `${createHash('sha256').update(key).digest('hex').slice(0, 24)}.json`);
}

/** The file system that a folder is on, or will be. */
async function fileSystemOf(folder: string): Promise<string> {
  for (let path = resolve(folder); ; path = dirname(path)) {
    try {
      const [{ dev }, { type, blocks, bsize }] = await Promise.all([stat(path), statfs(path)]);
      return [dev, type, blocks * bsize].join(':');
    } catch {
      if (dirname(path) === path) return 'unknown';
    }
  }
}

/** Reads the kept profile, if there is one and it is good. */
async function readProfile(path: string, machine: MachineIdentity): Promise<HardwareProfile | undefined> {
  try {
    const profile = parseHardware(await readJsonObject(path, MOST_BYTES), path);
    checkSameMachine(profile, machine);
    // Others are done by now, perhaps; measuring for each run of a machine that stays busy would only add to that.
    if (profile.disturbed !== undefined && Date.now() - (await stat(path)).mtimeMs > DISTURBED_MILLISECONDS)
      return undefined;
    // A file that somebody has written by hand may lack the GPU.
    if (machine.gpuName !== undefined && profile.gpu === undefined) return undefined;
    // What runs taught has a file of its own.
    const { corrections: _, ...measured } = profile;
    return measured;
  } catch (error) {
    if (error instanceof SpillwayError) return undefined;
    throw error;
  }
}
