import { createHash } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { addonPath } from './loadAddon.js';

let known: { readonly path: string; readonly fingerprint: string } | undefined;

/**
 * Tells one build of the addon from another: figures that one of them measured are not those of the other. A hash of
 * the binary that was loaded; read once.
 * @throws NativeError where there is no addon
 */
export function addonFingerprint(): string {
  const path = addonPath();
  if (known?.path !== path)
    known = { path, fingerprint: createHash('sha256').update(readFileSync(path)).digest('hex').slice(0, 32) };
  return known.fingerprint;
}
