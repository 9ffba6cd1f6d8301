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
  const { flexgen } = JSON.parse(await readFile(new URL('scaling.json', import.meta.url), 'utf8'));
  return {
    'flexgen-machines': await flexgenMachines(flexgen),
    'flexgen-plans': await flexgenPlans(flexgen),
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
    const { policy, predicted } = choosePolicy({ hardware, shape, workload });
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
