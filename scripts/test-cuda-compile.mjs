// Compiles every CUDA kernel with nvcc, and holds each to the registers, stack and spills that it is known to need.
// What is linked with CUDA's runtime has to answer without a driver, too.
//   node scripts/test-cuda-compile.mjs [--toolkit FOLDER] [--architectures 90a] [--counts FILE] [--print]
// --toolkit: a CUDA toolkit; without it CUDACXX, or one that install-cuda-toolchain.sh puts into native/build-cuda (216
// MB, needs pip and a package index). --print: says what each kernel uses, for the table below. One test a source file,
// one a kernel, one for the answer. Skipped, with the reason, where no toolkit can be had. Exits with 1 if a test
// fails.
import { spawn, spawnSync } from 'node:child_process';
import { mkdirSync, mkdtempSync, readdirSync, rmSync, writeFileSync } from 'node:fs';
import { availableParallelism, tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';

const root = dirname(dirname(fileURLToPath(import.meta.url)));
const sources = join(root, 'native', 'kernels', 'cuda');
const { values: options } = parseArgs({
  options: {
    toolkit: { type: 'string' },
    architectures: { type: 'string', default: '90a' },
    counts: { type: 'string' },
    print: { type: 'boolean', default: false },
  },
});

/**
 * Threads of a block, and the most registers that any instance of the kernel may take, on any architecture: a few more
 * than were measured. More would mean fewer blocks a multiprocessor (65536 registers), so a kernel that outgrows its
 * line is looked at before the line is raised.
 */
const kernels = {
  activateKernel: { threads: 256, registers: 32 },
  addKernel: { threads: 256, registers: 16 },
  addScaledKernel: { threads: 256, registers: 16 },
  attendKeptKernel: { threads: 128, registers: 96 },
  attendPartKernel: { threads: 128, registers: 168 },
  combineSplitsKernel: { threads: 128, registers: 40 },
  copyPagesKernel: { threads: 256, registers: 40 },
  copyPinnedKernel: { threads: 256, registers: 32 },
  dequantisePagesKernel: { threads: 128, registers: 128 },
  embedKernel: { threads: 256, registers: 48 },
  gatherRowsKernel: { threads: 256, registers: 40 },
  layerNormKernel: { threads: 512, registers: 64 },
  multiplyFewKernel: { threads: 128, registers: 112 },
  multiplyFloatKernel: { threads: 256, registers: 80 },
  multiplySomeKernel: { threads: 256, registers: 96 },
  multiplyWarpgroupsKernel: { threads: 384, registers: 168 },
  multiplyWideKernel: { threads: 256, registers: 248 },
  prefillAttentionKernel: { threads: 128, registers: 255 },
  prepareActivatedKernel: { threads: 512, registers: 64 },
  prepareNormedKernel: { threads: 512, registers: 64 },
  prepareRowsKernel: { threads: 512, registers: 64 },
  receiveOutputsKernel: { threads: 256, registers: 32 },
  rmsNormKernel: { threads: 512, registers: 64 },
  rotateKernel: { threads: 256, registers: 40 },
  sampleTokensKernel: { threads: 512, registers: 64 },
  scaleKernel: { threads: 256, registers: 40 },
  scaleProductsKernel: { threads: 256, registers: 24 },
  scatterScaledRowsKernel: { threads: 256, registers: 40 },
  scoreKeysKernel: { threads: 128, registers: 96 },
  selectKeysKernel: { threads: 256, registers: 40 },
  sendEightsKernel: { threads: 256, registers: 32 },
  sendHalvesKernel: { threads: 256, registers: 24 },
  softCapKernel: { threads: 256, registers: 40 },
  storeQuantisedTokensKernel: { threads: 128, registers: 48 },
  storeTokensKernel: { threads: 256, registers: 40 },
  unpackFloatsKernel: { threads: 256, registers: 48 },
  unpackHalvesKernel: { threads: 256, registers: 40 },
};
const registersOfMultiprocessor = 65536;

const counts = { passed: 0, failed: 0, skipped: 0 };

function finish() {
  console.log(`CUDA compilation: ${counts.passed} passed, ${counts.failed} failed, ${counts.skipped} skipped`);
  if (options.counts !== undefined) writeFileSync(options.counts, JSON.stringify(counts) + '\n');
  process.exit(counts.failed === 0 ? 0 : 1);
}

function test(name, problem) {
  if (problem === undefined) counts.passed++;
  else {
    counts.failed++;
    console.error(`CUDA compilation: ${name}: ${problem}`);
  }
}

/** @returns the path of nvcc; undefined, with the reason told, where there is none to be had */
function findNvcc() {
  if (options.toolkit !== undefined) return join(options.toolkit, 'bin', 'nvcc');
  if (process.env.CUDACXX) return process.env.CUDACXX;
  const folder = join(root, 'native', 'build-cuda', 'toolkit');
  mkdirSync(dirname(folder), { recursive: true });
  const installed = spawnSync('bash', [join(root, 'scripts', 'install-cuda-toolchain.sh'), folder], {
    encoding: 'utf8',
    timeout: 300_000,
  });
  if (installed.status === 0) return join(folder, 'bin', 'nvcc');
  const reason = installed.error?.message ?? (installed.stderr.trim().split('\n').at(-1) || `exit ${installed.status}`);
  console.log(`CUDA compilation: skipped, the toolkit cannot be installed: ${reason}`);
  counts.skipped++;
  return undefined;
}

/** @returns {Promise<{ status: number | null, output: string }>} */
function run(command, args) {
  return new Promise((resolve) => {
    const child = spawn(command, args, { cwd: root });
    let output = '';
    child.stdout.on('data', (data) => (output += data));
    child.stderr.on('data', (data) => (output += data));
    child.on('error', (error) => resolve({ status: null, output: error.message }));
    child.on('close', (status) => resolve({ status, output }));
  });
}

/**
 * What ptxas says of each kernel: a line that names it, one with stack and spills, one with registers.
 * @returns {{ name: string, architecture: string, registers: number, stack: number, spills: number }[]}
 */
function readUsage(output) {
  const usage = [];
  for (const line of output.split('\n')) {
    const entry = /Compiling entry function '(\S+)' for '(sm_\w+)'/.exec(line);
    // In a mangled name a word stands after its length.
    const name = entry && /\d([A-Za-z]+Kernel)/.exec(entry[1]);
    if (entry) usage.push({ name: name?.[1] ?? entry[1], architecture: entry[2], registers: 0, stack: 0, spills: 0 });
    const current = usage.at(-1);
    const memory = /(\d+) bytes stack frame, (\d+) bytes spill stores, (\d+) bytes spill loads/.exec(line);
    if (memory && current) [current.stack, current.spills] = [Number(memory[1]), Number(memory[2]) + Number(memory[3])];
    const registers = /Used (\d+) registers/.exec(line);
    if (registers && current) current.registers = Number(registers[1]);
  }
  return usage;
}

function problemOf({ architecture, registers, stack, spills }, limit) {
  if (limit === undefined) return 'is not in the table of this script';
  if (spills > 0) return `${architecture}: ${spills} bytes spilled, expected none`;
  if (stack > 0) return `${architecture}: ${stack} bytes of stack, expected none`;
  if (registers === 0) return `${architecture}: ptxas did not say how many registers`;
  if (registers > limit.registers)
    return `${architecture}: ${registers} registers, expected ${limit.registers} at most`;
  if (registers * limit.threads > registersOfMultiprocessor)
    return `${architecture}: ${registers} registers for ${limit.threads} threads: no block can start`;
  return undefined;
}

const nvcc = findNvcc();
if (nvcc === undefined) finish();

const scratch = mkdtempSync(join(tmpdir(), 'spillway-cuda-'));
const architectures = options.architectures.split(',');
const targets = architectures.map((number) => `-gencode=arch=compute_${number},code=sm_${number}`);
// Code for a device is optimised whatever is said.
const flags = [
  '-std=c++17',
  '-fmad=false',
  '--expt-relaxed-constexpr',
  '-DSPILLWAY_HAS_CUDA',
  '-DSPILLWAY_CUDA_90A',
  '-Xcompiler=-Wall,-Wextra',
  '-Werror=all-warnings',
  '-Xptxas=-v',
  ...targets,
];
const queue = readdirSync(sources).filter((name) => name.endsWith('.cu'));
// The model on a device is host code that calls CUDA's runtime: whether it compiles is all there is to say.
const backend = join(root, 'native', 'backend', 'cuda');
const hostFlags = [
  '-std=c++17',
  '-DSPILLWAY_HAS_CUDA',
  '-DSPILLWAY_CUDA_RUNTIME',
  '-Xcompiler=-Wall,-Wextra,-Werror,-fsyntax-only',
];
const hostQueue = readdirSync(backend).filter((name) => name.endsWith('.cpp'));
const usage = [];
const LINKED = 'Devices.cu';

async function compileNext() {
  for (let name = queue.shift(); name !== undefined; name = queue.shift()) {
    // Code for the host is read there, too, and made for what is linked below; the emulated device's tests run it.
    const form = architectures.length > 1 || name === LINKED ? '-c' : '-cubin';
    const { status, output } = await run(nvcc, [...flags, form, join(sources, name), '-o', join(scratch, `${name}.o`)]);
    test(name, status === 0 ? undefined : `does not compile:\n${output}`);
    usage.push(...readUsage(output));
  }
  for (let name = hostQueue.shift(); name !== undefined; name = hostQueue.shift()) {
    const { status, output } = await run(nvcc, [
      ...hostFlags,
      '-c',
      join(backend, name),
      '-o',
      join(scratch, `${name}.o`),
    ]);
    test(name, status === 0 ? undefined : `does not compile:\n${output}`);
  }
}

/** The machine's GPUs as its driver lists them; none without a driver. */
function gpusOfDriver() {
  const listed = spawnSync('nvidia-smi', ['--list-gpus'], { encoding: 'utf8' });
  return listed.status === 0 ? listed.stdout.split('\n').filter((line) => line.startsWith('GPU ')).length : 0;
}

async function answersWithoutADriver() {
  const program = join(scratch, 'listGpus');
  const linked = await run(nvcc, [
    '-std=c++17',
    '-DSPILLWAY_HAS_CUDA',
    join(root, 'native', 'tests', 'cuda', 'listGpus.cpp'),
    join(scratch, `${LINKED}.o`),
    '-o',
    program,
  ]);
  if (linked.status !== 0) return `cannot be linked:\n${linked.output}`;
  const { status, output } = await run(program, []);
  const expected = `${gpusOfDriver()}\n`;
  return status === 0 && output === expected
    ? undefined
    : `found exit ${status} and ${JSON.stringify(output)}, expected exit 0 and ${JSON.stringify(expected)}`;
}

await Promise.all(Array.from({ length: availableParallelism() }, compileNext));
test('the list of GPUs', await answersWithoutADriver());
rmSync(scratch, { recursive: true, force: true });

for (const name of [...new Set([...Object.keys(kernels), ...usage.map((entry) => entry.name)])].sort()) {
  const instances = usage.filter((entry) => entry.name === name);
  if (options.print)
    console.log(
      `${name}: ${instances.length} instances, at most ${Math.max(...instances.map(({ registers }) => registers))} registers`,
    );
  if (instances.length === 0) test(name, 'is in the table of this script, and in no source');
  else
    test(
      name,
      instances.map((entry) => problemOf(entry, kernels[name])).find((problem) => problem !== undefined),
    );
}
finish();
