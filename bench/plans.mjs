// Prints the tables of docs/papers.md: the papers' policies under all cost models, on one machine and several, the
// partitioning of models over chips, and thread splits. `--write` puts
// them into that file. Usage: npm run bench:plans [-- --write]
import { readFile, writeFile } from 'node:fs/promises';
import { choosePolicy, predict, readHardware, readModelShape, splitThreads } from '../dist/api/plan.js';
import { popeTables } from './papers/popeTables.mjs';
import { scalingTables } from './papers/scalingTables.mjs';
import { ATTENTION_GRAPH } from '../dist/plan/papers/kahnLevels.js';
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
      off(of(shipped, 'flexgen').tokensPerSecond, tokens),
      off(theirs.tokensPerSecond, tokens),
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
        predict(
          { hardware, shape, workload, costModel },
          policyOf(size, batches, [share, 100 - share, 0, 100, 0, 100], { ...more, tokensPerSquare: size * 64 }),
        ).tokensPerSecond;
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

function threadTable() {
  // One layer of OPT-30B: attention of 640 rows over 128 keys, and half of its weights to move. A thread moves 4 GB/s,
  // and attention gains from up to eight.
  const keys = 4 * 640 * 128 * 7168;
  const shares = {
    query: 0.02,
    key: 0.02,
    value: 0.02,
    appendKey: 0.01,
    appendValue: 0.01,
    scores: 0.45,
    softmax: 0.02,
    weighted: 0.43,
    output: 0.02,
  };
  const work = {
    graph: ATTENTION_GRAPH,
    operationSeconds: (operation, threads) => (shares[operation] * keys) / (4e9 * Math.min(threads, 8)),
    transfers: {
      load_weight: { bytes: 0.45 * 24 * 7168 ** 2, bytesPerSecond: 4e9 },
      load_activation: { bytes: 2 * 640 * 7168, bytesPerSecond: 4e9 },
      store_activation: { bytes: 2 * 640 * 7168, bytesPerSecond: 4e9 },
    },
  };
  const rows = [2, 16, 64].flatMap((threads) => {
    const splits = splitThreads(threads, work);
    // The chosen one, the same with all threads computing side by side, and the slowest.
    const kept = [splits[0], splits[Math.floor(splits.length / 2)], splits.at(-1)].filter(
      (split, i, all) => split && all.indexOf(split) === i,
    );
    return kept.map((split, i) => [
      String(threads),
      i === 0 ? 'chosen' : '',
      `${split.interOp} x ${split.intraOp}`,
      Object.entries(split.transfers)
        .map(([name, count]) => `${name} ${count}`)
        .join(', '),
      `${(split.seconds * 1e3).toFixed(0)} ms`,
      figure(640 / (48 * split.seconds)),
    ]);
  });
  return table(['threads', '', 'operations x threads', 'transfers', 'a layer', 'tokens/s'], rows);
}

const asTables = (found) =>
  Object.fromEntries(Object.entries(found).map(([name, [head, ...rows]]) => [name, table(head, rows)]));
const tables = {
  flexgen: await flexgenTable(),
  'lm-offload': await lmOffloadTable(),
  ...asTables(await scalingTables()),
  ...asTables(await popeTables()),
  threads: threadTable(),
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
