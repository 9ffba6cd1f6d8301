// The kernels alone: operations and bytes a second of matrix products and attention, by shape, type, rows and
// instruction set, and the share of what loops over registers and over memory give in the same moments.
import { arch } from 'node:os';
import { describeMachine, endedChildrenSeconds, machineInWords, machineSeconds, QUIET } from './lib/machine.mjs';
import { fail, readFlags } from './lib/flags.mjs';
import { buildNative, run } from './lib/nativeBench.mjs';
import { markdownTable, RESULTS, writeResults } from './lib/results.mjs';

const USAGE = `usage: node bench/kernels.mjs [--threads 1] [--isa all|amx|avx512|avxvnni|avx2] [--only SHAPE] [--quick] [--output FOLDER]
--only: one shape, such as "7B up"; --quick: 1 and 64 rows, three turns instead of seven, for a first impression`;
const { values, number } = readFlags(USAGE, {
  threads: { type: 'string', default: '1' },
  isa: { type: 'string', default: 'all' },
  only: { type: 'string', default: 'all' },
  quick: { type: 'boolean', default: false },
  output: { type: 'string', default: RESULTS },
});
const SETS = ['amx', 'avx512', 'avxvnni', 'avx2'];
if (values.isa !== 'all' && !SETS.includes(values.isa))
  fail(`--isa: found ${values.isa}, expected all, ${SETS.join(' or ')}`);
if (arch() !== 'x64')
  fail(
    `found a processor of type ${arch()}, expected x64: other processors have only the portable kernels, which have no peak to compare with`,
  );

const lines = (text) =>
  text
    .trim()
    .split('\n')
    .filter((line) => line !== '')
    .map((line) => JSON.parse(line));
const giga = (perSecond) => (perSecond / 1e9).toFixed(perSecond < 1e10 ? 1 : 0);
const percent = (share) => (share > 0 ? `${(100 * share).toFixed(0)}%` : '');

/**
 * One row a shape and type; for each number of rows the speed, and the share of what bounds it: memory for few rows,
 * arithmetic for many.
 */
function matmulTable(results) {
  const batches = [...new Set(results.map(({ rows }) => rows))].sort((a, b) => a - b);
  const head = [
    'shape',
    'outputs x inputs',
    'type',
    ...batches.map((rows) =>
      rows <= 4 ? `${rows} row${rows > 1 ? 's' : ''}: GB/s, of memory` : `${rows}: GOP/s, of peak`,
    ),
    `quantising, ${batches.at(-1)} rows`,
  ];
  const groups = new Map();
  for (const each of results) {
    const key = `${each.name} ${each.type}`;
    groups.set(key, [...(groups.get(key) ?? []), each]);
  }
  return markdownTable(
    head,
    [...groups.values()].map((group) => {
      const [{ name, type, outputs, inputs }] = group;
      const cells = batches.map((rows) => {
        const each = group.find((result) => result.rows === rows);
        if (each === undefined) return '';
        return rows <= 4
          ? `${giga(each.weightBytesPerSecond)} ${percent(each.shareOfBandwidth)}`
          : `${giga(each.operationsPerSecond)} ${percent(each.shareOfPeak)}`;
      });
      return [name, `${outputs} x ${inputs}`, type, ...cells, `+${percent(group.at(-1).quantiseShare)}`];
    }),
  );
}

function attentionTable(results) {
  return markdownTable(
    ['attention', 'cache', 'GFLOP/s', 'GB/s of cache', 'times f16'],
    results.map((each) => [
      each.name,
      each.type,
      giga(each.operationsPerSecond),
      giga(each.cacheBytesPerSecond),
      each.timesF16.toFixed(2),
    ]),
  );
}

function words({ date, machine, threads, disturbed, results }) {
  const text = [
    '# Kernels',
    '',
    `${date}. ${machineInWords(machine)}; ${threads} thread${threads > 1 ? 's' : ''} computing.${disturbed === undefined ? '' : ` Others took ${(100 * disturbed).toFixed(0)}% of the machine meanwhile${disturbed > QUIET ? ': a disturbed run' : ''}.`}`,
    '',
    'Weights come from memory (copies of 96 MiB in all take turns), as in a model. Peak: what a loop of the same instructions over registers does in the same moments;',
    'memory: what a loop that only reads the weights does. A multiplication and an addition are two operations. Quantising: what preparing the input adds, once for all products that share it.',
    '',
  ];
  for (const { instructionSet, int8, int8Widened } of results.filter(({ op }) => op === 'peak')) {
    const here = results.filter((each) => each.instructionSet === instructionSet);
    const widened =
      instructionSet === 'avx2'
        ? `, ${giga(int8Widened)} for weights of more than 6 bits, whose products must be widened one by one`
        : '';
    text.push(
      `## ${instructionSet}`,
      '',
      `Peak: ${giga(int8)} GOP/s${instructionSet === 'amx' ? ' in bfloat16' : ' in 8 bits'}${widened}.`,
      '',
      ...matmulTable(here.filter(({ op }) => op === 'matmul')),
      '',
    );
    const attention = here.filter(({ op }) => op === 'attention');
    if (attention.length > 0)
      text.push(
        `${attention[0].rows} rows, ${attention[0].context} tokens each (prefill: one row), 9 heads over 3 of 64.`,
        '',
        ...attentionTable(attention),
        '',
      );
  }
  return text.join('\n');
}

process.stderr.write('building\n');
const [matmul, attention] = buildNative('build-kernels', ['bench_matmul', 'bench_attention']);
const threads = number('threads');
const [before, childrenBefore] = [machineSeconds(), endedChildrenSeconds()];
process.stderr.write('measuring\n');
const results = lines(run(matmul, [String(threads), values.isa, values.quick ? 'quick' : 'full', values.only]));
if (results.every(({ op }) => op !== 'matmul'))
  fail(
    `--isa ${values.isa} --only ${values.only}: found nothing to measure, expected an instruction set of this machine and a shape of native/tests/kernels/matmulCases.h`,
  );
if (values.only === 'all')
  results.push(
    ...lines(run(attention, ['64', '300', '9', '3', '64', '64', String(threads), 'json'])).filter(
      ({ instructionSet }) => values.isa === 'all' || values.isa === instructionSet,
    ),
  );
const [after, childrenAfter] = [machineSeconds(), endedChildrenSeconds()];
const disturbed =
  before === undefined || childrenBefore === undefined
    ? undefined
    : Math.max(0, after.busy - before.busy - (childrenAfter - childrenBefore)) / (after.total - before.total);
const document = {
  date: new Date().toISOString().slice(0, 10),
  machine: describeMachine(threads),
  threads,
  quick: values.quick,
  disturbed,
  results,
};
writeResults(
  values.output,
  `kernels-${document.date}-${threads}-thread${threads > 1 ? 's' : ''}${values.quick ? '-quick' : ''}`,
  document,
  words(document),
);
