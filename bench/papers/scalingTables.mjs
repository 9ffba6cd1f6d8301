// What the papers measured on several GPUs beside what is predicted and simulated, as rows with a header.
import { readFile } from 'node:fs/promises';
import {
  choosePolicy,
  planPipeline,
  predict,
  predictPipeline,
  readHardware,
  readModelShape,
  simulatePipeline,
  simulatePlan,
} from '../../dist/api/plan.js';
import { unpinnedWeights } from '../../dist/plan/papers/flexgen/unpinnedWeights.js';
import { figure, off, policyOf } from '../lib/planTables.mjs';

const alike = (hardware, count, link) =>
  Array.from({ length: count }, (_, index) => ({ name: `machine ${index + 1}`, hardware, link }));

export async function scalingTables() {
  const { flexgen, lmOffload } = JSON.parse(await readFile(new URL('scaling.json', import.meta.url), 'utf8'));
  return {
    'flexgen-machines': await flexgenMachines(flexgen),
    'flexgen-plans': await flexgenPlans(flexgen),
    'lm-offload-gpus': await lmOffloadGpus(lmOffload),
  };
}

/** FlexGen's table 3: published policies on one machine and on several. */
async function flexgenMachines({ promptTokens, newTokens, machines: count, microBatches, link, cases }) {
  const measured = await readHardware('flexgen-t4-measured');
  const rows = [];
  for (const { model, pinnedWeights, one, four } of cases) {
    const shape = await readModelShape(model);
    for (const hardware of pinnedWeights ? [measured] : [measured, unpinnedWeights(measured)]) {
      const runs = [];
      for (const [run, times] of [
        [one, 1],
        [four, microBatches],
      ]) {
        const { batchSize, batches, percent } = run;
        const policy = policyOf(batchSize, batches * times, percent, { tokensPerSquare: batchSize * promptTokens });
        const workload = { promptTokens, newTokens, rows: batchSize * batches * times };
        const request =
          run === one
            ? { hardware, shape, workload }
            : { machines: alike(hardware, count, link), shape, workload, hiddenStates: 'bfloat16' };
        const predicted = run === one ? predict(request, policy) : predictPipeline(request, policy, { microBatches });
        const simulated = await (run === one ? simulatePlan(request, policy) : simulatePipeline(request, predicted));
        const decoded = workload.rows * (newTokens - 1);
        runs.push({
          words: [
            String(run === one ? 1 : count),
            `${times > 1 ? `${times} of ` : ''}${batchSize} x ${batches}, ${percent.join(' ')}`,
          ],
          paper: {
            ...run,
            prefill: (workload.rows * newTokens) / run.generation - decoded / run.decoding,
          },
          generation: predicted.tokensPerSecond,
          simulated: simulated.tokensPerSecond,
          decoding: decoded / (predicted.wallSeconds - predicted.prefillSeconds),
          prefill: predicted.prefillSeconds,
        });
      }
      const [alone, together] = runs;
      const ratio = (field) => together[field] / alone[field];
      const measuredRatio = (field) => together.paper[field] / alone.paper[field];
      const name = hardware === measured ? model : `${model}, weights not pinned`;
      for (const { words, paper, generation, simulated, decoding, prefill } of runs)
        rows.push([
          name,
          ...words,
          figure(paper.generation),
          off(generation, paper.generation),
          figure(simulated),
          figure(paper.decoding),
          off(decoding, paper.decoding),
          figure(paper.prefill),
          off(prefill, paper.prefill),
        ]);
      rows.push([
        name,
        `${count} over 1`,
        '',
        `${figure(measuredRatio('generation'))}x`,
        off(ratio('generation'), measuredRatio('generation'), 'x'),
        `${figure(ratio('simulated'))}x`,
        `${figure(measuredRatio('decoding'))}x`,
        off(ratio('decoding'), measuredRatio('decoding'), 'x'),
        '',
        '',
      ]);
    }
  }
  return [
    [
      'model',
      'machines',
      'published policy (wG wC cG cC hG hC)',
      'generation: paper',
      'predicted',
      'simulated',
      'decoding: paper',
      'predicted',
      'prefill s: paper',
      'predicted',
    ],
    ...rows,
  ];
}

/** What our own search finds for the same machines. */
async function flexgenPlans({ promptTokens, newTokens, machines: count, link, cases }) {
  const hardware = await readHardware('flexgen-t4-measured');
  const rows = [];
  for (const { model, one, four } of cases) {
    const shape = await readModelShape(model);
    const workload = { promptTokens, newTokens };
    // Several machines know no shares of attention.
    const allow = { cpuAttention: [true, false] };
    const { policy, predicted } = choosePolicy({ hardware, shape, workload, allow });
    const plan = planPipeline({ machines: alike(hardware, count, link), shape, workload });
    const words = ({ weights, cache }) =>
      [weights, cache]
        .map((shares) => [shares.gpu, shares.cpu].map((share) => Math.round(share * 100)).join(' '))
        .join(' ');
    rows.push([
      model,
      `${policy.batchSize} x ${policy.batches}, ${words(policy)}`,
      figure(predicted.tokensPerSecond),
      `${plan.microBatches} of ${plan.batchSize} x ${plan.batches / plan.microBatches}, ${words(plan.stages[0].policy)}`,
      figure(plan.tokensPerSecond),
      `${figure(plan.tokensPerSecond / predicted.tokensPerSecond)}x`,
      `${figure(four.generation / one.generation)}x`,
    ]);
  }
  return [
    [
      'model',
      'our plan for 1 (wG wC cG cC)',
      'tokens/s',
      `for ${count}, its first machine`,
      'tokens/s',
      `${count} over 1`,
      "the paper's policies",
    ],
    ...rows,
  ];
}

