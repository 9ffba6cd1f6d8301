import { existsSync, readdirSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';

const ROOT = fileURLToPath(new URL('../../../', import.meta.url));

/**
 * The path of a built file, for tests that run a process of their own. Fails if the build is missing or older than the
 * sources of the same folder: such a test would judge other code than it seems to.
 * @param file within dist/, e.g. `cli/main.js`
 */
export function built(file: string): string {
  const folder = file.split('/')[0] ?? '';
  const path = join(ROOT, 'dist', file);
  if (!existsSync(path)) throw new Error(`dist/${file} is missing: npm run build`);
  const newest = Math.max(...filesIn(join(ROOT, 'src', folder)).map((source) => statSync(source).mtimeMs));
  if (Math.max(...filesIn(join(ROOT, 'dist', folder)).map((output) => statSync(output).mtimeMs)) < newest) {
    throw new Error(`dist/${folder} is older than src/${folder}: npm run build`);
  }
  return path;
}

function filesIn(folder: string): string[] {
  return readdirSync(folder, { withFileTypes: true }).flatMap((entry) => {
    const path = join(folder, entry.name);
    return entry.isDirectory() ? filesIn(path) : [path];
  });
}
