// The peer: FlexGen on the torch that is there, under the same caps: with its published policy, and with some others, so
// that the best of them is what is compared with.
import { spawn } from 'node:child_process';
import { existsSync, readdirSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { optBytes } from './optShapes.mjs';

const ON_GPU = [100, 0, 100, 0, 100, 0];
/**
 * Percentages are of weights, cache and activations, on GPU and CPU each. The first of each list is what FlexGen's
 * authors published for prompts of 512 tokens on a GPU of 16 GB and 208 GB of memory; the others are its ways to have
 * more rows: the cache on the GPU while weights stream, the cache streaming too, attention on the processor, and all of
 * it on the GPU in 4 bits.
 */
export const POLICIES = {
  'opt-6.7b': [
    { name: 'published', batchSize: 2, batches: 1, percent: ON_GPU, overlap: false },
    { name: 'as many rows as fit', batchSize: 8, batches: 1, percent: ON_GPU, overlap: false },
    { name: 'the cache streams', batchSize: 32, batches: 4, percent: [20, 80, 0, 100, 0, 100] },
    { name: 'cache on the GPU', batchSize: 8, batches: 4, percent: [0, 100, 100, 0, 100, 0] },
    { name: '4 bits', batchSize: 64, batches: 1, percent: ON_GPU, overlap: false, compress: true },
    { name: 'attention on the CPU', batchSize: 32, batches: 4, percent: [20, 80, 0, 100, 0, 100], cpuAttention: true },
  ],
  'opt-30b': [
    { name: 'published', batchSize: 48, batches: 3, percent: [20, 80, 0, 100, 0, 100], cpuAttention: true },
    { name: 'the cache streams', batchSize: 48, batches: 2, percent: [10, 90, 0, 100, 0, 100] },
    { name: 'cache on the GPU', batchSize: 4, batches: 4, percent: [0, 100, 100, 0, 100, 0] },
    { name: '4 bits', batchSize: 16, batches: 4, percent: [20, 80, 100, 0, 100, 0], compress: true },
  ],
};
/** What a policy leaves out. */
const wholePolicy = (policy) => ({ cpuAttention: false, overlap: true, compress: false, ...policy });
/** What its four copying threads pin, always. */
const COPY_BYTES = 8 * 2 ** 30;
/** Python, torch, and what its weights take while they are made. */
const MARGIN_BYTES = 4 * 2 ** 30;

/** Its weights are pinned, and torch pins powers of two: what a matrix of the model takes of what it needs. */
function pinnedRounding({ hiddenSize }) {
  const bytes = 2 * hiddenSize ** 2;
  return 2 ** Math.ceil(Math.log2(bytes)) / bytes;
}

/** Processor memory that it takes with a policy. */
export function flexgenMemory(shape, { batchSize, batches, percent }, promptTokens, newTokens) {
  const { total, cacheToken } = optBytes(shape);
  const cache = (batchSize * batches * (promptTokens + newTokens) * cacheToken * percent[3]) / 100;
  return COPY_BYTES + MARGIN_BYTES + (pinnedRounding(shape) * total * percent[1]) / 100 + cache;
}

/** A policy with fewer batches, then smaller ones, until it fits; undefined where none does. */
export function fitPolicy(policy, shape, cpuBytes, promptTokens, newTokens) {
  const fits = (each) => flexgenMemory(shape, each, promptTokens, newTokens) <= cpuBytes;
  for (let { batches, batchSize } = policy; batchSize >= 1;) {
    const fitted = { ...policy, batchSize, batches };
    if (fits(fitted)) return fitted;
    if (batches > 1) batches--;
    else batchSize = Math.floor(batchSize / 2);
  }
  return undefined;
}

/** Wheels that came with the bundle: of pure Python, so they are imported as they are. */
function wheels(folder) {
  return folder !== undefined && existsSync(folder)
    ? readdirSync(folder)
        .filter((name) => name.endsWith('.whl'))
        .map((name) => join(folder, name))
    : [];
}

function runPython(python, job, { wheelFolder, signal }) {
  const script = fileURLToPath(new URL('runFlexGen.py', import.meta.url));
  const path = [...wheels(wheelFolder), ...(process.env.PYTHONPATH ? [process.env.PYTHONPATH] : [])].join(':');
  return new Promise((resolve) => {
    const child = spawn(python, [script, JSON.stringify(job)], {
      stdio: ['ignore', 'pipe', 'pipe'],
      env: { ...process.env, PYTHONPATH: path },
      ...(signal && { signal }),
    });
    let [output, errors] = ['', ''];
    child.stdout.on('data', (text) => (output += text));
    child.stderr.on('data', (text) => (errors = (errors + text).slice(-4000)));
    child.on('error', (error) => resolve({ output, errors: error.message }));
    child.on('close', (code, name) =>
      resolve({ output, errors, ...(code !== 0 && { failure: code === null ? `ended by ${name}` : `exit ${code}` }) }),
    );
  });
}

async function runPolicy(policy, job, { python, wheelFolder, signal }) {
  const { output, errors, failure } = await runPython(python, { ...job, ...policy }, { wheelFolder, signal });
  const line = output
    .trim()
    .split('\n')
    .findLast((each) => each.startsWith('{"'));
  try {
    return JSON.parse(line ?? '');
  } catch {
    const last = errors.trim().split('\n').at(-1);
    return {
      notMeasured: signal?.aborted
        ? 'stopped by the time limit'
        : [failure, last].filter((each) => each).join(': ') || 'it printed no result',
    };
  }
}

/**
 * @param name, @param shape with the layers that Spillway was measured with
 * @param caps gpuBytes, cpuBytes
 * @param secondsLeft no policy is begun when there are none
 * @param secondsEach that a policy may take
 * @param python default: python3
 * @param onPolicy told what is known after each policy
 * @returns of the best policy: policy, rows, tokensPerSecond, prefillSeconds, decodeSeconds, peaks; or `notMeasured`
 * with the reason of the first; `policies`: the same of each
 */
export async function measureFlexGen({
  name,
  shape,
  caps,
  folder,
  promptTokens = 512,
  newTokens = 32,
  python = 'python3',
  wheelFolder,
  signal,
  secondsLeft = () => Infinity,
  secondsEach = 90,
  onPolicy = () => {},
}) {
  const about = { name, layers: shape.layers, caps };
  const fitted = POLICIES[name]
    .map((policy) => fitPolicy(wholePolicy(policy), shape, caps.cpuBytes, promptTokens, newTokens))
    .filter((policy) => policy !== undefined);
  if (fitted.length === 0)
    return {
      ...about,
      notMeasured: `no policy of it fits ${caps.cpuBytes} bytes of memory, of which its copying threads alone take ${COPY_BYTES}`,
    };
  const job = { model: name, layers: shape.layers, gpuBytes: caps.gpuBytes, promptTokens, newTokens, folder };
  const policies = [];
  const known = () => {
    const best = policies.reduce((a, b) => ((b.tokensPerSecond ?? 0) > (a.tokensPerSecond ?? 0) ? b : a));
    return { ...about, ...best, policies };
  };
  for (const policy of fitted) {
    if (policies.length > 0 && (secondsLeft() < 20 || signal?.aborted)) break;
    const limits = [AbortSignal.timeout(secondsEach * 1000), ...(signal ? [signal] : [])];
    const result = await runPolicy(policy, job, { python, wheelFolder, signal: AbortSignal.any(limits) });
    policies.push({ policy, rows: policy.batchSize * policy.batches, ...result });
    onPolicy(known());
  }
  return known();
}
