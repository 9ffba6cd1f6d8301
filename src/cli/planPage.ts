import { chartPage, type Chart } from './chartPage.js';
import type { Curve, PlanCurves, PlanDocument } from './library.js';
import { placementTable, policyWords, queueTable, runnersUpTable } from './planReport.js';

/** A page that shows a plan: in words and tables, with its curves. */
export function planPage(plan: PlanDocument, curves: PlanCurves): Promise<string> {
  return chartPage({
    title: `${plan.model} on ${plan.hardware}`,
    words: [
      `${plan.predicted.tokensPerSecond.toPrecision(4)} tokens/s predicted (${plan.costModel}); the ${plan.bottleneck} queue is busiest.`,
      policyWords(plan),
    ],
    before: [
      {
        title: 'What would lift it',
        rows: plan.advice.map(({ change, factor, changesResults }) => [
          change,
          `${factor.toFixed(2)}x`,
          changesResults ? 'changes results a little' : '',
        ]),
      },
    ],
    charts: [
      chart('Throughput by batch size', 'rows in a batch', curves.byBlock, true),
      chart(`Throughput by ${curves.byMemory.tier.toUpperCase()} memory`, 'GiB', curves.byMemory, false),
      chart('Latency and throughput', 'seconds until a block is done', curves.frontier, true),
      {
        title: 'Roofline of the products',
        x: 'tokens that share one reading of the weights',
        y: 'operations/s',
        log: true,
        labels: ['computing', 'link that weights come over'],
        data: [curves.roofline.tokens, curves.roofline.compute, curves.roofline.link.map((value) => value ?? null)],
      },
    ],
    after: [
      { title: 'Where things are', rows: placementTable(plan), header: true },
      { title: 'Time of the queues', rows: queueTable(plan), header: true },
      { title: 'Runners-up', rows: runnersUpTable(plan) },
    ],
    json: { policy: plan.policy, predicted: plan.predicted },
  });
}

function chart(title: string, x: string, curve: Curve, log: boolean): Chart {
  return { title, x, y: 'tokens/s', log, labels: ['tokens/s'], data: [curve.x, curve.y.map((value) => value ?? null)] };
}
