import { readFile } from 'node:fs/promises';
import { createRequire } from 'node:module';
import type { Curve, PlanCurves, PlanDocument } from './library.js';

interface Chart {
  readonly title: string;
  readonly x: string;
  readonly y: string;
  readonly log: boolean;
  readonly data: readonly (readonly (number | null)[])[];
  readonly labels: readonly string[];
}

/** A page of one file that shows a plan: its curves drawn with uPlot, whose code and style are part of it. */
export async function planPage(plan: PlanDocument, curves: PlanCurves): Promise<string> {
  const find = createRequire(import.meta.url);
  const [code, style] = await Promise.all(['uplot/dist/uPlot.iife.min.js', 'uplot/dist/uPlot.min.css'].map((file) => readFile(find.resolve(file), 'utf8')));
  const charts: Chart[] = [
    chart('Throughput by batch size', 'rows in a batch', curves.byBlock, true),
    chart(`Throughput by ${curves.byMemory.tier.toUpperCase()} memory`, 'GiB', curves.byMemory, false),
    chart('Latency and throughput', 'seconds until a block is done', curves.frontier, true),
    {
      title: 'Roofline of the products', x: 'tokens that share one reading of the weights', y: 'operations a second', log: true,
      labels: ['computing', 'link that weights come over'],
      data: [curves.roofline.tokens, curves.roofline.compute, curves.roofline.link.map((value) => value ?? null)],
    },
  ];
  const title = `${plan.model} on ${plan.hardware}`;
  return `<!doctype html>
<html lang="en"><meta charset="utf-8"><title>${escapeHtml(title)}</title>
<style>${style ?? ''}
body{font:15px/1.5 system-ui,sans-serif;margin:2rem auto;max-width:76rem;padding:0 1rem}main{display:grid;grid-template-columns:repeat(auto-fit,minmax(34rem,1fr));gap:1.5rem}
pre{background:#f4f4f4;padding:1rem;overflow:auto}li b{font-variant-numeric:tabular-nums}</style>
<h1>${escapeHtml(title)}</h1>
<p>${escapeHtml(`${plan.predicted.tokensPerSecond.toPrecision(4)} tokens/s predicted (${plan.costModel}); the ${plan.bottleneck} queue is busiest.`)}</p>
<ul>${plan.advice.map(({ change, factor }) => `<li>${escapeHtml(change)}: <b>${factor.toFixed(2)}x</b></li>`).join('')}</ul>
<main id="charts"></main>
<pre>${escapeHtml(JSON.stringify({ policy: plan.policy, predicted: plan.predicted }, undefined, 2))}</pre>
<script>${code ?? ''}</script>
<script>
for (const { title, x, y, log, data, labels } of ${scriptJson(charts)}) {
  const colours = ['#1668b3', '#c0392b'];
  new uPlot({
    title, width: 540, height: 320,
    scales: { x: { time: false, distr: log ? 3 : 1 }, y: { distr: log && labels.length > 1 ? 3 : 1, ...(labels.length > 1 ? {} : { range: (u, low, high) => [0, high * 1.1 || 1] }) } },
    axes: [{ label: x }, { label: y, size: 70 }],
    series: [{ label: x }, ...labels.map((label, i) => ({ label, stroke: colours[i], width: 2, points: { show: true } }))],
  }, data, document.getElementById('charts').appendChild(document.createElement('div')));
}
</script></html>
`;
}

function chart(title: string, x: string, curve: Curve, log: boolean): Chart {
  return { title, x, y: 'tokens/s', log, labels: ['tokens/s'], data: [curve.x, curve.y.map((value) => value ?? null)] };
}

function escapeHtml(text: string): string {
  return text.replace(/[&<>"']/g, (letter) => `&#${letter.charCodeAt(0)};`);
}

/** JSON that cannot end the script that it stands in. */
function scriptJson(value: unknown): string {
  return JSON.stringify(value).replace(/</g, '\\u003c');
}
