import { mkdirSync, statSync } from 'node:fs';
import { dirname, resolve } from 'node:path';
import { fileErrorCode } from './fileErrors.js';

/**
 * Makes a folder, and those above it that are missing, step by step: Node's own way (`recursive`) never ends below
 * /proc, where nothing can be made and the system says that something is missing.
 * @throws the system's errors
 */
export function makeFolder(folder: string): void {
  const missing: string[] = [];
  for (let at = resolve(folder); !isMade(at); at = dirname(at)) missing.unshift(at);
  for (const each of missing) if (!isMade(each)) mkdirSync(each);
}

/** Tells whether a folder is there now; not where one above it is missing. @throws the system's other errors */
function isMade(folder: string): boolean {
  try {
    mkdirSync(folder);
    return true;
  } catch (error) {
    if (fileErrorCode(error) === 'ENOENT') return false;
    if (statSync(folder, { throwIfNoEntry: false })?.isDirectory() === true) return true;
    throw error;
  }
}
