import { join } from 'node:path';
import { InterruptedError } from '../../errors/InterruptedError.js';
import { DownloadError, ModelFileError } from '../../errors/ModelFileError.js';
import { describeFailure } from '../pull/describeFailure.js';
import { type PullProgress, throttled } from '../pull/ModelDownload.js';
import { WrongBytes } from '../pull/PartialFile.js';
import { proxyWords } from '../pull/proxy.js';
import type { Patience } from '../pull/TimedFetch.js';
import { chooseFiles, type ChosenFiles, type ListedFile, type NoChoice } from './chooseFiles.js';
import { downloadBlob, FolderFault } from './downloadBlob.js';
import { HubRepository } from './hubCache.js';
import { parseHubName, type HubName } from './hubName.js';
import { HubRefusal } from './hubRequest.js';
import { hubSettings, type HubSettings } from './hubSettings.js';
import { listHubFiles, type HubListing } from './listHubFiles.js';

export interface PullHubOptions {
  readonly signal?: AbortSignal | undefined;
  readonly onProgress?: ((progress: PullProgress) => void) | undefined;
  /** Ask the hub what the revision is now, and read what is there; default: what is in the cache is used as it is. */
  readonly verify?: boolean | undefined;
  /** Default: 20 s for an answer, 60 s without a byte. */
  readonly patience?: Patience;
  /** Default: the process's. */
  readonly environment?: Readonly<Record<string, string | undefined>>;
}

const PATIENCE: Patience = { answer: 20, stall: 60 };

/**
 * The path of a model of the hub, `hf:owner/repo[@revision][:file-or-quant]`: a GGUF file, or a folder of safetensors.
 * It is fetched into the cache that Hugging Face's tools share unless it is there.
 * @throws UsageError for a name of another shape; DownloadError with its remedy; ModelFileError where the repository
 * holds no such model; InterruptedError
 */
export async function pullHub(text: string, options: PullHubOptions = {}): Promise<string> {
  const name = parseHubName(text);
  const settings = await hubSettings(options.environment);
  const repository = new HubRepository(settings.cache, name.repo);
  const cached =
    options.verify === true && !settings.offline ? undefined : await inCache(name, repository, settings.offline);
  if (cached !== undefined) return cached;
  const host = new URL(settings.endpoint).host;
  if (settings.offline) {
    const remedy = 'unset that, or fetch it where there is a network and copy the folder';
    throw new DownloadError(text, [
      {
        source: 'the cache',
        reason: `it is not there (${repository.folder}), and HF_HUB_OFFLINE forbids to ask ${host}; ${remedy}`,
      },
    ]);
  }
  // A callback that throws ends the download, and is no failure of it.
  const own = new AbortController();
  const signal = options.signal === undefined ? own.signal : AbortSignal.any([options.signal, own.signal]);
  let thrown: { readonly error: unknown } | undefined;
  const onProgress = (progress: PullProgress): void => {
    try {
      options.onProgress?.(progress);
    } catch (error) {
      thrown ??= { error };
      own.abort();
    }
  };
  try {
    const patience = options.patience ?? PATIENCE;
    const listing = await patiently(() => listHubFiles(name, settings, patience, signal));
    const chosen = chosenOf(name, chooseFiles(listing.files, name.wanted));
    await repository.keepListing(listing.commit, listing.files);
    await download(
      name,
      repository,
      { ...listing, files: chosen.files },
      settings,
      { ...options, onProgress, patience },
      signal,
    );
    if (thrown !== undefined) throw thrown.error;
    return pathOf(repository, listing.commit, chosen);
  } catch (error) {
    if (thrown !== undefined) throw thrown.error;
    if (signal.aborted) throw new InterruptedError(signal.reason);
    if (error instanceof ModelFileError) throw error;
    const reason = reasonOf(error, name, settings);
    // What the hub itself has said came through.
    const asked =
      error instanceof HubRefusal ? error.status !== 407 && error.status < 500 : error instanceof WrongBytes;
    const words = asked || error instanceof FolderFault ? '' : `; ${proxyWords(options.environment ?? process.env)}`;
    throw new DownloadError(text, [{ source: host, reason: `${reason}${words}` }], { cause: error });
  }
}

