import { execFileSync } from 'node:child_process';
import { copyFileSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { afterAll, beforeAll, expect, test } from '@jest/globals';

/** What an installation needs: the library, the machines, the addon's sources and what builds them. */
const PACKED = [
  'CMakeLists.txt',
  'LICENSE',
  'README.md',
  'SECURITY.md',
  'dist/cli/spillway.js',
  'dist/index.js',
  'hardware/t4.json',
  'native/addon/addon.cpp',
  'native/grammar/Cargo.lock',
  'native/grammar/Cargo.toml',
  'native/grammar/grammar.cmake',
  'native/grammar/src/lib.rs',
  'native/kernels/cuda/cuda.cmake',
  'native/system/Arena.h',
  'package.json',
  'scripts/install.mjs',
];
/** What lies about in a checkout: builds of all kinds alone are more than a gigabyte. */
const LEFT = [
  'native/bench/peak.cpp',
  'native/build/Release/spillway.node',
  'native/build-asan/tests',
  'native/build-cuda/toolkit/bin/nvcc',
  'native/build-grammar/release/libspillway_grammar.a',
  'native/fuzz/coverage.cpp',
  'native/tests/kernels/matmul_test.cpp',
  'scripts/demo.mjs',
  'src/index.ts',
  'test/index.test.ts',
];

let folder: string;
beforeAll(() => {
  folder = mkdtempSync(join(tmpdir(), 'spillway-package-'));
  for (const path of [...PACKED, ...LEFT]) {
    mkdirSync(dirname(join(folder, path)), { recursive: true });
    writeFileSync(join(folder, path), '');
  }
  copyFileSync('package.json', join(folder, 'package.json'));
});
afterAll(() => rmSync(folder, { recursive: true, force: true }));

test('the package holds what an installation needs, and nothing that was built beside it', () => {
  const said = execFileSync('npm', ['pack', '--dry-run', '--json', '--ignore-scripts'], {
    cwd: folder,
    encoding: 'utf8',
    stdio: ['ignore', 'pipe', 'ignore'],
  });
  const [packed] = JSON.parse(said) as { files: { path: string }[] }[];
  expect(packed?.files.map(({ path }) => path).sort()).toEqual(PACKED);
});

test('CONTRIBUTING.md has every dependency of the package with its licence', () => {
  const parsed = (path: string): Record<string, unknown> =>
    JSON.parse(readFileSync(path, 'utf8')) as Record<string, unknown>;
  const { dependencies, peerDependencies } = parsed('package.json') as Record<string, Record<string, string>>;
  const licences = Object.keys({ ...dependencies, ...peerDependencies }).map((name) => [
    name,
    parsed(`node_modules/${name}/package.json`)['license'],
  ]);
  const rows = readFileSync('CONTRIBUTING.md', 'utf8').split('## Dependencies and their licences')[1] ?? '';
  const listed = [...rows.matchAll(/^\| (`.*?) \| (\S+) \|/gm)].flatMap(([, names = '', licence]) =>
    [...names.matchAll(/`([^`]+)`/g)].map(([, name]) => [name, licence]),
  );
  expect(listed.sort()).toEqual(licences.sort());
  expect([...new Set(licences.map(([, licence]) => licence))].sort()).toEqual(['Apache-2.0', 'MIT', 'Unlicense']);
});
