// Fuzzes chat templates alone, without a model: a thousand a second, so that it comes to where nothing new is
// reached. Those that reached something are where fuzz.mjs and the tests begin:
//   node scripts/nightly/fuzzTemplates.mjs --cases test/fuzz/templates.json --keep test/fuzz/templates.json
import { existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { pathToFileURL } from 'node:url';
import { readFlags } from '../../bench/lib/flags.mjs';
import { instrumentedCopy } from './instrumentedCopy.mjs';

const USAGE = `usage: node scripts/nightly/fuzzTemplates.mjs [flags]
Makes up chat templates and conversations, and renders them: each ends with a text or with a row's error, within 5 s and 512 MiB.
  --plateau N   go on until so many have reached nothing new (default 100000)
  --seconds N   ends after so long, with what was done by then (default: never)
  --seed N      of all that is random (default 1)
  --cases FILE  templates to begin with; --keep FILE gets those that reach something
  --json FILE   gets the report`;
const text = (otherwise) => ({ type: 'string', ...(otherwise !== undefined && { default: otherwise }) });
const { values: options, number } = readFlags(USAGE, {
  plateau: text('100000'),
  seconds: text(),
  seed: text('1'),
  cases: text(),
  keep: text(),
  json: text(),
});
const plateau = number('plateau', 0);
const mostSeconds = options.seconds === undefined ? Infinity : number('seconds');
const most = { seconds: 5, residentBytes: 512 * 2 ** 20 };
/** Longer ones say nothing that shorter ones do not, and are for fuzz.mjs to make up. */
const MOST_UNITS = 4000;

const folder = mkdtempSync(join(existsSync('/dev/shm') ? '/dev/shm' : tmpdir(), 'spillway-fuzz-'));
process.on('exit', () => rmSync(folder, { recursive: true, force: true }));
let interrupted = false;
for (const signal of ['SIGINT', 'SIGTERM']) process.on(signal, () => (interrupted = true));

const copy = join(folder, 'copy');
mkdirSync(copy);
const places = instrumentedCopy(copy, true);
const load = (file) => import(pathToFileURL(join(copy, file)).href);
const { Coverage, prepareCoverage } = await load('test/fuzz/coverage.js');
prepareCoverage();
// Without an addon there is JavaScript alone.
const coverage = new Coverage({});
const blocks = new Set();
const { ChatTemplate } = await load('src/model/tokenizer/ChatTemplate.js');
const { Guard } = await load('src/model/tokenizer/Guard.js');
const { Fields } = await load('src/model/files/Fields.js');
const { RowError } = await load('src/errors/RowError.js');
const { ROW_LIMITS } = await load('src/model/files/limits.js');
// As many steps as reach everything: what takes all that there are takes most of the time, and fuzz.mjs has those.
Object.assign(ROW_LIMITS, { templateSteps: 2000, templateStepsPerMessage: 100 });
const { mixed, Random } = await load('test/fuzz/Random.js');
const { editedTemplate } = await load('test/fuzz/mutations/templates.js');
const { anyMessages, anyTemplateInput } = await load('test/fuzz/rows.js');

const given = options.cases && existsSync(options.cases) ? JSON.parse(readFileSync(options.cases, 'utf8')) : [];
const report = { executions: 0, rendered: 0, seconds: 0, branches: 0, lastNew: 0, findings: [], unreached: [] };
const corpus = [];
const say = (line) => process.stderr.write(`${line}\n`);
const began = performance.now();
const elapsed = () => (performance.now() - began) / 1000;
const tokens = { bos_token: '<s>', eos_token: '</s>' };

/** One that goes on from what is known, or begins with nothing. */
function madeUp(random) {
  for (;;) {
    const template = editedTemplate(random, corpus.length > 0 && random.chance(0.7) ? random.pick(corpus) : '');
    if (template.length <= MOST_UNITS) return template;
  }
}

/** Renders one; notes what must not happen. */
function run(template, random) {
  const guard = new Guard(new Fields('tokenizer.json'));
  const from = process.cpuUsage();
  try {
    new ChatTemplate(template, tokens, guard).render(anyMessages(random), anyTemplateInput(random));
    report.rendered++;
  } catch (error) {
    if (!(error instanceof RowError)) finding(`${error?.stack ?? error}`, template);
  }
  const { user, system } = process.cpuUsage(from);
  if ((user + system) / 1e6 > most.seconds) finding(`took ${(user + system) / 1e6} s`, template);
  const resident = process.memoryUsage.rss();
  if (resident > most.residentBytes) finding(`${Math.round(resident / 2 ** 20)} MiB resident`, template);
}

function finding(what, template) {
  if (report.findings.length < 100)
    report.findings.push({ what: what.slice(0, 600), template: template.slice(0, 4000) });
  say(`finding: ${what.slice(0, 300)}\n  ${JSON.stringify(template.slice(0, 600))}`);
}

while (
  !interrupted &&
  elapsed() < mostSeconds &&
  (report.executions < given.length || report.executions - report.lastNew < plateau)
) {
  const random = new Random(mixed(number('seed', 0), report.executions));
  const template = given[report.executions] ?? madeUp(random);
  report.executions++;
  run(template, random);
  const fresh = coverage.take();
  if (fresh.length > 0) {
    for (const block of fresh) blocks.add(block);
    report.branches = blocks.size;
    report.lastNew = report.executions;
    corpus.push(template);
  }
  if (report.executions % 100_000 === 0)
    say(
      `${report.executions} templates in ${Math.round(elapsed())} s, ${report.branches} branches, the last new one at ${report.lastNew}`,
    );
  // Signals are heard between them.
  if (report.executions % 256 === 0) await new Promise((done) => setImmediate(done));
}

report.seconds = Math.round(elapsed());
report.unreached = [...places].flatMap(([block, where]) =>
  blocks.has(block) || !/jinja|tokenizer\/Chat/.test(where) ? [] : [where],
);
if (options.keep)
  writeFileSync(resolve(options.keep), `[\n${corpus.map((each) => JSON.stringify(each)).join(',\n')}\n]\n`);
if (options.json) writeFileSync(resolve(options.json), `${JSON.stringify(report, undefined, 1)}\n`);
say(
  `${report.executions} templates in ${report.seconds} s: ${((100 * report.rendered) / Math.max(1, report.executions)).toFixed(1)} % rendered, ${report.branches} branches, the last new one at ${report.lastNew}; ${report.findings.length} findings`,
);
process.exitCode = report.findings.length > 0 ? 1 : 0;