async function download(
  { name, repo, revision }: HubName,
  repository: HubRepository,
  { commit, files }: HubListing,
  settings: HubSettings,
  { onProgress, verify = false, patience = PATIENCE }: PullHubOptions,
  signal: AbortSignal,
): Promise<void> {
  const totalBytes = files.reduce((sum, { bytes }) => sum + bytes, 0);
  let [before, now] = [0, 0];
  const report = throttled(onProgress, () => ({
    model: name,
    source: new URL(settings.endpoint).host,
    bytes: before + now,
    totalBytes,
  }));
  report(false);
  for (const file of files) {
    const url = `${settings.endpoint}/${repo}/resolve/${commit}/${file.path.split('/').map(encodeURIComponent).join('/')}`;
    const target = repository.blob(file.hash.digest);
    await downloadBlob({
      file,
      url,
      target,
      settings,
      patience,
      signal,
      verify,
      onBytes: (bytes) => {
        now = bytes;
        report(false);
      },
    });
    [before, now] = [before + file.bytes, 0];
    await repository.link(commit, file.path, file.hash.digest);
  }
  await repository.setCommit(revision, commit);
  report(true);
}

/** A list is short, and asked for once more where the hub stumbles. */
async function patiently<T>(ask: () => Promise<T>): Promise<T> {
  try {
    return await ask();
  } catch (error) {
    if (error instanceof HubRefusal && error.status < 500) throw error;
    return ask();
  }
}

/**
 * The model as it is in the cache, if all of it is.
 * @param anything where nothing is known of the repository but what another tool has fetched, that will do
 */
async function inCache(
  { revision, wanted }: HubName,
  repository: HubRepository,
  anything: boolean,
): Promise<string | undefined> {
  const commit = await repository.commitOf(revision);
  if (commit === undefined) return undefined;
  const there = await repository.files(commit);
  const sizes = new Map(there.map(({ path, bytes }) => [path, bytes]));
  const listed = await repository.listed(commit);
  const named = wanted !== undefined && sizes.has(wanted);
  if (listed === undefined && !named && !anything) return undefined;
  const chosen = chooseFiles(listed ?? there, wanted);
  return 'files' in chosen && chosen.files.every(({ path, bytes }) => sizes.get(path) === bytes)
    ? pathOf(repository, commit, chosen)
    : undefined;
}

function pathOf(repository: HubRepository, commit: string, { entry = '' }: ChosenFiles<ListedFile>): string {
  return join(repository.snapshot(commit), entry);
}

/** @throws ModelFileError */
function chosenOf<File extends ListedFile>({ name }: HubName, chosen: ChosenFiles<File> | NoChoice): ChosenFiles<File> {
  if ('files' in chosen) return chosen;
  throw new ModelFileError(name, 'repository', chosen.found, chosen.expected);
}

/** Says what went wrong, with what to do. */
function reasonOf(error: unknown, { repo, revision }: HubName, { endpoint, cache, token }: HubSettings): string {
  const page = `${endpoint}/${repo}`;
  const signIn = 'set HF_TOKEN to a token of yours, or run `hf auth login`';
  if (error instanceof FolderFault) return `${error.message}: ${cache}; HF_HUB_CACHE names another folder`;
  if (error instanceof WrongBytes) {
    return `${error.message}; the repository may have changed, or something between here and there changes files: try again, or pin a commit with @REVISION`;
  }
  if (!(error instanceof HubRefusal)) return describeFailure(error);
  if (error.code === 'GatedRepo' || (error.status === 403 && error.code === '')) {
    return `${repo} is gated (status ${error.status}): accept its terms at ${page}${token === undefined ? `, then ${signIn}` : ' with the account whose token is used'}`;
  }
  if (error.code === 'RevisionNotFound')
    return `${repo} has no revision ${revision}: ${page}/tree/main shows its branches`;
  if (error.code === 'EntryNotFound')
    return `${repo} has lost a file that it lists (status ${error.status}): it changed meanwhile, try again`;
  if (error.status === 401 && token !== undefined)
    return `the token was refused (status 401), or ${repo} does not exist or is not for this account: ${signIn}`;
  if (error.status === 401 || error.status === 404)
    return `there is no ${repo}, or it is private: look at ${page}; if it is private, ${signIn}`;
  if (error.status === 429) {
    const time = error.retryAfter === undefined ? 'a few minutes' : `${error.retryAfter} s`;
    return `too many requests (status 429): wait ${time} and try again; a token raises the limit: ${signIn}`;
  }
  return `it answered with ${error.message}: try again later`;
}
