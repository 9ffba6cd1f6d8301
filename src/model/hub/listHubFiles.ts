import { isObject } from '../../arguments/isObject.js';
import { askHub } from './hubRequest.js';
import { COMMIT, isSafePath, type HubName } from './hubName.js';
import type { HubSettings } from './hubSettings.js';
import type { ListedFile } from './chooseFiles.js';
import type { Patience } from '../pull/TimedFetch.js';

/** A file of the hub, and by which hash its bytes are known. */
export interface HubFile extends ListedFile {
  readonly hash: { readonly kind: 'sha256' | 'git'; readonly digest: string };
}

/** A repository as it was at one commit. */
export interface HubListing {
  readonly commit: string;
  readonly files: readonly HubFile[];
}

/** Far more than any repository's list takes. */
const MOST_ANSWER_BYTES = 16 * 2 ** 20;
const MOST_PAGES = 100;
const MOST_FILES = 100_000;

/**
 * Lists the files that a repository holds. Entries that are not to be trusted (paths that lead elsewhere, sizes and
 * hashes that are none) are left out.
 * @throws HubRefusal; an Error for an answer that is none
 */
export async function listHubFiles(
  { repo, revision }: HubName,
  settings: HubSettings,
  patience: Patience,
  signal: AbortSignal,
): Promise<HubListing> {
  // Loaded on demand: most runs find the model on disk, and start faster without the library.
  const { listFiles, modelInfo } = await import('@huggingface/hub');
  const { endpoint } = settings;
  let pages = 0;
  const viaUs: typeof fetch = async (input) => {
    const url = input instanceof Request ? input.url : String(input);
    // Whose list goes on elsewhere, or without end, is no hub.
    if (new URL(url).origin !== new URL(endpoint).origin)
      throw new Error(`its list goes on at another host, ${new URL(url).host}`);
    if (++pages > MOST_PAGES) throw new Error(`its list has more than ${MOST_PAGES} pages`);
    const answer = await askHub(url, settings, patience, signal, { accept: 'application/json' });
    const parts: Uint8Array[] = [];
    let bytes = 0;
    for await (const part of answer.read()) {
      if ((bytes += part.byteLength) > MOST_ANSWER_BYTES)
        throw new Error(`its answer has more than ${MOST_ANSWER_BYTES} bytes`);
      parts.push(part);
    }
    return new Response(Buffer.concat(parts), { status: answer.status, headers: answer.headers });
  };
  const { sha } = await modelInfo({ name: repo, revision, additionalFields: ['sha'], hubUrl: endpoint, fetch: viaUs });
  const commit: unknown = sha;
  if (typeof commit !== 'string' || !COMMIT.test(commit)) throw new Error('it names no commit of the repository');
  const files: HubFile[] = [];
  for await (const entry of listFiles({
    repo: { type: 'model', name: repo },
    recursive: true,
    revision: commit,
    hubUrl: endpoint,
    fetch: viaUs,
  })) {
    const file = fileOf(entry);
    if (file !== undefined) files.push(file);
    if (files.length > MOST_FILES) throw new Error(`it lists more than ${MOST_FILES} files`);
  }
  return { commit, files };
}

function fileOf(entry: unknown): HubFile | undefined {
  if (!isObject(entry) || entry['type'] !== 'file') return undefined;
  const { path, size, oid, lfs } = entry;
  if (
    typeof path !== 'string' ||
    !isSafePath(path) ||
    typeof size !== 'number' ||
    !Number.isSafeInteger(size) ||
    size < 0
  )
    return undefined;
  const sha256 = isObject(lfs) ? lfs['oid'] : undefined;
  if (sha256 !== undefined)
    return typeof sha256 === 'string' && /^[0-9a-f]{64}$/.test(sha256)
      ? { path, bytes: size, hash: { kind: 'sha256', digest: sha256 } }
      : undefined;
  return typeof oid === 'string' && /^[0-9a-f]{40}$/.test(oid)
    ? { path, bytes: size, hash: { kind: 'git', digest: oid } }
    : undefined;
}
