// Where results are kept, and the table in docs/performance.md.
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';

export const RESULTS = fileURLToPath(new URL('../results/', import.meta.url));
export const MEASUREMENTS = fileURLToPath(new URL('../../docs/performance.md', import.meta.url));

/** A processor's name as part of a file's: machines measured on one day do not overwrite each other's results. */
export function processorSlug(processor) {
  return processor
    .toLowerCase()
    .replaceAll(/\((?:r|tm)\)/g, '')
    .replaceAll(/[^a-z0-9]+/g, '-')
    .replaceAll(/^-|-$/g, '');
}

/** Writes NAME-PROCESSOR.json and .md, prints the words. */
export function writeResults(folder, name, document, words) {
  mkdirSync(folder, { recursive: true });
  const path = join(folder, `${name}-${processorSlug(document.machine.processor)}`);
  writeFileSync(`${path}.json`, `${JSON.stringify(document, null, 2)}\n`);
  writeFileSync(`${path}.md`, words);
  process.stdout.write(words);
  process.stderr.write(`written: ${path}.json and .md\n`);
}

/** @returns the text with what stands between the markers `<!-- NAME -->` and `<!-- /NAME -->` replaced */
export function replaceBetween(text, name, content) {
  const [open, close] = [`<!-- ${name} -->`, `<!-- /${name} -->`];
  const from = text.indexOf(open);
  const to = text.indexOf(close, from);
  if (from === -1 || to === -1) throw new Error(`found no ${open} … ${close}, expected both, in this order`);
  return `${text.slice(0, from + open.length)}\n${content.trim()}\n${text.slice(to)}`;
}

export function rewriteTable(name, content, file = MEASUREMENTS) {
  writeFileSync(file, replaceBetween(readFileSync(file, 'utf8'), name, content));
}

/** A Markdown table. */
export function markdownTable(head, rows) {
  const line = (cells) => `| ${cells.join(' | ')} |`;
  return [line(head), `|${head.map(() => '-').join('|')}|`, ...rows.map(line)];
}
