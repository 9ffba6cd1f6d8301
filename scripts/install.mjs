// Builds the native addon. Run by npm's `install` script, in a checkout and in a user's node_modules alike.
// Says that it builds, and no more where all is well; one sentence with its remedy where a tool is missing; the build's
// own output where the build fails.
import { spawnSync } from 'node:child_process';
import { accessSync, constants } from 'node:fs';
import { createRequire } from 'node:module';
import { availableParallelism } from 'node:os';
import { delimiter, dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';

const root = dirname(dirname(fileURLToPath(import.meta.url)));
const addon = join(root, 'native', 'build', 'Release', 'spillway.node');
const leastCmake = [3, 19];

/** What installs cmake, a compiler and make, by the package manager that is there. */
const installers = [
  ['apt-get', 'apt-get install -y cmake g++ make'],
  ['dnf', 'dnf install -y cmake gcc-c++ make'],
  ['yum', 'yum install -y cmake gcc-c++ make'],
  ['zypper', 'zypper install -y cmake gcc-c++ make'],
  ['pacman', 'pacman -S --needed cmake gcc make'],
  ['apk', 'apk add cmake g++ make'],
];

function onPath(...names) {
  return names.find((name) =>
    (process.env.PATH ?? '').split(delimiter).some((folder) => {
      try {
        accessSync(join(folder, name), constants.X_OK);
        return true;
      } catch {
        return false;
      }
    }),
  );
}

function remedy() {
  if (process.platform === 'darwin') return 'xcode-select --install; brew install cmake';
  const sudo = process.getuid?.() === 0 ? '' : 'sudo ';
  const found = installers.find(([manager]) => onPath(manager));
  return found ? sudo + found[1] : 'your package manager, for cmake, a C++ compiler and make';
}

function stop(message) {
  console.error(`spillway: ${message}`);
  process.exit(1);
}

/** The tools that are missing, in words. */
function missingTools() {
  const missing = [];
  if (!onPath('cmake')) missing.push('CMake');
  if (!onPath('g++', 'clang++')) missing.push('a C++ compiler (g++ or clang++)');
  if (!onPath('make', 'ninja')) missing.push('make (or ninja)');
  return missing;
}

function checkCmakeVersion() {
  const { stdout } = spawnSync('cmake', ['--version'], { encoding: 'utf8' });
  const match = /version (\d+)\.(\d+)/.exec(stdout ?? '');
  if (!match) return;
  const [major, minor] = [Number(match[1]), Number(match[2])];
  if (major < leastCmake[0] || (major === leastCmake[0] && minor < leastCmake[1])) {
    stop(
      `found CMake ${major}.${minor}, expected ${leastCmake.join('.')} or newer, to build the native addon; \`pip install cmake\` brings a recent one.`,
    );
  }
}

const missing = missingTools();
if (missing.length > 0)
  stop(
    `building the native addon needs ${missing.join(' and ')}, which ${missing.length > 1 ? 'are' : 'is'} not installed here; install with: ${remedy()}`,
  );
checkCmakeVersion();

console.log('spillway: building the native addon, which takes a minute or two');
const cmakeJs = createRequire(import.meta.url).resolve('cmake-js/bin/cmake-js');
const build = spawnSync(
  process.execPath,
  [
    cmakeJs,
    'compile',
    '--directory',
    root,
    '--out',
    join(root, 'native', 'build'),
    '--parallel',
    String(availableParallelism()),
  ],
  { cwd: root, encoding: 'utf8', maxBuffer: 2 ** 28 },
);
if (build.status !== 0) {
  process.stderr.write(build.stdout ?? '');
  process.stderr.write(build.stderr ?? '');
  stop(`building the native addon failed${build.error ? ` (${build.error.message})` : ''}; the output above says why.`);
}

// Loaded once, in a process of its own: a binary that does not fit this machine is found out here and not at first use.
const check = spawnSync(
  process.execPath,
  ['-e', `process.stdout.write(require(${JSON.stringify(addon)}).grammars ? 'all' : 'plain')`],
  { encoding: 'utf8' },
);
if (check.status !== 0) {
  process.stderr.write(check.stderr ?? '');
  stop(`the native addon was built but cannot be loaded (${addon}).`);
}
if (check.stdout === 'plain') {
  console.log(
    "spillway: built without constrained decoding (JSON schemas, regular expressions, grammars), for which it takes Rust's cargo 1.87 or newer and its registry; install that and build again",
  );
}
