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

/**
 * Documents of bench/peers.mjs in a folder.
 * @returns those of at least three contenders before those of fewer (`--only`), which tell no order, then the newest
 * first; of one day, those of all contenders first, and whole ones before quick ones
 */
export function peerResults(folder) {
  const rank = ({ name, document: { date, summary } }) =>
    [summary.length >= 3, date, !name.includes('-part'), !name.includes('-quick')].map(String).join(' ');
  return readdirSync(folder)
    .filter((name) => /^peers-.*\.json$/.test(name))
    .map((name) => ({ name, document: JSON.parse(readFileSync(join(folder, name), 'utf8')) }))
    .sort((a, b) => (rank(a) < rank(b) ? 1 : rank(a) > rank(b) ? -1 : a.name < b.name ? -1 : 1))
    .map(({ document }) => document);
}

/** A contender's tool with its version, and the type that its weights are computed from: the first cells of its row. */
function labelsOf({ name, version, setting }) {
  // After the tool's name stands its type, in whichever words `--type` has given.
  const [, tool, type] = /^(\S+(?: GenAI| \(torch\))?) ?(.*)$/.exec(name);
  return [`${tool.replace(/^s/, 'S')} ${version}`, (type || (setting.dtype ?? '')).replace(/ int8$/, ', in int8')];
}

const keyOf = (entry) => labelsOf(entry).join(' | ');

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

const isOn = (document, { processor, processors, threads }) =>
  document.machine.processor === processor &&
  document.machine.processors === processors &&
  document.machine.threads === threads;

/**
 * The share of the model's own tokens that rows of the table made, on a model that was trained. A share counts for the
 * version and the type that made it alone.
 */
function agreementsOf(documents, machine, keys) {
  const found = documents
    .filter((document) => !/^dummy/.test(document.workload.model) && isOn(document, machine))
    .map(({ workload, summary, agreements }) => ({
      model: workload.model,
      shares: new Map(
        summary.flatMap((entry) => {
          const share = agreements.find(({ of }) => of === entry.name);
          return share === undefined ? [] : [[keyOf(entry), share.tokensBeforeFirstDifference / share.tokens]];
        }),
      ),
    }));
  return found.find(({ shares }) => keys.some((key) => shares.has(key)));
}

/** The entries of all columns by the keys of their rows: Spillway's, then the others' by the speed of the first job. */
function rowEntries(columns) {
  const first = columns[0].document.summary;
  const speed = ({ name, tool }) =>
    tool === 'spillway' ? Infinity : (first.find((entry) => entry.name === name)?.generatedTokensPerSecond ?? 0);
  const entries = columns.flatMap(({ document }) => document.summary);
  const names = [...new Map(entries.map((entry) => [entry.name, entry])).values()]
    .sort((a, b) => (speed(a) === speed(b) ? 0 : speed(b) - speed(a)))
    .map(({ name }) => name);
  const sorted = names.flatMap((name) => entries.filter((entry) => entry.name === name));
  return new Map(sorted.map((entry) => [keyOf(entry), entry]));
}

/**
 * The table, of the first document of each workload on one machine. What has another version or type in another
 * document has a row of its own.
 * @param documents as `peerResults` has them
 */
export function speedTable(documents) {
  const ofModel = documents.filter(({ workload }) => workload.model.startsWith(README_MODEL));
  const machine = ofModel.find((document) => WORKLOADS.some((job) => isOf(document, job)))?.machine;
  if (machine === undefined) throw new Error(`found no result of ${README_MODEL} with a workload of README, expected one`);
  const columns = WORKLOADS.map((job) => ({
    ...job,
    document: ofModel.find((document) => isOf(document, job) && isOn(document, machine)),
  })).filter(({ document }) => document !== undefined);
  const entries = rowEntries(columns);
  const trained = agreementsOf(documents, machine, [...entries.keys()]);
  const rows = [...entries].map(([key, entry]) => {
    const share = trained?.shares.get(key);
    const own = share === undefined ? '' : `${(100 * share).toFixed(0)}%`;
    const cells = columns.map((column) =>
      column.document.summary.some((other) => keyOf(other) === key) ? rateOf(column.document, entry.name, column) : '',
    );
    return [...labelsOf(entry), ...(trained === undefined ? [] : [own]), ...cells];
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
      : ['', `Tokens as the model: the share that comes before a row's first token that float32 does not make, of ${trained.model}.`]),
  ].join('\n');
}
