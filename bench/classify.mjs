// classify beside generate on the same rows: 420 tokens of which 400 are shared, 4 labels against 16 new tokens.
//   node bench/classify.mjs --model FILE [--rows 256] [--repeat 3]
// Prints rows a second of each (medians), and the ratios: to generate with sharing, and to generate without. The runs
// of one repetition follow one another, so that they meet the same machine.
import { Engine } from '../dist/index.js';
import { readFlags } from './lib/flags.mjs';
import { prefixRows } from './lib/prefixRows.mjs';
import { median } from './lib/statistics.mjs';

const { values, number } = readFlags('usage: node bench/classify.mjs --model FILE [--rows 256] [--repeat 3]', {
  model: { type: 'string' },
  rows: { type: 'string', default: '256' },
  repeat: { type: 'string', default: '3' },
});
const LABELS = {
  'of one token': [' yes', ' no', ' maybe', ' never'],
  'of two to three': [' billing question', ' technical problem', ' cancellation of contract', ' other matter'],
};
const rows = prefixRows([
  { branches: 1, words: 400 },
  { branches: number('rows'), words: 20 },
]);
const engine = await Engine.open({
  model: values.model,
  expectedRows: { promptTokens: 420, newTokens: 16, sharedPrefixTokens: 400, rows: rows.length },
});
const rate = async (results) => {
  const start = performance.now();
  for await (const { error } of results) if (error) throw new Error(error.message);
  return rows.length / ((performance.now() - start) / 1000);
};
const runs = {
  'generate, shared': () => engine.generate(rows, { maxNewTokens: 16, ignoreEos: true }),
  'generate, not shared': () => engine.generate(rows, { maxNewTokens: 16, ignoreEos: true, sharePrefixes: false }),
  ...Object.fromEntries(
    Object.entries(LABELS).map(([name, labels]) => [
      `classify, labels ${name}`,
      () => engine.classify(rows, { labels }),
    ]),
  ),
};
const rates = Object.fromEntries(Object.keys(runs).map((name) => [name, []]));
await rate(engine.generate(rows.slice(0, 2), { maxNewTokens: 2 }));
for (let turn = 0; turn < number('repeat'); turn++)
  for (const [name, run] of Object.entries(runs)) rates[name].push(await rate(run()));
const medians = Object.fromEntries(Object.entries(rates).map(([name, list]) => [name, median(list)]));
for (const [name, value] of Object.entries(medians)) {
  const ratio = name.startsWith('classify')
    ? `, ${(value / medians['generate, shared']).toFixed(2)} times generate with sharing, ${(value / medians['generate, not shared']).toFixed(1)} times without`
    : '';
  process.stdout.write(`${name}: ${value.toFixed(2)} rows/s${ratio}\n`);
}
await engine.close();
