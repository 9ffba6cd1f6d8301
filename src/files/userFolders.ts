import { homedir } from 'node:os';
import { isAbsolute, join } from 'node:path';

/**
 * Where Spillway keeps what it can fetch or make again: `$XDG_CACHE_HOME/spillway`, or `~/.cache/spillway`.
 * A relative XDG_CACHE_HOME is ignored, as the XDG base directory specification asks for.
 */
export function userCacheFolder(environment: NodeJS.ProcessEnv = process.env): string {
  return folderOf(environment['XDG_CACHE_HOME'], '.cache');
}

/** Where Spillway keeps what is the user's: `$XDG_DATA_HOME/spillway`, or `~/.local/share/spillway`. */
export function userDataFolder(environment: NodeJS.ProcessEnv = process.env): string {
  return folderOf(environment['XDG_DATA_HOME'], '.local', 'share');
}

function folderOf(base: string | undefined, ...usual: readonly string[]): string {
  return join(base !== undefined && isAbsolute(base) ? base : join(homedir(), ...usual), 'spillway');
}
