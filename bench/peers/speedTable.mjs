// README's table of speed, made of results that are committed: `node bench/peers.mjs --write`.
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { QUIET } from '../lib/machine.mjs';
import { markdownTable } from '../lib/results.mjs';
import { median } from '../lib/statistics.mjs';

/** How the name of the table's model begins, which has random weights. */
export const README_MODEL = 'dummy-1b';
/** Jobs of the table. */
export const WORKLOADS = [
  { title: '64 rows of 100 + 64: new tokens/s', rows: 64, promptTokens: 100, maxNewTokens: 64 },
  { title: '16 rows of 1,000 + 32: prompt tokens/s', rows: 16, promptTokens: 1000, maxNewTokens: 32, ofPrompts: true },
  { title: 'one row of 100 + 128: new tokens/s', rows: 1, promptTokens: 100, maxNewTokens: 128 },
];
/** The job, on a model that was trained, that tells whose tokens are the model's. */
export const AGREEMENT = { rows: 24, promptTokens: 100, maxNewTokens: 64 };

/** Documents of bench/peers.mjs in a folder. @returns the newest first; of one day, whole ones before quick ones */
export function peerResults(folder) {
  const rank = ({ name, document }) => `${document.date} ${/-quick/.test(name) ? 0 : 1}${/-part/.test(name) ? 0 : 1}`;
  return readdirSync(folder)
    .filter((name) => /^peers-.*\.json$/.test(name))
    .map((name) => ({ name, document: JSON.parse(readFileSync(join(folder, name), 'utf8')) }))
    .sort((a, b) => (rank(a) < rank(b) ? 1 : rank(a) > rank(b) ? -1 : a.name < b.name ? -1 : 1))
    .map(({ document }) => document);
}

/** A contender's tool, how it is called whatever type the file has, and the type that its weights are computed from. */
function nameOf({ name, setting }) {
  const [, tool, type = setting.dtype ?? ''] = /^(.*?)(?: ((?:Q\d\w*|bfloat16|float32|int8)(?: int8)?))?$/.exec(name);
  return { tool, kind: `${tool} ${type.replace(/^Q\w+ ?/, '')}`.trim(), type: type.replace(/ int8$/, ', in int8') };
}

const fixed = (value) => value.toFixed(value < 100 ? 1 : 0);

/** Median and spread of a contender's runs of a document, with what a sceptic wants to know of them. */
function rateOf(document, name, { ofPrompts = false }) {
  const runs = document.runs.filter(({ contender }) => contender === name);
  if (runs.length === 0) return '';
  const rates = runs.map((run) => (ofPrompts ? run.promptTokensPerSecond : run.generatedTokensPerSecond));
  const disturbed = runs.filter(({ othersShare = 0 }) => othersShare > QUIET).length;
  const notes = [
    runs.length === 1 ? 'once' : `${fixed(Math.min(...rates))} to ${fixed(Math.max(...rates))}`,
    ...(disturbed > 0 ? [runs.length === 1 ? 'disturbed' : `${disturbed} of ${runs.length} disturbed`] : []),
    ...(runs.some(({ synthetic }) => synthetic) ? ['synthetic'] : []),
    ...(runs.some(({ stopped }) => stopped) ? ['stopped'] : []),
  ];
  return `${fixed(median(rates))} (${notes.join(', ')})`;
}

const isOf = ({ workload }, job) =>
  ['rows', 'promptTokens', 'maxNewTokens'].every((member) => workload[member] === job[member]);

/** The share of the model's own tokens that each kind of contender made, on a model that was trained. */
function agreementsOf(documents, machine) {
  const found = documents.find(
    (document) =>
      !/^dummy/.test(document.workload.model) &&
      document.machine.processor === machine.processor &&
      document.agreements.some(({ of }) => of !== undefined),
  );
  const entries = (found?.agreements ?? []).map((entry) => [nameOf({ name: entry.of, setting: {} }).kind, entry]);
  return { model: found?.workload.model, shares: new Map(entries) };
}

/** The table, of the newest document of each workload on one machine. @param documents as `peerResults` has them */
export function speedTable(documents) {
  const ofModel = documents.filter(({ workload }) => workload.model.startsWith(README_MODEL));
  const machine = ofModel.find((document) => WORKLOADS.some((job) => isOf(document, job)))?.machine;
  if (machine === undefined) throw new Error(`found no result of ${README_MODEL} with a workload of README, expected one`);
  const columns = WORKLOADS.map((job) => ({
    ...job,
    document: ofModel.find((document) => isOf(document, job) && document.machine.processor === machine.processor),
  })).filter(({ document }) => document !== undefined);
  const { model: trained, shares } = agreementsOf(documents, machine);
  const first = columns[0].document.summary;
  const contenders = new Map(columns.flatMap(({ document }) => document.summary.map((entry) => [entry.name, entry])));
  const speed = ({ name, tool }) =>
    tool === 'spillway' ? Infinity : (first.find((entry) => entry.name === name)?.generatedTokensPerSecond ?? 0);
  const rows = [...contenders.values()]
    .sort((a, b) => (speed(a) === speed(b) ? 0 : speed(b) - speed(a)))
    .map((entry) => {
      const { tool, kind, type } = nameOf(entry);
      const share = shares.get(kind);
      const own =
        share === undefined ? '' : `${((100 * share.tokensBeforeFirstDifference) / share.tokens).toFixed(0)}%`;
      const cells = columns.map((column) => rateOf(column.document, entry.name, column));
      return [`${tool.replace(/^s/, 'S')} ${entry.version}`, type, ...(trained === undefined ? [] : [own]), ...cells];
    });
  const agreement = trained === undefined ? [] : ['tokens as the model'];
  const head = ['tool', 'weights', ...agreement, ...columns.map(({ title }) => title)];
  const dates = [...new Set(columns.map(({ document }) => document.date))].sort();
  return [
    `${dates.join(', ')}, ${machine.processor}, ${machine.threads} of ${machine.processors} threads. Medians, in brackets the slowest and the fastest run.`,
    '',
    ...markdownTable(head, rows),
    ...(rows.some((cells) => cells.some((cell) => cell.includes('synthetic')))
      ? ['', 'Synthetic: prompts all of the mean length, so that no row waits for a longer one.']
      : []),
    ...(trained === undefined
      ? []
      : ['', `Tokens as the model: the share that comes before a row's first token that float32 does not make, of ${trained}.`]),
  ].join('\n');
}
