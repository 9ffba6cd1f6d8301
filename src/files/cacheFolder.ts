import { homedir } from 'node:os';
import { isAbsolute, join } from 'node:path';

/**
 * Where Spillway keeps what it can fetch or make again: `$XDG_CACHE_HOME/spillway`, or `~/.cache/spillway`.
 * A relative XDG_CACHE_HOME is ignored, as the XDG base directory specification asks for.
 */
export function userCacheFolder(environment: NodeJS.ProcessEnv = process.env): string {
  const base = environment['XDG_CACHE_HOME'];
  return join(base !== undefined && isAbsolute(base) ? base : join(homedir(), '.cache'), 'spillway');
}
