// The comparison in words: the report in bench/results, and the table in docs/performance.md.
import { machineInWords, QUIET } from '../lib/machine.mjs';
import { markdownTable } from '../lib/results.mjs';

const mib = (bytes) => (bytes > 0 ? String(Math.round(bytes / 2 ** 20)) : '-');
const fixed = (value, digits) => (value === undefined ? '-' : value.toFixed(digits));
const settingInWords = (setting) => Object.entries(setting).map(([name, value]) => `${name} ${Array.isArray(value) ? value.join(' ') : value}`).join(', ') || 'defaults';

function runsInWords({ runs, stoppedRuns, disturbedRuns }) {
  const some = [[stoppedRuns, 'stopped'], [disturbedRuns, 'disturbed']].filter(([count]) => count > 0);
  return `${runs}${some.length > 0 ? ` (${some.map(([count, words]) => `${count} ${words}`).join(', ')})` : ''}`;
}

/** The share of the model's own tokens that stand before a row's first other one. */
function agreementInWords({ agreements }, name) {
  const own = agreements.find(({ of }) => of === name);
  return own === undefined ? '-' : `${((100 * own.tokensBeforeFirstDifference) / own.tokens).toFixed(0)}%`;
}

/** The fastest of the others, and how Spillway compares. */
function bestInWords({ best, summary }) {
  if (best === undefined) return [];
  const { version, setting } = summary.find(({ name }) => name === best.to);
  const how = Object.keys(setting).length === 0 ? '' : `, ${settingInWords(setting)}`;
  return [
    `The best of the others is **${best.to}** (${version}${how}): ${fixed(best.generatedTokensPerSecond, best.generatedTokensPerSecond < 100 ? 1 : 0)} generated tokens/s. ` +
      `${best.of} makes ${best.ratio.toFixed(2)} times as many.`,
  ];
}

function table(document) {
  const { summary, ratios, shares } = document;
  const rows = summary.map((entry) => {
    const ratio = ratios.find(({ to }) => to === entry.name)?.ratio;
    const share = shares.find(({ of }) => of === entry.name)?.share;
    return [
      `${entry.name}${entry.synthetic ? ' *' : ''}`, entry.version, settingInWords(entry.setting), agreementInWords(document, entry.name),
      `**${fixed(entry.generatedTokensPerSecond, 1)}** (${fixed(entry.slowest, 1)}-${fixed(entry.fastest, 1)})`, fixed(entry.promptTokensPerSecond, 1),
      fixed(entry.loadSeconds, 1), mib(entry.peakResidentBytes), share === undefined ? '-' : `${(100 * share).toFixed(0)}%`, ratio === undefined ? '' : `${ratio.toFixed(2)}x`,
      runsInWords(entry),
    ];
  });
  const head = ['tool and weights', 'version', 'setting', 'tokens as the model', 'generated tok/s (slowest-fastest)', 'prompt tok/s', 'load s', 'peak MiB', 'of int8 peak', 'Spillway is', 'runs'];
  return markdownTable(head, rows);
}

function notes({ summary, peak, agreements, missing }) {
  const settings = summary.filter(({ tried }) => tried.length > 0).map(({ name, tried }) =>
    `${name}: ${tried.map(({ setting, generatedTokensPerSecond, error }) => `${settingInWords(setting)} ${error ?? generatedTokensPerSecond.toFixed(1)}`).join('; ')}`);
  return [
    ...(summary.some(({ synthetic }) => synthetic)
      ? ['\\* llama-batched-bench: one block of synthetic prompts, all of the mean length of the rows; no row waits for a longer one, none is tokenized or sampled.', '']
      : []),
    `int8 peak: ${(peak.int8OperationsPerSecond / 1e9).toFixed(0)} GOP/s (${peak.instructionSet}, ${peak.threads} threads, the best of a loop over registers between the runs); counted are the matrix products, without attention.`,
    ...(summary.some(({ stoppedRuns }) => stoppedRuns > 0)
      ? ['Stopped: by the time limit; the rate is what would come of all rows if their tokens, of prompts and new ones, took as long as those that were done. That flatters a run that was at its prompts still.']
      : []),
    `Disturbed: others took more than ${QUIET * 100}% of the machine meanwhile.`,
    ...(agreements.length === 0 ? [] : ['', 'Tokens beside the model\'s, of float32 (tools round activations in ways of their own, so texts go apart after a while; much less than others have means that a tool computes something else):']),
    ...agreements.map((entry) =>
      `- ${entry.of}: ${entry.rowsAlike} of ${entry.rows} rows alike throughout; ${((100 * entry.tokensBeforeFirstDifference) / entry.tokens).toFixed(1)}% of all tokens stand before a row's first difference.`),
    ...(settings.length === 0 ? [] : ['', 'Settings that were tried, with generated tokens/s on fewer rows where there are many (medians of two runs where they were near the best):']),
    ...settings.map((line) => `- ${line}`),
    ...(missing.length === 0 ? [] : ['', 'Not compared:']),
    ...missing.map(({ name, reason }) => `- ${name}: ${reason}.`),
    '',
  ];
}

function workloadInWords({ date, machine, workload, runs }) {
  const whole = runs.find(({ synthetic, stopped }) => !synthetic && !stopped) ?? runs[0];
  const prompts = workload.promptTokens === undefined ? `${workload.meanPromptTokens} prompt tokens each on average` : `${workload.promptTokens} prompt tokens each`;
  return [
    `${date}. ${machineInWords(machine)}.`,
    `${workload.rows} rows, ${prompts}, ${workload.maxNewTokens} new ones, greedy (${whole.promptTokens} and ${whole.generatedTokens} in all). ` +
      'Medians of runs in turn, those that chose a setting among them, each a process of its own; loading is not counted in the rates.',
  ];
}

export function report(document) {
  return [`# ${document.workload.model}, ${document.workload.rows} rows`, '', ...workloadInWords(document), '', ...bestInWords(document), '', ...table(document), '', ...notes(document)].join('\n');
}

/** The short form, for docs/performance.md. */
export function shortTable(document) {
  const rows = document.summary.map((entry) => {
    const ratio = document.ratios.find(({ to }) => to === entry.name)?.ratio;
    return [
      `${entry.name}${entry.synthetic ? ' *' : ''}`, entry.version, agreementInWords(document, entry.name), fixed(entry.generatedTokensPerSecond, 0), fixed(entry.promptTokensPerSecond, 0), mib(entry.peakResidentBytes),
      ratio === undefined ? '' : `${ratio.toFixed(1)}x`,
    ];
  });
  const share = document.shares.find(({ of }) => of.startsWith('spillway'));
  return [
    ...workloadInWords(document),
    '',
    ...bestInWords(document),
    '',
    ...markdownTable(['tool and weights', 'version', 'tokens as the model', 'generated tokens/s', 'prompt tokens/s', 'peak resident MiB', 'Spillway is'], rows),
    '',
    ...(document.summary.some(({ synthetic }) => synthetic) ? ['\\* synthetic prompts, all of the mean length: see [bench/README.md](../bench/README.md).'] : []),
    ...(share === undefined ? [] : [`Spillway does its matrix products at ${(100 * share.share).toFixed(0)}% of the machine's int8 peak (${(document.peak.int8OperationsPerSecond / 1e9).toFixed(0)} GOP/s).`]),
  ].join('\n');
}
