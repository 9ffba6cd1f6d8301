import { chartPage, type Chart } from './chartPage.js';
import type { Curve, PlanCurves, PlanDocument } from './library.js';
import {
  placementTable,
  policyWords,
  queueTable,
  runnersUpTable,
  seconds,
  speedWords,
  spendingWords,
} from './planReport.js';

/** A page that shows a plan: in words and tables, with its curves. */
export function planPage(plan: PlanDocument, curves: PlanCurves): Promise<string> {
  return chartPage({
    title: `${plan.model} on ${plan.hardware}`,
    words: [
      `${speedWords(plan)}. The ${plan.bottleneck} queue is busiest.`,
      ...(plan.predicted.spending ? [`It takes ${spendingWords(plan.predicted.spending)}.`] : []),
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
      chart(
        'Throughput by batch size',
        'rows in a batch',
        curves.byBlock,
        (size) => `batches of ${size} rows alone fit`,
      ),
      chart(
        `Throughput by ${curves.byMemory.tier.toUpperCase()} memory`,
        'GiB',
        curves.byMemory,
        (gib) => `it fits in all of ${gib.toPrecision(3)} GiB, and in no less that was tried`,
      ),
      chart(
        'Latency and throughput',
        'seconds until a block is done',
        curves.frontier,
        (time) => `of blocks under these caps one is best in both, done after ${seconds(time)}`,
      ),
      ...(curves.costs
        ? [
            chart(
              'Latency and cost',
              'seconds until a block is done',
              curves.costs,
              (time) => `of blocks under these caps one is best in both, done after ${seconds(time)}`,
              curves.costs.unit,
            ),
          ]
        : []),
      {
        title: 'Roofline of the products',
        x: 'tokens a pass',
        y: 'operations/s',
        log: true,
        logY: true,
        labels: ['computing', 'reading weights'],
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

/** A scale of powers of ten has nothing to say of less than one of them. */
const LOG_SPAN = 10;

/** @param only what is said of its only point */
function chart(title: string, x: string, curve: Curve, only: (x: number) => string, y = 'tokens/s'): Chart {
  return {
    title,
    x,
    y,
    log: Math.max(...curve.x) >= LOG_SPAN * Math.min(...curve.x),
    labels: [y, 'this plan'],
    data: [
      curve.x,
      curve.y.map((value) => value ?? null),
      curve.x.map((_, at) => (at === curve.chosen ? curve.own : null)),
    ],
    only,
  };
}
