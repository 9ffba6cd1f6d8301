import { readFileSync } from 'node:fs';
import { NativeError } from './errors/engineErrors.js';

let found: { readonly folder: URL; readonly version: string } | undefined;

/**
 * Where the package's folder may be, from this file or from the one that the command line is bundled into
 * (dist/cli/main.js).
 */
const FOLDERS = ['../', '../../'];

/**
 * The package's own folder, and its version.
 * @throws NativeError where a bundler has taken the code out of its package, whose other files it then does not find
 */
export function packageRoot(): { readonly folder: URL; readonly version: string } {
  found ??= read();
  return found;
}

function read(): { readonly folder: URL; readonly version: string } {
  // A bundle in CommonJS has no import.meta.url at all.
  const here = import.meta.url as string | undefined;
  for (const above of FOLDERS) {
    try {
      const folder = new URL(above, here);
      const description = JSON.parse(readFileSync(new URL('package.json', folder), 'utf8')) as {
        readonly name?: unknown;
        readonly version?: unknown;
      };
      if (description.name === 'spillway') return { folder, version: String(description.version) };
    } catch {
      // Said below, whatever it was.
    }
  }
  throw new NativeError(
    'spillway runs from its own package, with its addon and files beside it, and cannot be bundled inline; ' +
      'mark it as external and install it where the bundle runs (esbuild: --external:spillway; webpack: externals: { spillway: "spillway" }; Rollup: external: ["spillway"])',
  );
}
