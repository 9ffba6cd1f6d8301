import { readFile } from 'node:fs/promises';
import { createRequire } from 'node:module';
import type { Curve, PlanCurves, PlanDocument } from './library.js';
import { placementTable, policyWords, queueTable, runnersUpTable } from './planReport.js';
import { PLAN_SCRIPT, PLAN_STYLE } from './planPageParts.js';

interface Chart {
  readonly title: string;
  readonly x: string;
  readonly y: string;
  readonly log: boolean;
  readonly data: readonly (readonly (number | null)[])[];
  readonly labels: readonly string[];
}

/**
 * A page of one file that shows a plan: in words and tables, and its curves drawn with uPlot, whose code and style are
 * part of it.
 */
export async function planPage(plan: PlanDocument, curves: PlanCurves): Promise<string> {
  const find = createRequire(import.meta.url);
  const [code, style] = await Promise.all(
    ['uplot/dist/uPlot.iife.min.js', 'uplot/dist/uPlot.min.css'].map((file) => readFile(find.resolve(file), 'utf8')),
  );
  const charts: Chart[] = [
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
  ];
  const [drawn, single] = [charts.filter((each) => points(each) > 1), charts.filter((each) => points(each) <= 1)];
  const title = `${plan.model} on ${plan.hardware}`;
  return `<!doctype html>
<html lang="en"><meta charset="utf-8"><meta name="viewport" content="width=device-width,initial-scale=1"><title>${escapeHtml(title)}</title>
<style>${style ?? ''}
${PLAN_STYLE}</style>
<h1>${escapeHtml(title)}</h1>
<p>${escapeHtml(`${plan.predicted.tokensPerSecond.toPrecision(4)} tokens/s predicted (${plan.costModel}); the ${plan.bottleneck} queue is busiest.`)}</p>
<p>${escapeHtml(policyWords(plan))}</p>
${section(
  'What would lift it',
  plan.advice.map(({ change, factor, changesResults }) => [
    change,
    `${factor.toFixed(2)}x`,
    changesResults ? 'changes results a little' : '',
  ]),
)}
<main id="charts"></main>
${single.map((each) => `<p>${escapeHtml(`${each.title}: ${pointWords(each)}`)}</p>`).join('\n')}
${section('Where things are', placementTable(plan), true)}
${section('Time of the queues', queueTable(plan), true)}
${section('Runners-up', runnersUpTable(plan))}
<details><summary>The plan as JSON</summary><pre>${escapeHtml(JSON.stringify({ policy: plan.policy, predicted: plan.predicted }, undefined, 2))}</pre></details>
<script>${code ?? ''}</script>
<script>const charts = ${scriptJson(drawn)};
${PLAN_SCRIPT}</script></html>
`;
}

function chart(title: string, x: string, curve: Curve, log: boolean): Chart {
  return { title, x, y: 'tokens/s', log, labels: ['tokens/s'], data: [curve.x, curve.y.map((value) => value ?? null)] };
}

/** Those of the first curve: one alone, or none, is said in words. */
function points({ data: [, curve = []] }: Chart): number {
  return curve.filter((value) => value !== null).length;
}

function pointWords({ x, y, data: [at = [], curve = []] }: Chart): string {
  const only = curve.findIndex((value) => value !== null);
  return only < 0
    ? 'nothing fits, of what was tried.'
    : `one plan is best in both, with ${(curve[only] ?? 0).toPrecision(3)} ${y} at ${(at[only] ?? 0).toPrecision(3)} ${x}.`;
}

function section(title: string, rows: readonly (readonly string[])[], header = false): string {
  if (rows.length === 0) return '';
  const line = (cells: readonly string[], tag: string): string =>
    `<tr>${cells.map((cell) => `<${tag}>${escapeHtml(cell)}</${tag}>`).join('')}</tr>`;
  return `<section><h2>${escapeHtml(title)}</h2><div class="wide"><table>${rows.map((row, at) => line(row, header && at === 0 ? 'th' : 'td')).join('')}</table></div></section>`;
}

function escapeHtml(text: string): string {
  return text.replace(/[&<>"']/g, (letter) => `&#${letter.charCodeAt(0)};`);
}

/** JSON that cannot end the script that it stands in. */
function scriptJson(value: unknown): string {
  return JSON.stringify(value).replace(/</g, '\\u003c');
}
