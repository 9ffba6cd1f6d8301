import { spawnSync } from 'node:child_process';
import { cpSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, test } from '@jest/globals';
import { oldNode } from '../src/oldNode.js';
import { packageRoot } from '../src/packageRoot.js';
import { built } from './jobs/support/built.js';

let folder: string;
beforeAll(() => {
  folder = mkdtempSync(join(tmpdir(), 'spillway-bundle-'));
});
afterAll(() => rmSync(folder, { recursive: true, force: true }));

test('the package finds itself', () => {
  expect(packageRoot().version).toBe((JSON.parse(readFileSync('package.json', 'utf8')) as { version: string }).version);
});

test('code that was taken out of its package says so in one line, and what to do', () => {
  built('errors/engineErrors.js');
  mkdirSync(join(folder, 'out', 'errors'), { recursive: true });
  writeFileSync(join(folder, 'package.json'), '{"name":"app","type":"module"}');
  for (const file of ['packageRoot.js', 'errors/engineErrors.js', 'errors/SpillwayError.js'])
    cpSync(join('dist', file), join(folder, 'out', file));
  const program = `import { packageRoot } from './out/packageRoot.js'; try { packageRoot(); } catch (error) { console.log(error.code, error.message); }`;
  const { stdout } = spawnSync(process.execPath, ['--input-type=module', '-e', program], {
    cwd: folder,
    encoding: 'utf8',
  });
  expect(stdout).toMatch(
    /^native spillway runs from its own package.* cannot be bundled inline; mark it as external .*--external:spillway.*\n$/,
  );
});

test.each([
  ['18.20.8', true],
  ['20.18.3', true],
  ['20.19.0', false],
  ['20.20.2', false],
  ['21.7.0', true],
  ['22.12.0', true],
  ['22.13.0', false],
  ['23.0.0', false],
  ['26.1.0', false],
])('Node %s is too old: %s', (version, old) => {
  expect(oldNode(version)).toBe(
    old ? `found Node ${version}, expected 20.19 or later of 20, or 22.13 or later` : undefined,
  );
});

test('the oldest Node that is taken is the one that package.json names', () => {
  expect((JSON.parse(readFileSync('package.json', 'utf8')) as { engines: { node: string } }).engines.node).toBe(
    '^20.19.0 || >=22.13.0',
  );
});

test('nothing is imported by name that Node 18 does not export: that would be found before the version is looked at', () => {
  const later =
    /import \{[^}]*\b(hash|crc32|zstd\w+|createZstd\w+|createDecompress\w*Zstd\w*)\b[^}]*\} from 'node:(crypto|zlib)'/;
  const files = readdirSync('src', { recursive: true, encoding: 'utf8' }).filter((file) => file.endsWith('.ts'));
  expect(files.filter((file) => later.test(readFileSync(join('src', file), 'utf8')))).toEqual([]);
  expect(readFileSync('src/index.ts', 'utf8')).toMatch(/^(\/\/[^\n]*\n)*import '\.\/requireNode\.js';\n/);
});
