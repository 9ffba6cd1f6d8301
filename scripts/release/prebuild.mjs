// Makes the package of a prebuilt addon: release/spillway-PLATFORM-VERSION.tgz.
//   npm run release:addon -- [--platform linux-x64] [--output release] [--glibc 2.28]
// The compiler is zig's, from PyPI (scripts/release/zig.mjs): so one machine builds for all platforms, and for older C
// libraries than its own. With CUDA it is this machine's, with nvcc from PyPI, and what comes needs a glibc as new as
// the machine's: where that is newer than --glibc, the most that it may need, it is refused. For this platform the addon is loaded and compared with the one that is built here without
// zig (npm ci, or scripts/install.mjs), which has to be there; what was made for another one cannot be, and it says so.
// Constrained decoding needs Rust's library for the platform (`rustup target add`).
import { spawnSync } from 'node:child_process';
import { copyFileSync, mkdirSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { availableParallelism } from 'node:os';
import { dirname, join, resolve } from 'node:path';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';
import { GLIBC, packageManifest, PLATFORMS } from './platforms.mjs';
import { run } from '../pythonPackage.mjs';
import { emptyLinker, zigTools } from './zig.mjs';

const root = dirname(dirname(dirname(fileURLToPath(import.meta.url))));
const { values } = parseArgs({
  options: {
    platform: { type: 'string', default: `${process.platform}-${process.arch}` },
    output: { type: 'string', default: 'release' },
    glibc: { type: 'string', default: GLIBC },
  },
});
const platform = PLATFORMS[values.platform];
if (platform === undefined) {
  console.error(`--platform: found ${values.platform}, expected one of ${Object.keys(PLATFORMS).join(', ')}`);
  process.exit(1);
}

const { version, license, engines, repository } = JSON.parse(readFileSync(join(root, 'package.json'), 'utf8'));
const output = resolve(values.output);
const build = join(root, 'native', `build-${values.platform}`);
mkdirSync(output, { recursive: true });

const isThisSystem = platform.os === process.platform && platform.cpu === process.arch;
const runsHere = isThisSystem && platform.libc !== 'musl';
// Looked at first: compiling takes minutes.
const ordinary = runsHere ? describe(join(root, 'native', 'build', 'Release', 'spillway.node')) : undefined;

const addon = compile();
checkCLibrary(addon);
if (ordinary === undefined) console.error(`not loaded: this is ${process.platform}-${process.arch}`);
else compare(addon, ordinary);
console.log(pack(addon));

function compile() {
  const settings = {
    ...(platform.cuda ? withCuda() : withZig()),
    CMAKE_SHARED_LINKER_FLAGS: '-s',
    SPILLWAY_CARGO_TARGET: platform.rust,
  };
  const cmakeJs = createRequire(import.meta.url).resolve('cmake-js/bin/cmake-js');
  const flags = Object.entries(settings).map(([name, value]) => `--CD${name}=${value}`);
  const where = ['--directory', root, '--out', build, '--parallel', String(availableParallelism())];
  // By itself `compile` leaves a folder as it was configured, by other settings maybe.
  for (const command of ['configure', 'compile'])
    run(process.execPath, [cmakeJs, command, ...where, ...flags], { cwd: root });
  return join(build, 'Release', 'spillway.node');
}

function withZig() {
  const { target, system, processor } = platform;
  const zig = join(root, 'native', 'build-zig');
  return {
    ...zigTools(zig, target),
    CMAKE_SYSTEM_NAME: system,
    CMAKE_SYSTEM_PROCESSOR: processor,
    SPILLWAY_CUDA: 'OFF',
    // Where Rust's target is this machine's, its own build's programs are linked with it, too.
    ...(!isThisSystem && { SPILLWAY_CARGO_LINKER: emptyLinker(zig) }),
  };
}

function withCuda() {
  if (!isThisSystem) throw new Error(`--platform: found ${values.platform} on ${process.platform}-${process.arch}`);
  const toolkit = join(root, 'native', 'build-cuda-toolkit');
  run(join(root, 'scripts', 'install-cuda-toolchain.sh'), [toolkit]);
  return { SPILLWAY_CUDA: 'ON', SPILLWAY_CUDA_TOOLKIT: toolkit, SPILLWAY_CUDA_ARCHITECTURES: 'release' };
}

/** The names of the versions of glibc's symbols that a binary needs stand in it as text. */
function checkCLibrary(path) {
  if (platform.libc !== 'glibc') return;
  const minor = (text) => Number(text.split('.')[1]);
  const needed = [...readFileSync(path, 'latin1').matchAll(/GLIBC_(2\.\d+)/g)]
    .map(([, found]) => found)
    .sort((a, b) => minor(b) - minor(a))[0];
  if (needed === undefined || minor(needed) > minor(values.glibc))
    throw new Error(`${path}: found a need for glibc ${needed}, expected ${values.glibc} at most (--glibc)`);
  console.error(`needs glibc ${needed}`);
}

/** What an addon says of itself and of this machine; in a process of its own. */
function describe(path) {
  const program = `const { version, grammars, machine } = require(process.argv[1]);
    process.stdout.write(JSON.stringify({ version, grammars, sets: machine().instructionSets }))`;
  const { status, stdout, stderr } = spawnSync(process.execPath, ['-e', program, path], { encoding: 'utf8' });
  if (status !== 0) throw new Error(`${path} cannot be loaded (node scripts/install.mjs builds one): ${stderr}`);
  return JSON.parse(stdout);
}

/**
 * Compilers differ in how they ask for instruction sets, and an addon that does not find the processor's is right, and
 * ten times as slow: nothing but a comparison tells.
 */
function compare(path, expected) {
  const found = describe(path);
  for (const what of ['version', 'grammars', 'sets']) {
    const [here, there] = [found, expected].map((addon) => JSON.stringify(addon[what]));
    if (here !== there) throw new Error(`${path}: found ${what} ${here}, expected ${there}, as without zig`);
  }
  console.error(`loads; chooses ${found.sets.at(-1)}`);
}

/** @returns the package's path */
function pack(path) {
  const folder = join(build, 'package');
  rmSync(folder, { recursive: true, force: true });
  mkdirSync(folder, { recursive: true });
  copyFileSync(path, join(folder, 'spillway.node'));
  copyFileSync(join(root, 'LICENSE'), join(folder, 'LICENSE'));
  const description = packageManifest(values.platform, { version, license, repository, engines });
  writeFileSync(join(folder, 'package.json'), `${JSON.stringify(description, undefined, 2)}\n`);
  writeFileSync(
    join(folder, 'README.md'),
    `# ${description.name}\n\nThe native addon of [spillway](https://www.npmjs.com/package/spillway) for ${values.platform}. Installed with it; not to be used by itself.\n`,
  );
  const packed = spawnSync('npm', ['pack', '--silent', '--pack-destination', output], {
    cwd: folder,
    encoding: 'utf8',
  });
  if (packed.status !== 0) throw new Error(`npm pack: ${packed.stderr}`);
  const file = join(output, packed.stdout.trim());
  console.error(
    `${(statSync(file).size / 2 ** 20).toFixed(1)} MiB packed, ${(statSync(path).size / 2 ** 20).toFixed(1)} MiB installed`,
  );
  return file;
}