/** The host of several GPUs, as one of them has it: its part of the memory, and of the processors if they share them. */
function partOfHost({ memory, cpu, ...rest }, gpus, shared) {
  const part = shared ? 1 / gpus : 1;
  const { prefillFlopsPerSecond, decodeBytesPerSecond } = cpu.attention;
  return {
    ...rest,
    memory: { ...memory, cpuBytes: memory.cpuBytes / gpus },
    cpu: {
      ...cpu,
      memoryBytesPerSecond: cpu.memoryBytesPerSecond * part,
      attention: {
        prefillFlopsPerSecond: prefillFlopsPerSecond * part,
        decodeBytesPerSecond: decodeBytesPerSecond * part,
      },
    },
  };
}

/** LM-Offload's section 5.5: its policy and FlexGen's on several GPUs of one host. */
async function lmOffloadGpus({
  promptTokens,
  newTokens,
  models,
  gpus,
  batchSize,
  batches,
  link,
  gain,
  differenceGrowth,
}) {
  const whole = await readHardware('lm-offload-v100');
  /** With as much of the weights on the GPU as fits. */
  const run = (shape, count, hardware, more) => {
    const workload = { promptTokens, newTokens, rows: batchSize * batches * count };
    for (let share = 100; share >= 0; share -= 5) {
      const policy = policyOf(batchSize, batches * count, [share, 100 - share, 0, 100, 0, 100], {
        ...more,
        tokensPerSquare: batchSize * promptTokens,
      });
      if (count === 1) {
        const predicted = predict({ hardware, shape, workload }, policy);
        if (predicted.fits) return { share, tokensPerSecond: predicted.tokensPerSecond };
        continue;
      }
      const machines = alike(hardware, count, link);
      const request = { machines, shape, workload, hiddenStates: 'bfloat16' };
      const { stages, tokensPerSecond } = predictPipeline(request, policy, { microBatches: count });
      // Our engines have room for all hidden states that may be on their way, the paper's have not.
      const onTheirWay = 2 * batches * count * batchSize * promptTokens * shape.hiddenSize * 4;
      const fits = ({ memoryBytes: { gpu, cpu } }) =>
        gpu <= hardware.memory.gpuBytes && cpu <= hardware.memory.cpuBytes + onTheirWay;
      if (stages.every(fits)) return { share, tokensPerSecond };
    }
    throw new Error(`${shape.name} does not fit on ${count} GPUs`);
  };
  const rows = [];
  const found = { false: [], true: [] };
  for (const model of models) {
    const shape = await readModelShape(model);
    for (const count of gpus) {
      const cells = [false, true].map((shared) => {
        const hardware = partOfHost(whole, count, shared);
        const theirs = run(shape, count, hardware, { cpuAttention: true });
        const own = run(shape, count, hardware, { cpuAttention: false, compressCache: '4bit' });
        found[shared].push({ count, theirs: theirs.tokensPerSecond, own: own.tokensPerSecond });
        return { theirs, own, words: `${figure(theirs.tokensPerSecond)} / ${figure(own.tokensPerSecond)}` };
      });
      rows.push([
        model,
        String(count),
        String(batchSize * batches * count),
        `${cells[0].theirs.share} / ${cells[0].own.share}`,
        ...cells.flatMap(({ words, theirs, own }) => [
          words,
          `${(own.tokensPerSecond / theirs.tokensPerSecond).toFixed(2)}x`,
        ]),
      ]);
    }
  }
  const summary = (words, paper, of) => [
    words,
    '',
    '',
    paper,
    ...[false, true].flatMap((shared) => ['', `${of(found[shared]).toFixed(2)}x`]),
  ];
  const gains = (runs) => runs.map(({ theirs, own }) => own / theirs);
  const difference = (runs, count) =>
    runs.filter((each) => each.count === count).reduce((sum, { theirs, own }) => sum + own - theirs, 0);
  return [
    [
      'model',
      'GPUs',
      'rows',
      'wG',
      'FlexGen / LM-Offload, each GPU the whole processors',
      'gain',
      'all GPUs share them',
      'gain',
    ],
    ...rows,
    summary('mean', `paper: ${gain.mean}x`, (runs) => gains(runs).reduce((sum, each) => sum + each, 0) / runs.length),
    summary('most', `paper: ${gain.most}x`, (runs) => Math.max(...gains(runs))),
    summary(
      `difference, ${gpus.at(-1)} GPUs over 1`,
      `paper: up to ${differenceGrowth}x`,
      (runs) => difference(runs, gpus.at(-1)) / difference(runs, gpus[0]),
    ),
  ];
}
