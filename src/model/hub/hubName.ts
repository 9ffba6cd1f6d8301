import { found, INVISIBLE } from '../../arguments/found.js';
import { UsageError } from '../../errors/UsageError.js';

/** A model on the hub, as somebody wrote it: `hf:owner/repo[@revision][:file-or-quant]`. */
export interface HubName {
  /** As it was written. */
  readonly name: string;
  /** `owner/repo` */
  readonly repo: string;
  /** A branch, a tag or a commit. */
  readonly revision: string;
  /** A file's path in the repository, or a quant such as `Q4_K_M`; undefined: what is usual. */
  readonly wanted?: string;
}

const PREFIX = 'hf:';
const SHAPE = /^hf:([^@:]+)(?:@([^:]+))?(?::(.+))?$/s;
const REPO = /^[A-Za-z0-9][\w.-]{0,95}\/[A-Za-z0-9][\w.-]{0,95}$/;
const REVISION = /^[A-Za-z0-9][\w.+-]*(\/[\w.+-]+)*$/;
export const COMMIT = /^[0-9a-f]{40}$/;

export function isHubName(name: string): boolean {
  return name.startsWith(PREFIX);
}

/** @throws UsageError for a name of another shape */
export function parseHubName(name: string): HubName {
  const [, repo = '', revision = 'main', wanted] = SHAPE.exec(name) ?? [];
  const isRevision = revision.length <= 255 && REVISION.test(revision) && !revision.split('/').some(isDots);
  const fine = REPO.test(repo) && !repo.includes('..') && isRevision && (wanted === undefined || isSafePath(wanted));
  if (!fine)
    throw new UsageError(
      `model: found ${found(name)}, expected hf:OWNER/REPO, hf:OWNER/REPO:Q4_K_M, or hf:OWNER/REPO@REVISION:FILE.gguf`,
    );
  return { name, repo, revision, ...(wanted !== undefined && { wanted }) };
}

/** Tells whether a path stays in the folder that it is meant for, whoever says it. */
export function isSafePath(path: string): boolean {
  const parts = path.split('/');
  return (
    path.length > 0 &&
    path.length <= 1024 &&
    !path.includes('\\') &&
    path.search(INVISIBLE) < 0 &&
    parts.every((part) => part !== '' && !isDots(part) && part.length <= 255)
  );
}

function isDots(part: string): boolean {
  return part === '.' || part === '..';
}
