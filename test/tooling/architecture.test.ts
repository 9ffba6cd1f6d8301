import { expect, test } from '@jest/globals';
import { execFileSync } from 'node:child_process';
import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';

const ROOT = fileURLToPath(new URL('../..', import.meta.url));

/** The paths of the drawing under "Layers of the code": names by indentation, two spaces a level. */
function drawn(): string[] {
  const text = readFileSync(join(ROOT, 'docs/architecture.md'), 'utf8');
  const [, block = ''] = /\n\n( {4}src\/\n(?: {4}.*\n)+)/.exec(text) ?? [];
  const open: string[] = [];
  return block.split('\n').flatMap((line) => {
    const [, indent = '', name] = /^ {4}((?: {2})*)([\w.]+\/?)(?: |$)/.exec(line) ?? [];
    const depth = indent.length / 2;
    // What is indented further than names are goes on with the line before.
    if (name === undefined || depth > open.length) return [];
    open.splice(depth, Infinity, name);
    return [open.join('')];
  });
}

const foldersOf = (folder: string): string[] =>
  readdirSync(join(ROOT, folder), { withFileTypes: true })
    .filter((entry) => entry.isDirectory() && !entry.name.startsWith('build'))
    .map(({ name }) => `${folder}${name}/`);

test('the drawing of the folders shows those that there are', () => {
  const paths = drawn();
  expect(paths.length).toBeGreaterThan(30);
  expect(paths.filter((path) => !existsSync(join(ROOT, path)))).toEqual([]);
  const missing = ['src/', 'src/engine/', 'src/plan/', 'src/jobs/', 'native/']
    .flatMap(foldersOf)
    .filter((folder) => !paths.includes(folder));
  expect(missing).toEqual([]);
});

test('no file lies loose beside the rooms of the engine', () => {
  expect(readdirSync(join(ROOT, 'src/engine')).filter((name) => name.endsWith('.ts'))).toEqual([]);
});

test('the way of a row leads through files that there are', () => {
  const text = readFileSync(join(ROOT, 'docs/architecture.md'), 'utf8');
  const [, section = ''] = /\n## One row, from end to end\n([^]*?)\n## /.exec(text) ?? [];
  const named = [...section.matchAll(/[\w/]+\.(?:ts|cpp|h)\b/g)].map(([path]) => path);
  expect(named.length).toBeGreaterThan(15);
  const files = execFileSync('git', ['ls-files', 'src', 'native'], { cwd: ROOT, encoding: 'utf8' }).split('\n');
  expect(named.filter((path) => !files.some((file) => `/${file}`.endsWith(`/${path}`)))).toEqual([]);
});
