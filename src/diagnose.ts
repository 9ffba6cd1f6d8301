import { readFile, statfs } from 'node:fs/promises';
import { release } from 'node:os';
import { dirname } from 'node:path';
import { getHeapStatistics } from 'node:v8';
import type { MachineFacts } from './bindings/Addon.js';
import { addonPath, loadAddon } from './bindings/loadAddon.js';
import { defaultDiskFolder } from './engine/open/diskFolder.js';
import { probeFolder } from './files/atomicFile.js';
import { userCacheFolder } from './files/userFolders.js';
import { describeFileError } from './files/fileErrors.js';
import { cachedModels } from './model/cachedModels.js';
import { hubCacheFolder } from './model/hub/hubSettings.js';
import { oldNode } from './oldNode.js';
import { packageRoot } from './packageRoot.js';
import { processLimits, type ProcessLimit } from './processLimits.js';

/**
 * The facts that there are to know of this machine for who runs Spillway on it. Whatever could not be found out says
 * why.
 */
export interface Diagnosis {
  /** The version. */
  readonly spillway: string;
  readonly node: { readonly version: string; readonly problem?: string | undefined };
  readonly system: string;
  readonly addon: { readonly path: string } | { readonly problem: string };
  /** Undefined without an addon. */
  readonly machine?: MachineFacts | undefined;
  readonly residentBytes: number;
  /** Where Linux says it. */
  readonly cgroup?: { readonly memoryLimit: string; readonly cpuLimit: string } | undefined;
  /** The limits of what the system lets this process have, where it is limited: `ulimit -v`, `ulimit -d`. */
  readonly limits: readonly ProcessLimit[];
  /** The most that V8 lets the JavaScript heap have: `--max-old-space-size`. */
  readonly heapLimitBytes: number;
  readonly gpuDriver: string | undefined;
  readonly folders: readonly {
    readonly what: string;
    readonly path: string;
    readonly freeBytes?: number | undefined;
    readonly problem?: string | undefined;
  }[];
  readonly models: readonly { readonly name: string; readonly bytes: number }[];
  readonly environment: Readonly<Record<string, string>>;
}

/** Variables that change what Spillway does; of secrets it is said that they are there. */
const VARIABLES = [
  'SPILLWAY_ADDON',
  'SPILLWAY_CUBLASLT',
  'XDG_CACHE_HOME',
  'HF_HOME',
  'HF_HUB_CACHE',
  'HF_HUB_OFFLINE',
  'OLLAMA_MODELS',
  'LMSTUDIO_MODELS',
  'NODE_OPTIONS',
  'CUDA_VISIBLE_DEVICES',
  'NO_PROXY',
  'no_proxy',
] as const;
const ADDRESSES = ['HF_ENDPOINT', 'HTTPS_PROXY', 'https_proxy', 'HTTP_PROXY', 'http_proxy'] as const;
const SECRETS = ['HF_TOKEN', 'HUGGING_FACE_HUB_TOKEN'] as const;

/**
 * Looks at this machine: what `spillway doctor` prints. Nothing is changed, no model is read.
 * @param environment of it, the variables that Spillway or what it builds on reads; of secrets, that they are there
 */
export async function diagnose(environment: NodeJS.ProcessEnv = process.env): Promise<Diagnosis> {
  const addon = addonFacts();
  return {
    spillway: packageRoot().version,
    node: { version: process.versions.node, problem: oldNode(process.versions.node) },
    system: `${process.platform} ${release()} ${process.arch}`,
    addon,
    machine: 'path' in addon ? loadAddon().machine() : undefined,
    residentBytes: process.memoryUsage.rss(),
    cgroup: await cgroupFacts(),
    limits: processLimits(),
    heapLimitBytes: getHeapStatistics().heap_size_limit,
    gpuDriver: await driverVersion(),
    folders: await Promise.all([
      folderFacts('models and what is known of this machine', userCacheFolder()),
      folderFacts('repacked models and what a run spills', defaultDiskFolder()),
      folderFacts('cache of the Hugging Face hub', hubCacheFolder()),
    ]),
    models: await cachedModels(),
    environment: {
      ...Object.fromEntries(VARIABLES.flatMap((name) => (environment[name] ? [[name, environment[name]]] : []))),
      ...Object.fromEntries(
        ADDRESSES.flatMap((name) => (environment[name] ? [[name, withoutCredentials(environment[name])]] : [])),
      ),
      ...Object.fromEntries(SECRETS.flatMap((name) => (environment[name] ? [[name, 'is set']] : []))),
    },
  };
}

/** An address may say who asks, and how they prove it, before its host. */
function withoutCredentials(value: string): string {
  return value.replace(/^([a-z]+:\/\/)?.*@/i, '$1***@');
}

function addonFacts(): Diagnosis['addon'] {
  try {
    return { path: addonPath() };
  } catch (error) {
    return { problem: error instanceof Error ? error.message : String(error) };
  }
}

/** A folder that is not there yet is made where it is needed: what counts is the one above it. */
async function folderFacts(what: string, path: string): Promise<Diagnosis['folders'][number]> {
  for (let place = path; ; place = dirname(place)) {
    const system = await statfs(place).catch(() => undefined);
    if (system === undefined && place !== dirname(place)) continue;
    const problem = await probeFolder(place).then(() => undefined, describeFileError);
    return { what, path, ...(system && { freeBytes: system.bavail * system.bsize }), problem };
  }
}

async function cgroupFacts(): Promise<Diagnosis['cgroup']> {
  const own = /^0::(.*)$/m.exec(await textOf('/proc/self/cgroup'))?.[1];
  if (own === undefined) return undefined;
  // Of a cgroup namespace its own root is all that is to be seen.
  const read = async (file: string): Promise<string> =>
    (await textOf(`/sys/fs/cgroup${own}/${file}`)) || (await textOf(`/sys/fs/cgroup/${file}`));
  const [memoryLimit, cpuLimit] = await Promise.all([read('memory.max'), read('cpu.max')]);
  return memoryLimit === '' && cpuLimit === ''
    ? undefined
    : { memoryLimit: memoryLimit.trim(), cpuLimit: cpuLimit.trim() };
}

async function driverVersion(): Promise<string | undefined> {
  return /Kernel Module\s+(?:for \S+\s+)?([\d.]+)/.exec(await textOf('/proc/driver/nvidia/version'))?.[1];
}

function textOf(path: string): Promise<string> {
  return readFile(path, 'utf8').catch(() => '');
}
