import { linesOf } from '../../arguments/linesOf.js';

/**
 * An error and what caused it, on one line: `fetch failed: connect ECONNREFUSED`. Told by its shape, since errors may
 * come from another realm.
 */
export function describeFailure(error: unknown): string {
  const parts: string[] = [];
  for (
    let at: unknown = error;
    at !== undefined && at !== null && parts.length < 4;
    at = typeof at === 'object' && 'cause' in at ? at.cause : undefined
  ) {
    const text = textOf(at).trim();
    if (text !== '' && !parts.some((part) => part.includes(text))) parts.push(text);
  }
  return linesOf(parts.join(': ') || 'unknown error')
    .join('; ')
    .slice(0, 600);
}

function textOf(value: unknown): string {
  if (typeof value === 'string') return value;
  if (typeof value === 'object' && value !== null && 'message' in value && typeof value.message === 'string') {
    // An AggregateError (every address refused) has its words in its parts, or only a code.
    const parts =
      'errors' in value && Array.isArray(value.errors) ? [...new Set(value.errors.map(textOf))].join(', ') : '';
    return value.message || parts || ('code' in value ? String(value.code) : '');
  }
  return JSON.stringify(value) ?? '';
}

const FOLDER_FAULTS: Readonly<Record<string, string>> = {
  EACCES: 'nothing may be written there',
  EPERM: 'nothing may be written there',
  EROFS: 'nothing can be written there: its file system is read-only',
  ENOTDIR: 'a part of its path is no folder',
  ENOSPC: 'the disk is full',
  EDQUOT: 'the disk quota is used up',
  EFBIG: 'a file may not become so long there',
};

/** Says what is wrong with the folder that something was to be written into; undefined for another failure. */
export function folderRemedy(error: unknown): string | undefined {
  const { code, syscall } = typeof error === 'object' && error !== null ? (error as NodeJS.ErrnoException) : {};
  if (code === undefined) return undefined;
  // Where it is to make several folders Node says so whatever kept it from making the first one.
  if (code === 'ENOENT' && syscall === 'mkdir') return `no folder can be made there: is it read-only? (${code})`;
  return Object.hasOwn(FOLDER_FAULTS, code) ? `${FOLDER_FAULTS[code] ?? ''} (${code})` : undefined;
}
