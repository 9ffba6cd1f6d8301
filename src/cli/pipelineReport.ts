import { formatBytes, type PipelinePlan, type SimulatedPipeline } from './library.js';
import { percent, rate, seconds, spendingWords } from './planReport.js';
import { formatTable } from './table.js';

/** Gives the flags that tell a plan's engines of the block. */
export function blockFlags({
  batchSize,
  batches,
  tokensPerSquare,
}: Pick<PipelinePlan, 'batchSize' | 'batches' | 'tokensPerSquare'>): string {
  const square = tokensPerSquare === undefined ? '' : ` --tokens-per-square ${tokensPerSquare}`;
  return `--batch-size ${batchSize} --batches ${batches}${square}`;
}

/** A plan for several machines in words. */
export function describePipeline(plan: PipelinePlan, simulated: SimulatedPipeline | undefined): string {
  const { model, stages, microBatches, rows, wallSeconds } = plan;
  const faster = plan.tokensPerSecond / plan.inTurnTokensPerSecond;
  const lines = [
    `${model} on ${stages.length} machines: ${rate(plan.tokensPerSecond)}, ${seconds(wallSeconds)} for ${rows} rows; ${faster.toFixed(2)} times one machine after another`,
    ...(plan.spending ? [`it takes ${spendingWords(plan.spending)}`] : []),
    `every engine: ${blockFlags(plan)}; the first one: --micro-batches ${microBatches}; the time is spent on: ${plan.bottleneck}`,
    '',
  ];
  const table = [
    [
      'machine',
      'layers',
      'weights gpu / cpu / disk',
      'cache',
      'gpu',
      'cpu',
      'disk',
      'busy',
      'waits',
      ...(simulated ? ['simulated'] : []),
    ],
    ...stages.map(
      (
        { machine, layers: { first, count }, policy: { weights, cache }, memoryBytes, busySeconds, idleShare },
        stage,
      ) => [
        machine,
        `${first}-${first + count - 1}`,
        [weights.gpu, weights.cpu, weights.disk].map(percent).join(' / '),
        cache.gpu > 0 ? 'gpu' : 'cpu',
        ...[memoryBytes.gpu, memoryBytes.cpu, memoryBytes.disk].map(formatBytes),
        seconds(busySeconds),
        percent(idleShare),
        ...(simulated ? [percent(simulated.idleShares[stage] ?? 0)] : []),
      ],
    ),
  ];
  const words = simulated
    ? `\nsimulated: ${rate(simulated.tokensPerSecond)}, ${seconds(simulated.seconds)} for ${simulated.rows} rows\n`
    : '';
  return `${lines.join('\n')}\n${formatTable(table)}${words}`;
}
