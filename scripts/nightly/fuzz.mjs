// Fuzzes everything that reads a model's files: takes a well-formed model, changes what its metadata, configuration,
// tokenizer, template or weights say, opens it, and generates. A case may end with tokens or with a documented error,
// soon and in little memory; all else is a finding.
import { existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { readFlags } from '../../bench/lib/flags.mjs';
import { fuzzProcess } from './fuzzProcess.mjs';
import { instrumentedCopy } from './instrumentedCopy.mjs';

const USAGE = `usage: node scripts/nightly/fuzz.mjs [flags]
Takes well-formed tiny models, changes what their files say, opens them and generates: a case ends with tokens or with a documented error, within 5 s and 512 MiB.
  --executions N    so many cases (default 200000)
  --plateau N       go on until so many cases have reached nothing new (default 0); branches of the library that runs chat templates do not count, fuzzTemplates.mjs tries those a thousand a second
  --seconds N       ends after so long, with what was done by then (default: never)
  --seed N          of all that is random (default 1); with one process the same seed makes the same cases
  --processes N     so many at once (default 1)
  --unguided        cases follow from the seed alone
  --models PATTERN  of the well-formed models, those whose name matches this expression (default: all); without --cases
  --cases FILE      cases to begin with; --keep FILE gets those that reach something new
  --command-line N  every N-th case goes through the command line, too, in a process of its own (default 0: none)
  --memory N        MiB that may be resident (default 512); sanitizers take more
  --replay RECIPE   one case, as a finding names it; --write FOLDER gets its files
  --json FILE       gets the report
SPILLWAY_ADDON, an addon built with SPILLWAY_FUZZ (and perhaps with sanitizers), counts the blocks of C++, too:
  npx cmake-js compile --out native/build-fuzz --CDSPILLWAY_FUZZ=ON`;

const text = (otherwise) => ({ type: 'string', ...(otherwise !== undefined && { default: otherwise }) });
const { values: options, number } = readFlags(USAGE, {
  executions: text('200000'),
  seed: text('1'),
  plateau: text('0'),
  seconds: text(),
  processes: text('1'),
  memory: text('512'),
  'command-line': text('0'),
  unguided: { type: 'boolean', default: false },
  models: text(''),
  cases: text(),
  keep: text(),
  replay: text(),
  write: text(),
  json: text(),
});
const [executions, plateau, processes, commandLine] = [
  options.replay ? 1 : number('executions'),
  number('plateau', 0),
  options.replay ? 1 : number('processes'),
  number('command-line', 0),
];
const mostSeconds = options.seconds === undefined ? Infinity : number('seconds');
const most = { seconds: 5, residentBytes: number('memory') * 2 ** 20 };
const TEMPLATE_ENGINE = 'src/model/tokenizer/jinja/';
/** Cases of a process: what it leaks shows, and does not add up for ever; nor do the hashes of models that it keeps. */
const CASES_A_PROCESS = 2000;
/** So many that were reached last are named: they tell whether more cases would find more. */
const NEWEST = 200;
const guided = !options.unguided && !options.replay;
const given = options.replay
  ? [JSON.parse(options.replay)]
  : options.cases
    ? JSON.parse(readFileSync(options.cases, 'utf8'))
    : [];

const folder = mkdtempSync(join(existsSync('/dev/shm') ? '/dev/shm' : tmpdir(), 'spillway-fuzz-'));
process.on('exit', () => rmSync(folder, { recursive: true, force: true }));
/** A signal ends the run early, with its report. */
let interrupted = false;
for (const signal of ['SIGINT', 'SIGTERM']) process.on(signal, () => (interrupted = true));

const began = Date.now();
const report = {
  seed: number('seed', 0),
  executions: 0,
  generated: 0,
  generatedFromText: 0,
  generatedFromMessages: 0,
  refusals: {},
  seconds: 0,
  blocks: { javascript: 0, native: 0 },
  coverage: [],
  lastNew: 0,
  /** As `lastNew`, without branches of the template library: what `--plateau` counts from. */
  lastNewOfOurs: 0,
  /** What was reached last, at which case: branches of JavaScript by their place, blocks of C++ by their number. */
  newest: [],
  /** Branches of JavaScript that nothing reached, by their place. */
  unreached: [],
  slowest: { seconds: 0 },
  largest: { residentBytes: 0 },
  findings: [],
};
/** Cases that reached something new, and whether they generated. */
const corpus = [];
const blocks = new Set();
const findings = new Map();
const running = new Set();
/** Numbers of cases that nobody runs yet. */
const ranges = [];
let first = 0;

const say = (line) => process.stderr.write(`${line}\n`);
const elapsed = () => Math.round((Date.now() - began) / 1000);
const share = (count) => `${((100 * count) / Math.max(1, report.executions)).toFixed(1)} %`;
const enough = () =>
  interrupted ||
  elapsed() >= mostSeconds ||
  (report.executions >= executions && report.executions - report.lastNewOfOurs >= plateau);

function note({ recipe, generated, refusals, findings: found, seconds, residentBytes, blocks: reached }, by) {
  report.executions++;
  if (generated.any) report.generated++;
  if (generated.text) report.generatedFromText++;
  if (generated.chat) report.generatedFromMessages++;
  for (const code of new Set(refusals)) report.refusals[code] = (report.refusals[code] ?? 0) + 1;
  if (seconds > report.slowest.seconds) report.slowest = { seconds, recipe };
  if (residentBytes > report.largest.residentBytes) report.largest = { residentBytes, recipe };
  const unseen = reached.filter((block) => !blocks.has(block));
  for (const block of unseen) {
    blocks.add(block);
    report.blocks[block < 2 ** 20 ? 'javascript' : 'native']++;
    report.newest.push([report.executions, places.get(block) ?? block]);
  }
  report.newest.splice(0, report.newest.length - NEWEST);
  if (unseen.length > 0) {
    report.lastNew = report.executions;
    if (unseen.some((block) => !places.get(block)?.startsWith(TEMPLATE_ENGINE)))
      report.lastNewOfOurs = report.executions;
    corpus.push({ recipe, generated: generated.any });
    for (const other of running) if (other !== by) other.tell({ blocks: unseen, ...(generated.any && { recipe }) });
  }
  for (const { finding, stack } of found) keep(finding, stack, recipe);
  if (report.executions % 1000 === 0) report.coverage.push([report.executions, blocks.size]);
  if (report.executions % 10_000 === 0)
    say(
      `${report.executions} cases in ${elapsed()} s, ${share(report.generated)} generated, ${blocks.size} blocks, the last new one at ${report.lastNew}, of ours at ${report.lastNewOfOurs}, ${findings.size} findings`,
    );
}

/** Findings that differ in numbers and quoted texts alone are one. */
function keep(finding, stack, recipe) {
  const where = /\n\s+at (.*)/.exec(stack)?.[1]?.replace(/.*\/copy\//, '') ?? '';
  const key = `${finding.replace(/"[^"]*"|'[^']*'|\{.*|[\d.]+/g, '#')} ${where}`.slice(0, 300);
  const known = findings.get(key);
  if (known) known.count++;
  else {
    findings.set(key, { finding: finding.slice(0, 600), where, count: 1, recipe });
    say(`finding: ${finding.slice(0, 600)}\n  ${where}\n  --replay '${JSON.stringify(recipe)}'`);
    if (options.replay) say(stack);
  }
}

/** Runs cases in one process after another until there are enough. */
async function fuzz(home) {
  for (let round = 0; !(options.replay ? report.executions > 0 : enough()); round++) {
    if (ranges.length === 0) ranges.push([first, (first += options.replay ? 1 : CASES_A_PROCESS)]);
    const [from, end] = ranges.shift();
    const parents = corpus.filter(({ generated }) => generated).map(({ recipe }) => recipe);
    const task = {
      seed: report.seed,
      first: from,
      end,
      given,
      corpus: parents,
      blocks: [...blocks],
      models: options.models,
      folder: join(home, String(round)),
      commandLine,
      most,
    };
    const one = fuzzProcess(
      copy,
      task,
      (message) => {
        if (enough()) one.stop();
        else note(message, one);
      },
      options.write && resolve(options.write),
    );
    running.add(one);
    const failure = await one.ended;
    running.delete(one);
    if (!failure) continue;
    report.executions++;
    keep(failure.finding, failure.stack, failure.recipe);
    if (failure.number + 1 < end) ranges.push([failure.number + 1, end]);
  }
}

const copy = join(folder, 'copy');
mkdirSync(copy);
const places = instrumentedCopy(copy, guided);
await Promise.all(Array.from({ length: processes }, (_, index) => fuzz(join(folder, `process-${index}`))));

report.seconds = elapsed();
report.findings = [...findings.values()];
report.unreached = [...places].flatMap(([block, where]) => (blocks.has(block) ? [] : [where]));
if (options.keep)
  writeFileSync(resolve(options.keep), `[\n${corpus.map(({ recipe }) => JSON.stringify(recipe)).join(',\n')}\n]\n`);
if (options.json) writeFileSync(resolve(options.json), `${JSON.stringify(report, undefined, 1)}\n`);
say(
  `${report.executions} cases in ${report.seconds} s: ${share(report.generated)} generated (${share(report.generatedFromText)} from text, ${share(report.generatedFromMessages)} from messages), ` +
    `${report.blocks.javascript} blocks of JavaScript and ${report.blocks.native} of C++, the last new one at case ${report.lastNew}, outside the template library at ${report.lastNewOfOurs}; the slowest took ${report.slowest.seconds.toFixed(2)} s, ` +
    `the largest had ${Math.round(report.largest.residentBytes / 2 ** 20)} MiB resident; ${findings.size} findings`,
);
process.exitCode = findings.size > 0 ? 1 : 0;
