import { formatBytes, type DryRunReport } from './library.js';
import { seconds } from './planReport.js';
import { formatTable } from './table.js';

/** Characters of a prompt that are shown. */
const SHOWN = 2000;

/** What a job would do, in words. */
export function describeDryRun(report: DryRunReport): string {
  const { rows, answers, failed, tokens, prompts } = report;
  const facts = [
    ['rows', `${count(rows)}${failed.rows > 0 ? `, ${count(failed.rows)} of them errors` : ''}`],
    ...(answers === rows - failed.rows ? [] : [['answers', count(answers)]]),
    ...(prompts
      ? [
          [
            'prompts',
            `${count(tokens.prompt)} tokens, median ${count(prompts.median)}, longest ${count(prompts.longest.tokens)} (row ${prompts.longest.index}, id ${JSON.stringify(prompts.longest.id)})`,
          ],
        ]
      : []),
    ...(tokens.newTokens > 0 ? [['answers have', `at most ${count(tokens.newTokens)} tokens`]] : []),
    ...forecast(report),
  ];
  const errors = failed.byCode.flatMap(({ code, rows: many, examples }) =>
    examples.map(({ index, message }, at) => [at === 0 ? `${code}: ${count(many)}` : '', `row ${index}: ${message}`]),
  );
  const first = prompts?.first.map(({ id, index, text }) => {
    const more = text.length > SHOWN ? ` … (${count(text.length - SHOWN)} characters more)` : '';
    return `\n--- row ${index} (id ${JSON.stringify(id)}) ---\n${text.slice(0, SHOWN)}${more}\n`;
  });
  return [
    'dry run: nothing was computed, nothing was written\n\n',
    formatTable(facts),
    ...(errors.length > 0 ? ['\nerrors\n', formatTable(errors)] : []),
    ...(first ? ['\nfirst prompts, as the model sees them\n', ...first] : []),
  ].join('');
}

/** What the plan promises. */
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
