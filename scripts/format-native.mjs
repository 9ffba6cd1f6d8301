// Formats the C++ and CUDA sources by .clang-format, or says which are not formatted.
//   node scripts/format-native.mjs [--check]
// Runs clang-format of the version below: the one that CLANG_FORMAT or PATH names, where that is it, else the one that pip
// puts into native/build-format (4 MB, needs Python's venv and a package index). With --check it exits with 1 if a file would change; where no
// clang-format can be had it says so and exits with 0 under --check, 1 otherwise.
import { execFileSync, spawnSync } from 'node:child_process';
import { existsSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';
import { pythonPackage } from './pythonPackage.mjs';

// Other versions break lines at other places.
const VERSION = '23.1.5';

const root = dirname(dirname(fileURLToPath(import.meta.url)));
const environment = join(root, 'native', 'build-format');
const { values: options } = parseArgs({ options: { check: { type: 'boolean', default: false } } });

const isRight = (program) =>
  spawnSync(program, ['--version'], { encoding: 'utf8' }).stdout?.includes(`version ${VERSION}`);

function installed() {
  try {
    return join(pythonPackage(environment, `clang-format==${VERSION}`), 'clang-format');
  } catch (error) {
    console.error(`format-native: ${error.message}`);
    return undefined;
  }
}

const program = [process.env.CLANG_FORMAT, 'clang-format'].find((name) => name && isRight(name)) ?? installed();
if (program === undefined) {
  console.error(
    `format-native: no clang-format ${VERSION}: install Python's venv and pip, or name one by CLANG_FORMAT`,
  );
  process.exit(options.check ? 0 : 1);
}

const files = execFileSync('git', ['ls-files', '-z', 'native'], { cwd: root, encoding: 'utf8' })
  .split('\0')
  .filter((file) => /\.(h|cpp|cu|c)$/.test(file) && existsSync(join(root, file)));
const how = options.check ? ['--dry-run', '--Werror'] : ['-i'];
const { status } = spawnSync(program, [...how, ...files], { cwd: root, stdio: 'inherit' });
if (status !== 0) console.error('format-native: run `npm run format`');
process.exit(status === 0 ? 0 : 1);
