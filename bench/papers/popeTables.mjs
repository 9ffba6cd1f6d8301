// The tables of Pope et al. beside what the partitioning planner predicts, as rows with a header.
import { readFile } from 'node:fs/promises';
import { planPartitioning, readChip, readModelShape } from '../../dist/api/plan.js';
import { cacheBytes } from '../../dist/plan/partitioning/predictPhase.js';

const CUBE = { x: 4, y: 4, z: 4 };
const percent = (value) => `${Math.round(value * 100)}%`;
const off = (value, measured) => `${value >= measured ? '+' : ''}${percent(value / measured - 1)}`;
const seconds = (value) => value.toPrecision(3);

export async function popeTables() {
  const [chip, paper] = await Promise.all([
    readChip('tpu-v4'),
    readFile(new URL('pope.json', import.meta.url), 'utf8').then(JSON.parse),
  ]);
  return {
    'pope-contexts': await contexts(chip, paper),
    pope: await configurations(chip, paper),
    'pope-benchmarks': await benchmarks(chip, paper),
  };
}

async function contexts(chip, paper) {
  const shape = await readModelShape('palm-540b');
  const variants = {
    multihead: [{ ...shape, kvHeads: shape.heads, headDim: 128 }, 'heads'],
    'multiquery by heads': [shape, 'heads'],
    'multiquery by batch': [shape, 'batch'],
  };
  const rows = paper.contexts.map(({ variant, batch128, batch512 }) => {
    const [of, attention] = variants[variant];
    const most = (batch) =>
      Math.floor(
        (0.3 * chip.memoryBytes) /
          cacheBytes(of, { mesh: CUBE, layout: 'ws-2d', attention, weights: 'bfloat16' }, batch, 1),
      );
    const cell = (batch, measured) => `${most(batch)} (${measured})`;
    return [variant, cell(128, batch128), cell(512, batch512)];
  });
  return [['attention', '128 rows (paper)', '512 rows (paper)'], ...rows];
}

/** By how much a plan is beaten in both latency and cost. */
function beatenBy({ predicted: { seconds: own, chipSecondsPerToken: cost } }, frontier) {
  return Math.max(
    1,
    ...frontier.map(({ predicted }) => Math.min(own / predicted.seconds, cost / predicted.chipSecondsPerToken)),
  );
}

async function configurations(chip, paper) {
  const rows = [];
  for (const each of paper.configurations) {
    const { model, phase, chips, batchSize, layout, attention, weights, mfu, seconds: measured } = each;
    const request = {
      chip,
      shape: await readModelShape(model),
      workload: phase === 'prefill' ? { promptTokens: 2048, newTokens: 1 } : { promptTokens: 1984, newTokens: 64 },
      weights: [weights],
    };
    const settled = { ...request, chips, batchSize, layouts: [layout], attention: [attention] };
    const [plan] = planPartitioning(settled).frontiers[phase];
    const beaten = beatenBy(plan, planPartitioning(request).frontiers[phase]);
    rows.push([
      `${model} ${phase}`,
      `${chips}, ${batchSize}`,
      `${layout}, ${attention}, ${weights}`,
      `${measured}, ${percent(mfu)}`,
      `${seconds(plan.predicted.seconds)} (${off(plan.predicted.seconds, measured)}), ${percent(plan.predicted.mfu)}`,
      beaten === 1 ? 'on it' : percent(beaten - 1),
    ]);
  }
  return [
    ['phase', 'chips, rows', 'layout, attention, weights', 'paper: s, MFU', 'predicted: s, MFU', 'off the frontier'],
    ...rows,
  ];
}

async function benchmarks(chip, paper) {
  const shape = await readModelShape('palm-540b');
  const cell = (plan, measured) => {
    const milliseconds = plan.predicted.seconds * 1e3;
    return `${Math.round(milliseconds)} / ${measured} (${off(milliseconds, measured)})`;
  };
  const columns = paper.benchmarks.map(({ promptTokens, newTokens, rows }) =>
    rows.map(([batchSize, prefill, decode]) => {
      const { frontiers } = planPartitioning({
        chip,
        shape,
        workload: { promptTokens, newTokens },
        chips: 64,
        batchSize,
        layouts: ['ws-2d'],
        attention: ['batch'],
      });
      return [cell(frontiers.prefill[0], prefill), cell(frontiers.decode[0], decode)];
    }),
  );
  const names = paper.benchmarks.map(
    ({ table, promptTokens, newTokens }) => `${table} (${promptTokens} + ${newTokens})`,
  );
  const batches = paper.benchmarks[0].rows.map(([batchSize]) => batchSize);
  return [
    ['rows', ...names.flatMap((name) => [`${name}: prefill`, 'generate'])],
    ...batches.map((batch, at) => [String(batch), ...columns.flatMap((column) => column[at])]),
  ];
}
