// A cost model of one's own: how long a block of rows takes on a machine, by whatever one believes, searched by the
// package's own search and held beside its models.
// Usage: node scripts/run-example.mjs 11-cost-model
import {
  choosePolicy,
  readHardware,
  readModelShape,
  type Affine,
  type CostModel,
  type PlanRequest,
  type RankedPlan,
} from 'spillway/plan';

/** Counts bytes alone: whatever is not where it is multiplied comes over the link once a step, and nothing overlaps. */
export const linkOnly: CostModel = {
  name: 'link-only',
  schedules: ['zigzag'],
  shareStep: () => ({ weights: 0, cache: 0, activations: 0 }),
  blocks: (setting) => [linkOnly.blockAt(setting, { wg: 0, wc: 1, wn: 0, cg: 0, cc: 1, cn: 0, hg: 1, hc: 0, hn: 0 })],
  blockAt: ({ hardware, shape, workload, block }) => {
    const rows = block.batchSize * block.batches;
    const layer = shape.layerWeightBytes;
    const positions = workload.promptTokens + workload.newTokens;
    const cache = 4 * shape.kvHeads * shape.headDim * positions * rows;
    const rate = hardware.links.hostToDeviceBytesPerSecond ?? Infinity;
    const link: Affine = { wc: layer / rate, cc: cache / rate };
    return {
      phases: [
        {
          name: 'steps',
          times: shape.layers * workload.newTokens,
          queues: { 'host-to-device': link },
          bounds: [link],
          promptShare: 1 / workload.newTokens,
        },
      ],
      memory: [
        { tier: 'gpu', when: 'always', bytes: { constant: layer, wg: layer * shape.layers, cg: cache * shape.layers } },
        { tier: 'cpu', when: 'always', bytes: { wc: layer * shape.layers, cc: cache * shape.layers } },
      ],
      fixed: { wn: 0, cn: 0, hn: 0 },
      newTokens: rows * workload.newTokens,
      rows,
      onceSeconds: 0,
    };
  },
};

export async function main(): Promise<Readonly<Record<string, RankedPlan>>> {
  const request: PlanRequest = {
    hardware: await readHardware('flexgen-t4'),
    shape: await readModelShape('opt-30b'),
    workload: { promptTokens: 512, newTokens: 32 },
    allow: { mostBatchSize: 64, mostBatches: 8 },
  };
  const plans: Record<string, RankedPlan> = {};
  for (const costModel of ['flexgen', 'flexgen-paper', linkOnly] as const) {
    const plan = choosePolicy({ ...request, costModel });
    const name = typeof costModel === 'string' ? costModel : costModel.name;
    const { batchSize, batches, weights } = plan.policy;
    console.log(
      `${name.padEnd(14)}${plan.predicted.tokensPerSecond.toFixed(2)} tokens/s, ${batches} x ${batchSize} rows, ${(100 * weights.gpu).toFixed(0)}% of the weights on the GPU`,
    );
    plans[name] = plan;
  }
  return plans;
}
