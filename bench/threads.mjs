// How threads are best divided between computing and moving: the same rows, streaming from disk, with one compute
// thread and more, and with the disk's requests made by the kernel's ring (no thread of ours) or by a pool of threads.
// What the policy chooses on this machine is marked: the fewest threads that the cost model predicts to be fastest, by
// a profile that is measured when the runs are done. `--write` puts the table into docs/papers.md.
import { availableParallelism } from 'node:os';
import { fileURLToPath } from 'node:url';
import { machineInWords } from './lib/machine.mjs';
import { markdownTable, rewriteTable } from './lib/results.mjs';
import { benchVariants } from './lib/variants.mjs';

const DOCUMENT = fileURLToPath(new URL('../docs/papers.md', import.meta.url));
const processors = availableParallelism();
/** One, half, all but one, all, and one too many. */
const counts = [...new Set([1, processors >> 1, processors - 1, processors, processors + 1])]
  .filter((count) => count > 0)
  .sort((a, b) => a - b);
/** The engine's own way of asking the disk comes first. */
const BACKENDS = { ring: 'the ring', threads: 'threads' };
const splits = Object.keys(BACKENDS).flatMap((backend) =>
  counts.map((threads) => ({ backend, threads, variant: `${threads} to compute, disk by ${BACKENDS[backend]}` })),
);
/** Predictions that differ by less are of one speed. */
const SAME = 1 + 1e-6;

/**
 * What the cost model says of every number of threads; it knows no more than were measured, and one way to the disk.
 */
async function predictSplits(document, { model, disk }) {
  const { predict, profileMachine, readModelShape } = await import('../dist/api/plan.js');
  const hardware = await profileMachine({ disk });
  const shape = await readModelShape(model);
  const { rows, promptTokens, maxNewTokens: newTokens } = document.workload;
  const {
    schedule,
    batchSize,
    batches,
    tokensPerSquare,
    weights,
    cache,
    activations,
    compressWeights,
    compressCache,
    cpuAttention,
  } = document.policy;
  const policy = {
    schedule,
    batchSize,
    batches,
    tokensPerSquare,
    weights,
    cache,
    activations,
    compressWeights,
    compressCache,
    cpuAttention,
  };
  for (const [index, { backend, threads }] of splits.entries()) {
    if (backend === 'ring' && threads <= processors)
      document.summary[index].predictedTokensPerSecond = predict(
        { hardware, shape, workload: { rows, promptTokens, newTokens } },
        { ...policy, threads },
      ).tokensPerSecond;
  }
  const best = Math.max(...document.summary.map(({ predictedTokensPerSecond = 0 }) => predictedTokensPerSecond));
  const chosen = document.summary.find(({ predictedTokensPerSecond = 0 }) => predictedTokensPerSecond * SAME >= best);
  chosen.chosen = true;
  chosen.variant += ' (chosen)';
}

function measuredTable({ date, machine, workload, policy, summary }) {
  const onDisk = Math.round(100 * policy.weights.disk);
  return [
    `${workload.model}, ${workload.rows} rows of ${workload.promptTokens} + ${workload.maxNewTokens} tokens in ${policy.batches} x ${policy.batchSize}, ${onDisk}% of the weights on disk; ${machineInWords(machine)}, ${date}:`,
    '',
    ...markdownTable(
      [
        'threads that compute',
        '',
        'disk requests by',
        'tokens/s (slowest-fastest)',
        'predicted',
        'compute busy',
        'disk busy',
      ],
      splits.map(({ threads, backend }, index) => {
        const {
          chosen = false,
          generatedTokensPerSecond,
          slowest,
          fastest,
          predictedTokensPerSecond,
          busyShare,
        } = summary[index];
        const percent = (queue) => `${(100 * (busyShare[queue] ?? 0)).toFixed(0)}%`;
        return [
          String(threads),
          chosen ? 'chosen' : '',
          BACKENDS[backend],
          `${generatedTokensPerSecond.toFixed(1)} (${slowest.toFixed(1)}-${fastest.toFixed(1)})`,
          predictedTokensPerSecond?.toFixed(1) ?? '',
          percent('cpu-compute'),
          percent('disk-read'),
        ];
      }),
    ),
  ].join('\n');
}

const done = await benchVariants({
  name: 'threads',
  title: 'Thread splits',
  own: { write: { type: 'boolean', default: false } },
  ownUsage: '\n  [--write]',
  variants: () =>
    splits.map(({ variant, threads, backend }) => ({
      name: variant,
      engine: { threads },
      env: { SPILLWAY_DISK_BACKEND: backend },
    })),
  explain: predictSplits,
});
if (done?.values.write) rewriteTable('threads-measured', `\n${measuredTable(done.document)}\n`, DOCUMENT);
