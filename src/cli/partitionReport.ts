import { chartPage, type Chart } from './chartPage.js';
import {
  formatBytes,
  LAYOUTS,
  type Mesh,
  type PartitionDocument,
  type PartitionPlan,
  type PhasePlan,
} from './library.js';
import { seconds } from './planReport.js';
import { formatTable } from './table.js';

/** How a model is split over chips, in words. */
export function describePartitioning(document: PartitionDocument): string {
  return [
    ...partitionWords(document),
    '',
    formatTable(spentTable(document.plan)),
    ...frontierTables(document).flatMap(({ title, rows }) => [
      title.toLowerCase(),
      formatTable(rows.map(([first = '', ...rest]) => [`  ${first}`, ...rest])),
    ]),
  ].join('\n');
}

/** The same as a page with the frontiers drawn. */
export function partitionPage(document: PartitionDocument): Promise<string> {
  const { plan, frontiers } = document;
  const phase = (title: string, x: string, plans: readonly PhasePlan[], at: (plan: PhasePlan) => number): Chart =>
    chart(
      title,
      x,
      plans.map((each) => [at(each), each.predicted.chipSecondsPerToken]),
    );
  return chartPage({
    title: titleOf(document),
    words: partitionWords(document).slice(1),
    charts: [
      chart(
        'Prompts and new tokens: latency and cost',
        'seconds',
        frontiers.both.map((each) => [each.seconds, each.chipSecondsPerToken]),
      ),
      phase('Prefill: latency and cost', 'seconds', frontiers.prefill, ({ predicted }) => predicted.seconds),
      phase(
        'Decoding: latency and cost',
        'seconds a token',
        frontiers.decode,
        ({ predicted }) => predicted.stepSeconds,
      ),
    ],
    after: [
      { title: 'Where the time of the plan goes', rows: spentTable(plan), header: true },
      ...frontierTables(document).map((table) => ({ ...table, header: true })),
    ],
    json: plan,
  });
}

function chart(title: string, x: string, points: readonly (readonly [number, number])[]): Chart {
  return {
    title,
    x,
    y: 'chip-seconds a token',
    log: true,
    labels: ['chip-seconds a token'],
    data: [points.map(([at]) => at), points.map(([, cost]) => cost)],
  };
}

function titleOf({ model, hardware, interconnect }: PartitionDocument): string {
  return `${model} on ${hardware} over ${interconnect}`;
}

function partitionWords(document: PartitionDocument): string[] {
  const { plan, workload } = document;
  return [
    titleOf(document),
    `${chipWords(plan)}, ${plan.batchSize} rows of ${workload.promptTokens} + ${workload.newTokens} tokens: ${seconds(plan.seconds)} from the first prompt to the last token, ` +
      `${plan.newTokensPerSecond.toPrecision(4)} new tokens/s, ${costWords(plan.chipSecondsPerToken)} chip-ms a token, MFU ${percent(plan.mfu)}, ${formatBytes(plan.memoryBytes)} of a chip`,
    `prefill ${layoutWords(plan.prefill)}; decoding ${layoutWords(plan.decode)}; weights ${plan.weights}`,
  ];
}

/** Where a pass of each phase spends its time, with a header. */
function spentTable({ prefill, decode }: PartitionPlan): string[][] {
  const kinds = ['products', 'attention', 'communication'] as const;
  return [
    ['', 'seconds', ...kinds, 'sent by a chip', 'MFU'],
    ...(
      [
        ['prompts', prefill],
        ['a new token', decode],
      ] as const
    ).map(([name, { predicted }]) => [
      name,
      seconds(predicted.stepSeconds),
      ...kinds.map((kind) => percent(predicted.spent[kind] / predicted.stepSeconds)),
      formatBytes(Math.round(predicted.bytesSent)),
      percent(predicted.mfu),
    ]),
  ];
}

function frontierTables({ frontiers }: PartitionDocument): { title: string; rows: string[][] }[] {
  const phase = (plans: readonly PhasePlan[], at: (plan: PhasePlan) => number): string[][] => [
    ['seconds', 'chip-ms a token', 'MFU', 'chips', 'rows', 'weights', 'layout', 'memory of a chip'],
    ...plans.map((plan) => [
      seconds(at(plan)),
      costWords(plan.predicted.chipSecondsPerToken),
      percent(plan.predicted.mfu),
      chipWords(plan),
      String(plan.batchSize),
      plan.weights,
      layoutWords(plan),
      formatBytes(Math.round(plan.predicted.memory.weightBytes + plan.predicted.memory.cacheBytes)),
    ]),
  ];
  return [
    {
      title: 'Frontier: prompts and new tokens on the same chips',
      rows: [
        ['seconds', 'chip-ms a token', 'MFU', 'chips', 'rows', 'weights', 'prefill', 'decoding'],
        ...frontiers.both.map((plan) => [
          seconds(plan.seconds),
          costWords(plan.chipSecondsPerToken),
          percent(plan.mfu),
          chipWords(plan),
          String(plan.batchSize),
          plan.weights,
          layoutWords(plan.prefill),
          layoutWords(plan.decode),
        ]),
      ],
    },
    { title: 'Frontier: prefill alone', rows: phase(frontiers.prefill, ({ predicted }) => predicted.seconds) },
    {
      title: 'Frontier: decoding alone, a new token of each row',
      rows: phase(frontiers.decode, ({ predicted }) => predicted.stepSeconds),
    },
  ];
}

function layoutWords({ layout, attention }: PhasePlan): string {
  return `${LAYOUTS[layout].words}, attention by ${attention}`;
}

function chipWords({ chips, mesh }: { readonly chips: number; readonly mesh: Mesh }): string {
  return `${chips} (${mesh.x}x${mesh.y}x${mesh.z})`;
}

function costWords(chipSeconds: number): string {
  return (chipSeconds * 1000).toPrecision(3);
}

function percent(share: number): string {
  return `${Number((share * 100).toFixed(share < 0.1 ? 1 : 0))}%`;
}
