import { existsSync } from 'node:fs';
import { join } from 'node:path';

/**
 * jest's resolver, to which `./file.js` is file.ts where there is one, as it is to TypeScript. jest remembers what a resolver
 * answers; what `moduleNameMapper` maps it looks for on the disk at each import: half a million times in all suites.
 */
export default function resolve(name, options) {
  if (/^\.{1,2}\/.*\.js$/.test(name)) {
    const source = join(options.basedir, `${name.slice(0, -'.js'.length)}.ts`);
    if (existsSync(source)) return source;
  }
  return options.defaultResolver(name, options);
}
