// The peer: FlexGen on the torch that is there, with its published policies, under the same caps.
import { spawn } from 'node:child_process';
import { existsSync, readdirSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { optBytes } from './optShapes.mjs';

/**
 * Published for prompts of 512 tokens on a GPU of 16 GB and 208 GB of memory: batch size, batches, percentages
 * (weights, cache and activations, on GPU and CPU each), attention on the CPU.
 */
export const PUBLISHED = {
  'opt-6.7b': { batchSize: 2, batches: 1, percent: [100, 0, 100, 0, 100, 0], cpuAttention: false, overlap: false },
  'opt-30b': { batchSize: 48, batches: 3, percent: [20, 80, 0, 100, 0, 100], cpuAttention: true, overlap: true },
};
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

/** The published policy, with fewer batches, then smaller ones, until it fits; undefined where none does. */
export function flexgenPolicy(name, shape, cpuBytes, promptTokens, newTokens) {
  const published = PUBLISHED[name];
  if (published === undefined) return undefined;
  const fits = (policy) => flexgenMemory(shape, policy, promptTokens, newTokens) <= cpuBytes;
  for (let { batches, batchSize } = published; batchSize >= 1;) {
    const policy = { ...published, batchSize, batches };
    if (fits(policy)) return policy;
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

/**
 * @param name, @param shape with the layers that Spillway was measured with
 * @param caps gpuBytes, cpuBytes
 * @param python default: python3
 * @returns policy, tokensPerSecond, prefillSeconds, decodeSeconds, peaks; or `notMeasured` with the reason
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
}) {
  const about = { name, layers: shape.layers, caps };
  const policy = flexgenPolicy(name, shape, caps.cpuBytes, promptTokens, newTokens);
  if (policy === undefined)
    return {
      ...about,
      notMeasured: `no published policy of it fits ${caps.cpuBytes} bytes of memory, of which its copying threads alone take ${COPY_BYTES}`,
    };
  const job = {
    model: name,
    layers: shape.layers,
    gpuBytes: caps.gpuBytes,
    promptTokens,
    newTokens,
    folder,
    ...policy,
  };
  const { output, errors, failure } = await runPython(python, job, { wheelFolder, signal });
  const line = output
    .trim()
    .split('\n')
    .findLast((each) => each.startsWith('{"'));
  let result;
  try {
    result = JSON.parse(line ?? '');
  } catch {
    const last = errors.trim().split('\n').at(-1);
    return {
      ...about,
      policy,
      notMeasured: signal?.aborted
        ? 'stopped by the time limit'
        : [failure, last].filter((each) => each).join(': ') || 'it printed no result',
    };
  }
  return { ...about, policy, rows: policy.batchSize * policy.batches, ...result };
}
