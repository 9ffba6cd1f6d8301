// Makes the package of a prebuilt addon: release/spillway-PLATFORM-VERSION.tgz.
//   npm run release:addon -- [--platform linux-x64] [--output release]
// The compiler is zig's, from PyPI (scripts/release/zig.mjs): so one machine builds for all platforms, and for older C
// libraries than its own. What it made for a platform that is not this one it cannot load: it says so. Constrained
// decoding needs Rust's library for the platform (`rustup target add`). It has not been run to its end so far: all of
// the addon compiles so for linux-x64, and linking, which failed, has been mended since and not tried again.
import { spawnSync } from 'node:child_process';
import { copyFileSync, mkdirSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { availableParallelism } from 'node:os';
import { dirname, join, resolve } from 'node:path';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';
import { GLIBC, packageName, PLATFORMS } from './platforms.mjs';
import { run } from '../pythonPackage.mjs';
import { zigTools } from './zig.mjs';

const root = dirname(dirname(dirname(fileURLToPath(import.meta.url))));
const { values } = parseArgs({
  options: {
    platform: { type: 'string', default: `${process.platform}-${process.arch}` },
    output: { type: 'string', default: 'release' },
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

const addon = compile();
checkCLibrary(addon);
checkThatItLoads(addon);
console.log(pack(addon));

function compile() {
  const { target, system, processor } = platform;
  const settings = {
    ...zigTools(join(root, 'native', 'build-zig'), target),
    CMAKE_SYSTEM_NAME: system,
    CMAKE_SYSTEM_PROCESSOR: processor,
    SPILLWAY_CUDA: 'OFF',
    SPILLWAY_CARGO_TARGET: platform.rust,
  };
  const cmakeJs = createRequire(import.meta.url).resolve('cmake-js/bin/cmake-js');
  const flags = Object.entries(settings).map(([name, value]) => `--CD${name}=${value}`);
  run(
    process.execPath,
    [cmakeJs, 'compile', '--directory', root, '--out', build, '--parallel', String(availableParallelism()), ...flags],
    { cwd: root },
  );
  return join(build, 'Release', 'spillway.node');
}

/** The names of the versions of glibc's symbols that a binary needs stand in it as text. */
function checkCLibrary(path) {
  if (platform.libc !== 'glibc') return;
  const minor = (text) => Number(text.split('.')[1]);
  const needed = [...readFileSync(path, 'latin1').matchAll(/GLIBC_(2\.\d+)/g)]
    .map(([, found]) => found)
    .sort((a, b) => minor(b) - minor(a))[0];
  if (needed === undefined || minor(needed) > minor(GLIBC))
    throw new Error(`${path}: found a need for glibc ${needed}, expected ${GLIBC} at most`);
  console.error(`needs glibc ${needed}`);
}

function checkThatItLoads(path) {
  if (platform.os !== process.platform || platform.cpu !== process.arch || platform.libc === 'musl') {
    console.error(`not loaded: this is ${process.platform}-${process.arch}`);
    return;
  }
  const { status, stdout, stderr } = spawnSync(
    process.execPath,
    ['-e', `process.stdout.write(require(${JSON.stringify(path)}).version)`],
    { encoding: 'utf8' },
  );
  if (status !== 0 || stdout !== version)
    throw new Error(`${path} cannot be loaded: ${stderr || `found version ${stdout}, expected ${version}`}`);
}

/** @returns the package's path */
function pack(path) {
  const folder = join(build, 'package');
  rmSync(folder, { recursive: true, force: true });
  mkdirSync(folder, { recursive: true });
  copyFileSync(path, join(folder, 'spillway.node'));
  copyFileSync(join(root, 'LICENSE'), join(folder, 'LICENSE'));
  const { os, cpu, libc } = platform;
  const description = {
    name: packageName(values.platform),
    version,
    description: `The native addon of spillway for ${values.platform}`,
    license,
    repository,
    engines,
    os: [os],
    cpu: [cpu],
    ...(libc && { libc: [libc] }),
    main: 'spillway.node',
    files: ['spillway.node', 'LICENSE'],
    publishConfig: { access: 'public', provenance: true },
  };
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
