import { existsSync } from 'node:fs';
import { createRequire } from 'node:module';
import { fileURLToPath } from 'node:url';
import { NativeError } from '../errors/engineErrors.js';
import { packageRoot } from '../packageRoot.js';
import { ADDON_BYTES, checkHeapSize, checkProcessLimits, withProcessLimits } from '../processLimits.js';
import type { Addon } from './Addon.js';

/** Works wherever the package lies, and also where package managers run no install scripts unless they are told to. */
function remedy(): string {
  const name = `@spillway/${process.platform}-${process.arch}`;
  return `build it with \`node ${JSON.stringify(inPackage('scripts/install.mjs'))}\`, which needs CMake and a C++ compiler, or let optional dependencies be installed, which bring it as ${name}`;
}

let loaded: { readonly addon: Addon; readonly path: string } | undefined;

/**
 * The native addon, loaded once. The environment variable SPILLWAY_ADDON names another binary (a build with sanitizers,
 * say).
 * @throws NativeError with what was tried and the remedy, if there is no addon that fits this package and this machine;
 * ProcessLimitError where this process may not have the memory
 */
export function loadAddon(): Addon {
  return load().addon;
}

/** The binary that `loadAddon` loads. @throws NativeError likewise */
export function addonPath(): string {
  return load().path;
}

function load(): { readonly addon: Addon; readonly path: string } {
  if (loaded) return loaded;
  checkProcessLimits(ADDON_BYTES);
  checkHeapSize(0);
  try {
    return (loaded = find(candidates(), packageRoot().version));
  } catch (error) {
    throw withProcessLimits(error, ADDON_BYTES);
  }
}

/** Paths to try, in order: whoever has built the addon wants that one, others have the package for their platform. */
function candidates(): string[] {
  const chosen = process.env['SPILLWAY_ADDON'];
  if (chosen !== undefined && chosen !== '') return [chosen];
  return [
    ...['native/build/Release/spillway.node', 'native/build/Debug/spillway.node'].map(inPackage),
    ...prebuilt(createRequire(import.meta.url)),
  ];
}

/**
 * The addons of the packages for this platform that are installed (scripts/release/platforms.mjs). First the one with
 * CUDA, which somebody asked for. Where a package manager does not heed `libc` there are two more, of which one loads.
 * @internal exported for tests
 */
export function prebuilt({ resolve }: Pick<NodeJS.Require, 'resolve'>, { platform, arch } = process): string[] {
  const name = `${platform}-${arch}`;
  const names = platform === 'linux' ? [`${name}-cuda`, name, `${name}-musl`] : [name];
  return names.flatMap((name) => {
    try {
      return [resolve(`@spillway/${name}`)];
    } catch {
      return [];
    }
  });
}

function inPackage(path: string): string {
  return fileURLToPath(new URL(path, packageRoot().folder));
}

/** @internal exported for tests */
export function loadFrom(paths: readonly string[], version: string): Addon {
  return find(paths, version).addon;
}

function find(paths: readonly string[], version: string): { readonly addon: Addon; readonly path: string } {
  const require = createRequire(import.meta.url);
  const failures: string[] = [];
  for (const path of paths) {
    if (!existsSync(path)) {
      failures.push(`${path}: no such file`);
      continue;
    }
    try {
      const addon = require(path) as Addon;
      if (addon.version === version) return { addon, path };
      failures.push(`${path}: built from version ${addon.version}, expected ${version}`);
    } catch (error) {
      // An Error of another realm inside jest: its message is all that is used.
      const message =
        typeof error === 'object' && error !== null && 'message' in error ? (error.message as string) : String(error);
      failures.push(`${path}: ${message}`);
    }
  }
  throw new NativeError(`the native addon cannot be loaded; ${remedy()}. Tried: ${failures.join('; ')}`);
}
