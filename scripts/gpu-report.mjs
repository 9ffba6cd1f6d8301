// Writes what verify-gpu.sh found as one JSON and one Markdown report.
//   node scripts/gpu-report.mjs DEVICE TESTS.json[,MODELS.json] BENCH.json SANITIZER [FOLDER]
// DEVICE: "name, compute capability, driver, memory"; TESTS.json: GoogleTest's report of the kernels' tests, MODELS.json: of the models'; BENCH.json: what bench_cudaKernels prints; SANITIZER: a word.
// A file that is absent or no JSON (a crash) makes its part "not measured". FOLDER: bench/results by default.
import { spawnSync } from 'node:child_process';
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';

const root = dirname(dirname(fileURLToPath(import.meta.url)));
const [device, testsFile, benchFile, sanitizer, folder = join(root, 'bench', 'results')] = process.argv.slice(2);
if (sanitizer === undefined) {
  console.error('usage: gpu-report.mjs DEVICE TESTS.json BENCH.json SANITIZER [FOLDER]');
  process.exit(1);
}

function readJson(file) {
  try {
    return JSON.parse(readFileSync(file, 'utf8'));
  } catch {
    return undefined;
  }
}

const [name, computeCapability, driver, memory] = device.split(',').map((part) => part.trim());
/** What a report of GoogleTest says; undefined where there is none. */
function readTests(file) {
  const cases = file === undefined ? undefined : readJson(file)?.testsuites.flatMap((suite) => suite.testsuite);
  if (cases === undefined) return undefined;
  const failures = cases.filter((test) => (test.failures ?? []).length > 0).map((test) => `${test.classname}.${test.name}`);
  return { passed: cases.length - failures.length, failed: failures.length, failures };
}

const [kernelFile, modelFile] = testsFile.split(',');
const kernels = readTests(kernelFile);
const models = readTests(modelFile);
const bench = readJson(benchFile);

/** The commit that was built: a bundle keeps it in a file. */
function findCommit() {
  try {
    return readFileSync(join(root, 'prebuilt', 'commit'), 'utf8').trim();
  } catch {
    return spawnSync('git', ['rev-parse', 'HEAD'], { cwd: root, encoding: 'utf8' }).stdout?.trim() || 'unknown';
  }
}

const report = {
  date: new Date().toISOString(),
  commit: findCommit(),
  device: { name, computeCapability, driver, memory },
  tests: kernels ?? 'crashed',
  models: models ?? (modelFile === undefined ? 'not measured' : 'crashed'),
  computeSanitizer: sanitizer,
  bandwidth: bench === undefined ? 'not measured' : { copyBytesPerSecond: bench.copyBytesPerSecond, results: bench.results },
  endToEnd: 'not measured',
  peers: 'not measured',
};

const describe = (tests) => (typeof tests === 'string' ? tests : `${tests.passed} passed, ${tests.failed} failed`);
const percent = (share) => `${(100 * share).toFixed(1)}%`;
const lines = [
  `# CUDA kernels on ${name}`,
  '',
  `${report.date.slice(0, 10)}, compute capability ${computeCapability}, driver ${driver}, ${memory}; commit ${report.commit}.`,
  '',
  `- Kernel tests on the device: ${describe(report.tests)}`,
  ...(kernels?.failures ?? []).map((failure) => `  - failed: ${failure}`),
  `- Models on the device, against the processor and the reference: ${describe(report.models)}`,
  ...(models?.failures ?? []).map((failure) => `  - failed: ${failure}`),
  `- compute-sanitizer: ${sanitizer}`,
  `- End to end: ${report.endToEnd}`,
  `- Peers: ${report.peers}`,
  '',
];
if (bench === undefined) lines.push('Benchmarks: not measured.');
else {
  lines.push(`A copy within the device's memory reaches ${(bench.copyBytesPerSecond / 1e9).toFixed(0)} GB/s (read and written).`, '');
  lines.push('| kernel | µs | GB/s | share of the copy |', '|-|-:|-:|-:|');
  for (const row of bench.results)
    lines.push(`| ${row.name} | ${(row.seconds * 1e6).toFixed(1)} | ${(row.bytesPerSecond / 1e9).toFixed(0)} | ${percent(row.shareOfBandwidth)} |`);
}

mkdirSync(folder, { recursive: true });
const file = join(folder, `gpu-${report.date.slice(0, 10)}-${name.replace(/[^A-Za-z0-9]+/g, '-')}`);
writeFileSync(`${file}.json`, JSON.stringify(report, null, 2) + '\n');
writeFileSync(`${file}.md`, lines.join('\n') + '\n');
console.log(`${file}.md`);
