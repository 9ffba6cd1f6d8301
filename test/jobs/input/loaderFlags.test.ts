import { execFile } from 'node:child_process';
import { promisify } from 'node:util';
import { expect, test } from '@jest/globals';
import { loaderFlags } from '../../../src/jobs/input/loaderFlags.js';

test.each<[string, string[], string[]]>([
  ['', [], []],
  // As Yarn's PnP says it.
  [
    '--require /p/.pnp.cjs --experimental-loader file:///p/.pnp.loader.mjs',
    [],
    ['--require', '/p/.pnp.cjs', '--experimental-loader', 'file:///p/.pnp.loader.mjs'],
  ],
  ['--require "/a folder/it\\"s \\\\ here.cjs"', [], ['--require', '/a folder/it"s \\ here.cjs']],
  ['--require="/a b.cjs" -r ./c.cjs', [], ['--require=/a b.cjs', '-r', './c.cjs']],
  ['  --inspect --max-old-space-size=99   --import=tsx  --no-warnings', [], ['--import=tsx']],
  ['--experimental_loader ./l.mjs', [], ['--experimental_loader', './l.mjs']],
  ['-C dev --preserve-symlinks --title x', [], ['-C', 'dev', '--preserve-symlinks']],
  [
    '--import ./first.mjs',
    ['--expose-gc', '-r', './then.cjs', '--input-type', 'module', '--conditions=dev'],
    ['--import', './first.mjs', '-r', './then.cjs', '--conditions=dev'],
  ],
])('of flags those by which modules are found: %s %j', (options, argv, flags) => {
  expect(loaderFlags(options === '' ? {} : { NODE_OPTIONS: options }, argv)).toEqual(flags);
});

test('Node parts words as it is done here', async () => {
  const NODE_OPTIONS = '--title="a \\"b\\" \\\\ c" --conditions=x"y "z';
  const { stdout } = await promisify(execFile)(process.execPath, ['-p', 'process.title'], {
    env: { ...process.env, NODE_OPTIONS },
  });
  expect(stdout.trim()).toBe('a "b" \\ c');
  expect(loaderFlags({ NODE_OPTIONS }, [])).toEqual(['--conditions=xy z']);
});
