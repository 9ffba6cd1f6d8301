import { formatBytes, type DryRunReport } from './library.js';
import { seconds } from './planReport.js';
import { formatTable } from './table.js';

/** Characters of a prompt that are shown. */
const SHOWN = 2000;
/** Rows with an error of a kind that are shown. */
const EXAMPLES = 3;

/** Says in words what a job would do. */
export function describeDryRun(report: DryRunReport): string {
  const { rows, answers, failed, bad, promptTokens, newTokens, longest, prompts } = report;
  const badRows = Object.values(failed).reduce((sum, many) => sum + many, 0);
  const facts = [
    ['rows', `${count(rows)}${badRows > 0 ? `, ${count(badRows)} of them errors` : ''}`],
    ...(answers === rows - badRows ? [] : [['answers', count(answers)]]),
    ...(longest
      ? [
          [
            'prompts',
            `${count(promptTokens.total)} tokens, median ${count(promptTokens.median)}, longest ${count(promptTokens.max)} (row ${longest.index}, id ${JSON.stringify(longest.id)})`,
          ],
        ]
      : []),
    ...(newTokens > 0 ? [['answers have', `at most ${count(newTokens)} tokens`]] : []),
    ...forecast(report),
  ];
  const errors = Object.entries(failed).flatMap(([code, many]) =>
    bad
      .filter((row) => row.code === code)
      .slice(0, EXAMPLES)
      .map(({ index, message }, at) => [at === 0 ? `${code}: ${count(many)}` : '', `row ${index}: ${message}`]),
  );
  const first = prompts.map(({ id, index, text }) => {
    const more = text.length > SHOWN ? ` … (${count(text.length - SHOWN)} characters more)` : '';
    return `\n--- row ${index} (id ${JSON.stringify(id)}) ---\n${text.slice(0, SHOWN)}${more}\n`;
  });
  return [
    'dry run: nothing was computed, nothing was written\n\n',
    formatTable(facts),
    ...(errors.length > 0 ? ['\nerrors\n', formatTable(errors)] : []),
    ...(first.length > 0 ? ['\nfirst prompts, as the model sees them\n', ...first] : []),
  ].join('');
}

/** Says what the plan promises. */
function forecast({ plan, predicted }: DryRunReport): string[][] {
  if (predicted === undefined) return [['time', `not planned for: ${plan.why ?? 'the work is too little'}`]];
  const { cpu, gpu, disk } = predicted.memoryBytes;
  const tiers = Object.entries({ memory: cpu, GPU: gpu, disk }).filter(([, bytes]) => bytes > 0);
  return [
    ['time', `${seconds(predicted.wallSeconds)}, at ${predicted.tokensPerSecond.toPrecision(3)} tokens/s`],
    ['takes', tiers.map(([tier, bytes]) => `${formatBytes(bytes)} of ${tier}`).join(', ')],
  ];
}

function count(value: number): string {
  return value.toLocaleString('en');
}
