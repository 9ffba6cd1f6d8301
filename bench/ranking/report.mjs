// The table of the ranking benchmark.
import { QUIET, machineInWords } from '../lib/machine.mjs';
import { markdownTable } from '../lib/results.mjs';
import { median } from '../lib/statistics.mjs';

const MIB = 2 ** 20;
const figure = (value) => (value >= 100 ? value.toFixed(0) : value.toPrecision(3));
/** Of all runs but the first, which chose whom to compare; or of that one, where it is all there is. */
const speedOf = ({ runs }) => median((runs.length > 1 ? runs.slice(1) : runs).map((run) => run.tokensPerSecond));

/** Plans that ran, the fastest first. */
export function fastestFirst(entries) {
  return entries.filter(({ runs }) => runs.length > 0).sort((a, b) => speedOf(b) - speedOf(a));
}

/** The plan taken, and the fastest of those that ran in turn with it; undefined where there is none. */
export function compared({ entries }) {
  const inTurn = entries.filter(({ runs }) => runs.length > 1);
  return { taken: inTurn.find((entry) => entry.taken), best: fastestFirst(inTurn.filter((entry) => !entry.taken))[0] };
}

export function rankingReport({ date, machine, situations }) {
  const percent = (share) => `${(100 * share).toFixed(0)}%`;
  const disturbed = ({ runs }) => runs.some(({ othersShare }) => othersShare > QUIET);
  const lines = [
    '# Plans as ranked, and as measured',
    '',
    `${date}. ${machineInWords(machine)}`,
    'The plan that an engine takes by itself in a memory cgroup, beside the fastest of those that the search ranks first, one of a kind. Each runs once; then the plan taken and the two fastest run in turn, and medians of these runs are compared. *: something else took more than 2% of the machine.',
    '',
    ...markdownTable(
      [
        'model',
        'cgroup MiB',
        'rows',
        'taken',
        'tok/s',
        'predicted',
        'best of the others',
        'tok/s',
        'predicted',
        'taken over best',
      ],
      situations.map((situation) => {
        const { taken, best } = compared(situation);
        if (taken === undefined || best === undefined)
          return [situation.model, Math.round(situation.capBytes / MIB), situation.rows, ...Array(7).fill('-')];
        return [
          situation.model,
          Math.round(situation.capBytes / MIB),
          situation.rows,
          taken.name.replace('taken: ', ''),
          `${figure(speedOf(taken))}${disturbed(taken) ? ' *' : ''}`,
          figure(taken.predicted),
          best.name,
          `${figure(speedOf(best))}${disturbed(best) ? ' *' : ''}`,
          figure(best.predicted),
          `**${percent(speedOf(taken) / speedOf(best))}**`,
        ];
      }),
    ),
  ];
  for (const { name, entries } of situations) {
    lines.push(
      '',
      `## ${name}`,
      '',
      ...markdownTable(
        ['plan', 'predicted', 'measured', 'runs'],
        entries.map((entry) => [
          entry.name,
          figure(entry.predicted),
          entry.runs.length > 0 ? figure(speedOf(entry)) : (entry.failed ?? '-'),
          entry.runs.map(({ tokensPerSecond }) => figure(tokensPerSecond)).join(', '),
        ]),
      ),
    );
  }
  return `${lines.join('\n')}\n`;
}
