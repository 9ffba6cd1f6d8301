// Prints the tables of docs/papers.md: the papers' policies under all cost models, on one machine and several, the
// partitioning of models over chips. `--write` puts them into that
// file. Usage: npm run bench:plans [-- --write]
import { readFile, writeFile } from 'node:fs/promises';
import { choosePolicy, predict, readHardware, readModelShape } from '../dist/api/plan.js';
import { popeTables } from './papers/popeTables.mjs';
import { scalingTables } from './papers/scalingTables.mjs';
import { LM_OFFLOAD } from './lib/lmOffloadTable.mjs';
import { figure, off, policyOf, table } from './lib/planTables.mjs';

const DOCUMENT = new URL('../docs/papers.md', import.meta.url);

const ALL_GPU = [100, 0, 100, 0, 100, 0];
const HALF_DISK = [0, 50, 0, 0, 0, 100];
const FLEXGEN = [
  ['opt-6.7b', 256, 4, 1, ALL_GPU, 53.29],
  ['opt-6.7b', 512, 2, 1, ALL_GPU, 25.26],
  ['opt-6.7b', 1024, 1, 1, ALL_GPU, 13.72],
  ['opt-30b', 256, 160, 2, [10, 90, 0, 100, 0, 100], 16.01],
  ['opt-30b', 512, 48, 3, [20, 80, 0, 100, 0, 100], 7.32],
  ['opt-30b', 1024, 20, 4, [4, 96, 0, 100, 0, 100], 3.5],
  ['opt-30b', 512, 8, 1, [0, 100, 100, 0, 100, 0], 1.57],
  ['opt-175b', 256, 64, 8, HALF_DISK, 1.36],
  ['opt-175b', 512, 32, 8, HALF_DISK, 0.69],
  ['opt-175b', 1024, 12, 12, HALF_DISK, 0.35],
  ['opt-175b', 512, 32, 1, HALF_DISK, 0.27],
];

/** What a model says, also where the machine does not give as much. */
const promised = ({ tokensPerSecond, promisedTokensPerSecond = tokensPerSecond }) => promisedTokensPerSecond;

async function flexgenTable() {
  const [shipped, measured] = await Promise.all(['flexgen-t4', 'flexgen-t4-measured'].map(readHardware));
  const rows = [];
  for (const [model, promptTokens, size, batches, percent, tokens] of FLEXGEN) {
    const shape = await readModelShape(model);
    const workload = { promptTokens, newTokens: 32 };
    const of = (hardware, costModel, more = {}) =>
      predict({ hardware, shape, workload, costModel }, policyOf(size, batches, percent, more));
    const theirs = of(measured, 'flexgen');
    const best = choosePolicy({ hardware: measured, shape, workload, costModel: 'flexgen' });
    const whole = choosePolicy({ hardware: { ...measured, usableFraction: 1 }, shape, workload, costModel: 'flexgen' });
    const place = ({ policy, predicted }) =>
      `${figure(predicted.tokensPerSecond)} (${policy.batchSize} x ${policy.batches})`;
    rows.push([
      `${model} ${promptTokens}`,
      `${size} x ${batches}, ${percent.join(' ')}`,
      figure(tokens),
      off(promised(of(shipped, 'flexgen')), tokens),
      off(promised(theirs), tokens),
      off(of(measured, 'spillway', { tokensPerSquare: Math.min(65536, size * promptTokens) }).tokensPerSecond, tokens),
      theirs.fits ? '0.8' : of({ ...measured, usableFraction: 1 }, 'flexgen').fits ? '1.0' : 'no',
      place(best),
      place(whole),
    ]);
  }
  return table(
    [
      'model, prompt',
      'published policy (wG wC cG cC hG hC)',
      'measured',
      'FlexGen shipped',
      'FlexGen, disk 2.61 GB/s',
      'ours',
      'fits at alpha',
      'search, alpha 0.8',
      'search, alpha 1',
    ],
    rows,
  );
}

async function lmOffloadTable() {
  const hardware = await readHardware('lm-offload-a100');
  const rows = [];
  for (const [model, cases] of Object.entries(LM_OFFLOAD)) {
    const shape = await readModelShape(model);
    for (const [newTokens, block, wg, flexgen, lm, lmWg = wg] of cases) {
      const batches = 10;
      const size = Math.round(block / batches);
      const workload = { promptTokens: 64, newTokens };
      const of = (costModel, share, more) =>
        promised(
          predict(
            { hardware, shape, workload, costModel },
            policyOf(size, batches, [share, 100 - share, 0, 100, 0, 100], { ...more, tokensPerSquare: size * 64 }),
          ),
        );
      const pair = (costModel) => [
        of(costModel, wg, { cpuAttention: true }),
        of(costModel, lmWg, { cpuAttention: false, compressCache: '4bit' }),
      ];
      const [theirs, ours] = [pair('lm-offload'), pair('spillway')];
      rows.push([
        `${model} ${newTokens}`,
        `${block}`,
        `${wg} / ${lmWg}`,
        `${flexgen} / ${lm}`,
        `${(lm / flexgen).toFixed(2)}x`,
        theirs.map(figure).join(' / '),
        `${(theirs[1] / theirs[0]).toFixed(2)}x`,
        ours.map(figure).join(' / '),
        `${(ours[1] / ours[0]).toFixed(2)}x`,
      ]);
    }
  }
  return table(
    [
      'model, new tokens',
      'rows',
      'wG',
      'measured: FlexGen / LM-Offload',
      'gain',
      "LM-Offload's model",
      'gain',
      'ours',
      'gain',
    ],
    rows,
  );
}

const asTables = (found) =>
  Object.fromEntries(Object.entries(found).map(([name, [head, ...rows]]) => [name, table(head, rows)]));
const tables = {
  flexgen: await flexgenTable(),
  'lm-offload': await lmOffloadTable(),
  ...asTables(await scalingTables()),
  ...asTables(await popeTables()),
};
if (process.argv.includes('--write')) {
  let text = await readFile(DOCUMENT, 'utf8');
  for (const [name, lines] of Object.entries(tables)) {
    text = text.replace(
      new RegExp(`(<!-- ${name} -->\\n)[^]*?(<!-- end -->)`),
      (_, start, end) => `${start}\n${lines}\n\n${end}`,
    );
  }
  await writeFile(DOCUMENT, text);
} else {
  for (const [name, lines] of Object.entries(tables)) process.stdout.write(`## ${name}\n\n${lines}\n\n`);
}
