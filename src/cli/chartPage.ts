import { readFile } from 'node:fs/promises';
import { createRequire } from 'node:module';
import { PLAN_SCRIPT, PLAN_STYLE } from './planPageParts.js';

/** Curves over one axis; null where there is no point. */
export interface Chart {
  readonly title: string;
  readonly x: string;
  readonly y: string;
  readonly log: boolean;
  readonly data: readonly (readonly (number | null)[])[];
  readonly labels: readonly string[];
  /** True where `log` is of both axes. Default false. */
  readonly logY?: boolean;
  /** The words said of a curve of one point instead, before its value. */
  readonly only?: (x: number) => string;
}

/** A table of a page. */
export interface PageTable {
  readonly title: string;
  readonly rows: readonly (readonly string[])[];
  /** True where the first row says what the columns are. */
  readonly header?: boolean;
}

/** The parts a page shows, from top to bottom. */
export interface PageParts {
  readonly title: string;
  readonly words: readonly string[];
  readonly before?: readonly PageTable[];
  /** One of a single point, or none, is a sentence. */
  readonly charts: readonly Chart[];
  readonly after: readonly PageTable[];
  readonly json: unknown;
}

/**
 * A page of one file: words, tables, and charts drawn with uPlot, whose code and style are part of it.
 */
export async function chartPage({ title, words, before = [], charts, after, json }: PageParts): Promise<string> {
  const find = createRequire(import.meta.url);
  const [code, style] = await Promise.all(
    ['uplot/dist/uPlot.iife.min.js', 'uplot/dist/uPlot.min.css'].map((file) => readFile(find.resolve(file), 'utf8')),
  );
  const [drawn, single] = [charts.filter((each) => points(each) > 1), charts.filter((each) => points(each) <= 1)];
  return `<!doctype html>
<html lang="en"><meta charset="utf-8"><meta name="viewport" content="width=device-width,initial-scale=1"><title>${escapeHtml(title)}</title>
<style>${style ?? ''}
${PLAN_STYLE}</style>
<h1>${escapeHtml(title)}</h1>
${words.map((line) => `<p>${escapeHtml(line)}</p>`).join('\n')}
${before.map(section).join('\n')}
<main id="charts"></main>
${single.map((each) => `<p>${escapeHtml(`${each.title}: ${pointWords(each)}`)}</p>`).join('\n')}
${after.map(section).join('\n')}
<details><summary>The plan as JSON</summary><pre>${escapeHtml(JSON.stringify(json, undefined, 2))}</pre></details>
<script>${code ?? ''}</script>
<script>const charts = ${scriptJson(drawn)};
${PLAN_SCRIPT}</script></html>
`;
}

/** Counts the points of the first curve: one alone, or none, is said in words. */
function points({ data: [, curve = []] }: Chart): number {
  return curve.filter((value) => value !== null).length;
}

function pointWords({ y, data: [at = [], curve = []], only }: Chart): string {
  const one = curve.findIndex((value) => value !== null);
  return one < 0
    ? 'nothing fits, of what was tried.'
    : `${only?.(at[one] ?? 0) ?? 'one point'}: ${(curve[one] ?? 0).toPrecision(3)} ${y}.`;
}

function section({ title, rows, header = false }: PageTable): string {
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
