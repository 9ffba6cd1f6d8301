// The tables of the policy benchmark.
import { QUIET, machineInWords } from '../lib/machine.mjs';
import { markdownTable } from '../lib/results.mjs';
import { median } from '../lib/statistics.mjs';

const figure = (value) => (value >= 100 ? value.toFixed(0) : value.toPrecision(3));
const percent = (value) => `${value >= 0 ? '+' : ''}${(100 * value).toFixed(0)}%`;
const mark = (run) => (run.othersShare > QUIET ? ' *' : '');

function groupBy(list, keyOf) {
  const groups = new Map();
  for (const each of list) groups.set(keyOf(each), [...(groups.get(keyOf(each)) ?? []), each]);
  return groups;
}

/** The share of a list at or below which `part` of it lies. */
export function quantile(numbers, part) {
  const sorted = [...numbers].sort((a, b) => a - b);
  return sorted[Math.max(0, Math.ceil(part * sorted.length) - 1)];
}

/**
 * Errors of predicted over measured tokens/s: of all runs that have both.
 * @param which `predicted`, corrected by the runs before; or `predictedAlone`, by the profile alone
 */
export function errorsOf(runs, which = 'predicted') {
  const errors = runs
    .filter(({ [which]: predicted, measured }) => predicted > 0 && measured > 0)
    .map(({ [which]: predicted, measured }) => predicted / measured - 1);
  const sizes = errors.map(Math.abs);
  return { count: errors.length, median: median(sizes), ninetieth: quantile(sizes, 0.9), bias: median(errors) };
}

/** All attempts at the runs, those that were made again too. */
export function attemptsOf(runs) {
  return runs.flatMap(({ attempts = [], ...run }) => [...attempts, run]);
}

/** The chosen plan beside the best of its grid, for each situation: medians where they ran several times. */
export function choicesOf(runs) {
  const groups = groupBy(
    runs.filter(({ grid, measured }) => grid !== undefined && measured > 0),
    ({ model, grid }) => `${model} ${grid}`,
  );
  return [...groups].flatMap(([name, of]) => {
    const chosen = of.filter(({ auto }) => auto);
    const others = of.filter(({ auto }) => !auto);
    if (chosen.length === 0 || others.length === 0) return [];
    const byBlock = groupBy(others, ({ name: block }) => block);
    const best = [...byBlock]
      .map(([block, each]) => ({ block, measured: median(each.map(({ measured }) => measured)) }))
      .sort((a, b) => b.measured - a.measured)[0];
    const measured = median(chosen.map((each) => each.measured));
    return [
      {
        name,
        chosen: chosen.at(-1).policy,
        measured,
        runs: chosen.length,
        best: best.block,
        bestMeasured: best.measured,
        share: measured / best.measured,
      },
    ];
  });
}

export function policyReport({ date, machine, profile, runs, quick }) {
  const done = runs.filter(({ failed }) => failed === undefined);
  const { count, median: middle, ninetieth, bias } = errorsOf(done);
  const lines = [
    `# Predicted and measured, ${date}`,
    '',
    `${machineInWords(machine)}. ${quick ? 'A quick look. ' : ''}Profile measured at ${profile.measuredAt}.`,
    '',
    `**${count} runs: the median error of predicted tokens/s is ${(100 * middle).toFixed(1)}%, the 90th percentile ${(100 * ninetieth).toFixed(1)}% (bias ${percent(bias)}).**`,
    '',
    ...aloneInWords(done),
    ...againInWords(done),
    ...markdownTable(
      [
        'model',
        'run',
        'policy',
        'measured tokens/s',
        'predicted',
        'error',
        'by the profile alone',
        'compute s: measured / predicted',
        'disk s: measured / predicted',
        'cpu MiB: measured / predicted',
      ],
      done.map((run) => [
        run.model,
        `${run.grid === undefined ? '' : `${run.grid}: `}${run.name}${run.repeat === undefined ? '' : ', again'}`,
        run.policy,
        `${figure(run.measured)}${mark(run)}`,
        run.predicted ? figure(run.predicted) : '',
        run.predicted ? percent(run.predicted / run.measured - 1) : '',
        run.predictedAlone ? `${figure(run.predictedAlone)} (${percent(run.predictedAlone / run.measured - 1)})` : '',
        pair(run.queues, run.predictedQueues, ['cpu-compute']),
        pair(run.queues, run.predictedQueues, ['disk-read', 'disk-write']),
        memoryPair(run),
      ]),
    ),
    '',
    `\\* something else took more than ${100 * QUIET}% of the machine.`,
  ];
  const choices = choicesOf(done);
  if (choices.length > 0) {
    lines.push(
      '',
      '## The chosen plan beside a grid',
      '',
      ...markdownTable(
        [
          'model and memory',
          'chosen',
          'tokens/s',
          'best of the grid',
          'tokens/s',
          'chosen / best',
          'runs of both, in turn',
        ],
        choices.map(({ name, chosen, measured, best, bestMeasured, share, runs: count }) => [
          name,
          chosen,
          figure(measured),
          best,
          figure(bestMeasured),
          share.toFixed(2),
          count,
        ]),
      ),
    );
  }
  const failed = runs.filter((run) => run.failed !== undefined);
  if (failed.length > 0)
    lines.push(
      '',
      '## Without figures',
      '',
      ...failed.map(
        ({ model, name, grid, failed: why }) => `- ${model}, ${grid === undefined ? '' : `${grid}: `}${name}: ${why}`,
      ),
    );
  return `${lines.join('\n')}\n`;
}

/** What corrections by earlier runs changed. */
function aloneInWords(runs) {
  const { count, median: middle, ninetieth, bias } = errorsOf(runs, 'predictedAlone');
  if (count === 0) return [];
  return [
    'Each run is predicted by the profile at the speed that the machine had just before it, corrected by what the runs above it took; ' +
      `by the profile alone the median error is ${(100 * middle).toFixed(1)}%, the 90th percentile ${(100 * ninetieth).toFixed(1)}% (bias ${percent(bias)}).`,
    '',
  ];
}

/** What was made again because the machine changed under it, and what the errors are with these attempts. */
function againInWords(runs) {
  const attempts = attemptsOf(runs);
  const again = attempts.length - runs.length;
  const unsteady = runs.filter(({ changed }) => changed).length;
  if (again + unsteady === 0) return [];
  const { median: middle, ninetieth } = errorsOf(attempts);
  return [
    `The speed of the disk (where a run used it), of products and of memory was measured just before and just after each run. ${again} attempts during which one of them changed by more than a fifth were made again, at most once a run; ` +
      `${unsteady} runs stand although it changed at the last attempt too. With all attempts counted the median error is ${(100 * middle).toFixed(1)}%, the 90th percentile ${(100 * ninetieth).toFixed(1)}%.`,
    '',
  ];
}

function pair(measured = {}, predicted = {}, names) {
  const total = (of) => names.reduce((sum, name) => sum + (of[name] ?? 0), 0);
  return total(measured) === 0 && total(predicted) === 0
    ? ''
    : `${figure(total(measured))} / ${figure(total(predicted))}`;
}

function memoryPair({ memoryBytes = {}, predictedMemoryBytes = {} }) {
  return `${Math.round((memoryBytes.cpu ?? 0) / 2 ** 20)} / ${Math.round((predictedMemoryBytes.cpu ?? 0) / 2 ** 20)}`;
}
