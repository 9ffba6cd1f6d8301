// Builds and runs the native tests: as they are, with the address and undefined-behaviour sanitizers, and the system's
// and the moving parts of the model's with the thread sanitizer; by day the system's and the model's with sanitizers
// alone. The CUDA kernels', and those of models made of them (gpu_model_tests), run on the processor, with the order of
// threads and streams drawn from several seeds. On x86 also those of the kernels and the system as they are on 64-bit
// ARM, cross-compiled and emulated (Debian: g++-aarch64-linux-gnu, qemu-user-static).
//   node scripts/test-native.mjs [--counts FILE] [--only plain|asan|tsan|arm64] [--whole]
// --whole: also what takes minutes and finds little that the others do not, for nights and for changes of CUDA code:
// cuda_race_tests and gpu_model_race_tests, which are those of the device with a race detector, cuda_tests and
// gpu_model_tests with the address sanitizer, the vector kernels with that of undefined behaviour, more drawn cases
// (tries.h), and what nativeSelections.mjs leaves for then.
// Prints a summary line; exits with 1 if a test fails. What cannot be built for want of GoogleTest, a sanitizer or a
// compiler counts as skipped. --counts: writes {"passed","failed","skipped"} as JSON, for CI to add up.
import { spawn, spawnSync } from 'node:child_process';
import { existsSync, mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { availableParallelism, tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';
import { filterOf } from './nativeSelections.mjs';

const root = dirname(dirname(fileURLToPath(import.meta.url)));
// The slowest first, so that none is left alone at the end.
const all = ['gpu_model_tests', 'cuda_tests', 'kernel_tests', 'model_tests', 'system_tests'];
// Those of the kernels run in pieces, side by side with the others: most of them use one processor.
const shards = { kernel_tests: availableParallelism() };
const configurations = [
  { name: 'plain', sanitize: '', targets: all, whole: ['cuda_race_tests', 'gpu_model_race_tests'] },
  {
    name: 'asan',
    sanitize: 'address,undefined',
    targets: ['model_tests', 'kernel_tests', 'system_tests'],
    whole: ['gpu_model_tests', 'cuda_tests'],
  },
  { name: 'tsan', sanitize: 'thread', targets: ['system_tests', 'model_tests'] },
  ...(process.arch === 'x64' ? [{ name: 'arm64', sanitize: '', targets: ['kernel_tests'] }] : []),
];
// Debian's packages: a compiler with its C library, and an emulator of programs; its processor has all there is.
const arm64 = {
  compiler: 'aarch64-linux-gnu-g++',
  system: [
    '-DCMAKE_SYSTEM_NAME=Linux',
    '-DCMAKE_SYSTEM_PROCESSOR=aarch64',
    '-DCMAKE_CXX_COMPILER=aarch64-linux-gnu-g++',
    '-DCMAKE_C_COMPILER=aarch64-linux-gnu-gcc',
  ],
  emulator: ['qemu-aarch64-static', '-cpu', 'max,sve=off', '-L', '/usr/aarch64-linux-gnu'],
  googleTest: '/usr/src/googletest',
};
/** What CMake has to be told to build for 64-bit ARM. */
const armSettings = [
  ...arm64.system,
  `-DSPILLWAY_GOOGLETEST=${arm64.googleTest}`,
  '-DSPILLWAY_GRAMMAR=OFF',
  '-DSPILLWAY_CUDA=OFF',
  '-DSPILLWAY_OPTIMISATION=-O1', // half the time to compile
];
const { values: options } = parseArgs({
  options: { counts: { type: 'string' }, only: { type: 'string' }, whole: { type: 'boolean', default: false } },
});
// Seeds beyond the first find more in less time without a sanitizer.
const seeds = {
  plain: {
    cuda_tests: options.whole ? '0,1,2' : '1',
    cuda_race_tests: '3',
    gpu_model_tests: '1',
    gpu_model_race_tests: '0',
  },
  asan: { cuda_tests: '4', gpu_model_tests: '2' },
};
/**
 * Where the address sanitizer has the model's tests and the system's, too, those that it leaves out are all that runs
 * without.
 */
const shared = options.only === undefined && !options.whole && sanitizerWorks('address,undefined');
function targetsOf({ name, targets, whole = [] }) {
  if (options.whole) return [...whole, ...targets];
  if (name !== 'plain' || !shared) return targets;
  return targets
    .filter((target) => target !== 'system_tests')
    .map((target) => (target === 'model_tests' ? 'optimised_model_tests' : target));
}
const chosen = configurations
  .filter(({ name }) => options.only === undefined || options.only === name)
  .map((each) => ({ ...each, targets: targetsOf(each) }));
if (chosen.length === 0) {
  console.error(`--only: found ${options.only}, expected one of ${configurations.map(({ name }) => name).join(', ')}`);
  process.exit(1);
}

const counts = { passed: 0, failed: 0, skipped: 0 };
const environment = { ...process.env, UBSAN_OPTIONS: 'print_stacktrace=1', TSAN_OPTIONS: 'halt_on_error=1' };

/** Runs a program to its end; resolves to what spawnSync would give. */
function start(command, args, settings) {
  return new Promise((resolve) => {
    const child = spawn(command, args, {
      cwd: root,
      env: { ...environment, ...settings },
      stdio: ['ignore', 'pipe', 'pipe'],
    });
    const texts = [[], []];
    for (const [index, stream] of [child.stdout, child.stderr].entries())
      stream.on('data', (text) => texts[index].push(text));
    child.on('error', (error) => resolve({ status: null, stdout: '', stderr: String(error) }));
    child.on('close', (status, signal) =>
      resolve({
        status,
        signal,
        stdout: Buffer.concat(texts[0]).toString(),
        stderr: Buffer.concat(texts[1]).toString(),
      }),
    );
  });
}

function output({ stdout, stderr }) {
  return (stdout ?? '') + (stderr ?? '');
}

function fail(what, result) {
  console.error(output(result));
  console.error(`${what} failed`);
  counts.failed++;
}

/** Whether a program built with these sanitizers can be linked here. */
function sanitizerWorks(sanitize) {
  if (sanitize === '') return true;
  const program = join(tmpdir(), `spillway-sanitizer-${process.pid}`);
  const result = spawnSync('c++', ['-x', 'c++', `-fsanitize=${sanitize}`, '-o', program, '-'], {
    input: 'int main() { return 0; }',
  });
  rmSync(program, { force: true });
  return result.status === 0;
}

/** The program of `arm64` that is not here; undefined if all are. */
function missingForArm64() {
  const missing = [arm64.compiler, arm64.emulator[0]].find((name) => spawnSync(name, ['--version']).status !== 0);
  return missing ?? (existsSync(arm64.googleTest) ? undefined : arm64.googleTest);
}

/** @returns the names of the tests by outcome, from GoogleTest's own report; undefined if it wrote none (a crash) */
function readReport(file) {
  try {
    const report = JSON.parse(readFileSync(file, 'utf8'));
    const tests = report.testsuites.flatMap((suite) => suite.testsuite);
    const failed = tests.filter((test) => (test.failures ?? []).length > 0).length;
    const skipped = tests.filter((test) => test.result === 'SKIPPED' || test.status === 'NOTRUN').length;
    return { passed: tests.length - failed - skipped, failed, skipped };
  } catch {
    return undefined;
  }
}

/** All runs of a configuration, those that run in pieces as several. */
function runsOf(configuration, folder) {
  return configuration.targets.flatMap((target) =>
    Array.from({ length: shards[target] ?? 1 }, (_, shard) => ({ configuration, folder, target, shard })),
  );
}

/** Runs of what has been built that nobody has begun, and those that are under way. */
const waiting = [];
const running = new Set();

/** Begins as many as there are processors. */
function startWaiting() {
  while (waiting.length > 0 && running.size < availableParallelism()) {
    const run = runTests(waiting.shift()).finally(() => {
      running.delete(run);
      startWaiting();
    });
    running.add(run);
  }
}

async function runTests({ configuration, folder, target, shard }) {
  const program = join(folder, 'native', 'tests', target);
  const report = join(folder, `${target}-${shard}.json`);
  rmSync(report, { force: true });
  const args = [
    '--gtest_brief=1',
    `--gtest_output=json:${report}`,
    ...filterOf(configuration.name, target, options.whole),
  ];
  const settings = {
    SPILLWAY_CUDA_SEEDS: process.env.SPILLWAY_CUDA_SEEDS ?? seeds[configuration.name]?.[target] ?? '0',
    GTEST_TOTAL_SHARDS: String(shards[target] ?? 1),
    GTEST_SHARD_INDEX: String(shard),
    ...(options.whole && { SPILLWAY_TRIES: 'many' }),
    // The sanitizer does not see what io_uring does.
    ...(configuration.name === 'tsan' && target === 'model_tests' && { SPILLWAY_DISK_BACKEND: 'threads' }),
  };
  const began = Date.now();
  const [command, ...before] = configuration.name === 'arm64' ? [...arm64.emulator, program] : [program];
  let result = await start(command, [...before, ...args], settings);
  // Older thread sanitizers stumble over address space that is laid out too randomly.
  if (configuration.name === 'tsan' && output(result).includes('unexpected memory mapping'))
    result = await start('setarch', ['-R', program, ...args], settings);
  const outcome = readReport(report);
  for (const key of Object.keys(counts)) counts[key] += outcome?.[key] ?? 0;
  const name = `native ${configuration.name} ${target}${shards[target] > 1 ? ` (${shard + 1} of ${shards[target]})` : ''}`;
  if (result.status === 0 && outcome !== undefined && outcome.failed === 0) {
    console.log(
      `${name}: ${outcome.passed} passed, ${outcome.skipped} skipped (${Math.round((Date.now() - began) / 1000)} s)`,
    );
    return;
  }
  console.error(output(result));
  console.error(
    `${name}: ${outcome ? `${outcome.failed} failed` : `crashed (${result.signal ?? `exit ${result.status}`})`}`,
  );
  if (!outcome || outcome.failed === 0) counts.failed++; // a crash, or a sanitizer's complaint at exit
}

/** The plain tests share the addon's build folder where there is one: its objects are the same. */
function folderOf({ name }) {
  const addon = join(root, 'native', 'build');
  return name === 'plain' && existsSync(join(addon, 'CMakeCache.txt')) ? addon : join(root, 'native', `build-${name}`);
}

/**
 * Ninja keeps all processors busy where make waits for each program's objects. A folder that has been configured keeps
 * what it was configured for.
 */
function generatorFor(folder) {
  const fresh = !existsSync(join(folder, 'CMakeCache.txt'));
  return fresh && spawnSync('ninja', ['--version']).status === 0 ? ['-G', 'Ninja'] : [];
}

/**
 * The addon on the emulated device, for jest's tests in test/gpu: of objects that are in the addon's build folder
 * anyway.
 */
function addonsOf({ name }, folder) {
  return name === 'plain' && folder.endsWith(join('native', 'build')) ? ['spillway_emulated'] : [];
}

function skip(configuration, reason) {
  console.log(`native ${configuration.name}: skipped, ${reason}`);
  counts.skipped++;
}

for (const configuration of chosen) {
  // The next one is built as soon as a processor has no test to run, beside the last tests of this one.
  while (waiting.length > 0 || running.size >= availableParallelism()) await Promise.race(running);
  if (!sanitizerWorks(configuration.sanitize)) {
    skip(configuration, `the compiler has no -fsanitize=${configuration.sanitize} here`);
    continue;
  }
  const folder = folderOf(configuration);
  mkdirSync(folder, { recursive: true });
  const cross = configuration.name === 'arm64';
  const missing = cross ? missingForArm64() : undefined;
  if (missing !== undefined) {
    skip(configuration, `${missing} is not here (Debian: g++-aarch64-linux-gnu, qemu-user-static, libgtest-dev)`);
    continue;
  }
  const configured = await start('cmake', [
    '-S',
    root,
    '-B',
    folder,
    ...generatorFor(folder),
    ...(cross ? armSettings : []),
    '-DSPILLWAY_TESTS=ON',
    `-DSPILLWAY_SANITIZE=${configuration.sanitize}`,
    `-DSPILLWAY_WHOLE=${options.whole ? 'ON' : 'OFF'}`,
  ]);
  if (configured.status !== 0) {
    if (output(configured).includes('GTest')) skip(configuration, 'GoogleTest is not installed (Debian: libgtest-dev)');
    else fail(`configuring the native ${configuration.name} tests`, configured);
    continue;
  }
  const began = Date.now();
  const built = await start('cmake', [
    '--build',
    folder,
    '--parallel',
    String(availableParallelism()),
    '--target',
    ...configuration.targets,
    ...addonsOf(configuration, folder),
  ]);
  if (built.status !== 0) {
    fail(`building the native ${configuration.name} tests`, built);
    continue;
  }
  console.log(`native ${configuration.name}: built in ${Math.round((Date.now() - began) / 1000)} s`);
  waiting.push(...runsOf(configuration, folder));
  startWaiting();
}
while (running.size > 0) await Promise.race(running);

console.log(`native tests: ${counts.passed} passed, ${counts.failed} failed, ${counts.skipped} skipped`);
if (options.counts !== undefined) writeFileSync(options.counts, JSON.stringify(counts) + '\n');
process.exitCode = counts.failed === 0 ? 0 : 1;
