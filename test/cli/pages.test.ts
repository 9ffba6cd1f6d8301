import { execFileSync } from 'node:child_process';
import { chmodSync, existsSync, mkdirSync, readFileSync, symlinkSync, writeFileSync } from 'node:fs';
import { dirname, resolve } from 'node:path';
import { afterAll, beforeAll, expect, test } from '@jest/globals';
import { parquetWriteBuffer } from 'hyparquet-writer';
import { built } from '../jobs/support/built.js';
import { temporaryFolder } from '../jobs/support/files.js';
import { loadAddon } from '../../src/bindings/loadAddon.js';
import { linesOf, PAGES } from '../support/shellLines.js';
import { tinyChatModel } from '../support/tinyChatModel.js';

/** Lines that no test runs as they stand: a page, how they begin there, and why. */
const NOT_RUN: readonly (readonly [page: RegExp, beginning: RegExp, reason: string])[] = [
  [/./, /^npm (?:install|ci)\b/, 'installs from a registry; release:try and .ci/run do'],
  [/./, /^SPILLWAY_ADDON=|^npx cmake-js /, 'builds the addon for minutes'],
  [/^SECURITY/, /^\{"id"/, 'data, with an ellipsis'],
  [/^bench|performance/, /^(?:npm run bench:|node bench\/|sudo |python3 |VENV\/)/, 'a benchmark: minutes, other tools'],
  [/^bench/, /^scripts\/(?:verify-gpu|bundle-gpu-check)\.sh/, 'needs a GPU, or makes what goes to one'],
  [/first-hour/, /^npx spillway doctor/, 'looks at the whole machine; test/cli/models'],
  [/SECURITY|serve/, /\bserve\b|^curl |^openssl /, 'a server and its clients; test/serve'],
  [/command-line/, /^spillway follow |--peers /, 'several machines; test/e2e/sockets, test/cli/follow'],
  [/command-line/, /^export |^spillway job (?:submit|work|status)|--job tickets/, 'a queue; test/cli/jobQueue'],
  [/policy/, /--machines /, 'a search of half a minute; test/cli/plan'],
  [/peers/, /^(?:one micro-batch|first|second) /, 'a drawing'],
  [/recipes/, /^pip |\.\/minilm|rerank|deberta/, 'models of other kinds; test/cli/encoderRecipes'],
  [/recipes/, /postgres/, 'a server of Postgres; test/cli/recipes'],
  [/recipes/, /^duckdb /, "another program, over what Spillway's line before it has made"],
  [/recipes/, /^kubectl |sbatch|--input questions\.csv/, 'a cluster; test/examples'],
  [/recipes/, /^(?:spark-submit|python) /, 'a cluster; scripts/nightly/cluster.mjs'],
];

/** Pages whose other lines are run, each in a test of its own. */
const RUN = [
  ...['README.md', 'docs/command-line.md', 'docs/policy.md', 'docs/recipes.md', 'docs/structured-output.md'],
  ...['docs/guides/schedule.md', 'docs/learn/first-hour.md', 'docs/learn/good-answers.md'],
  'docs/learn/larger-than-memory.md',
];

const path = temporaryFolder();
let model: Awaited<ReturnType<typeof tinyChatModel>>;
let second: Awaited<ReturnType<typeof tinyChatModel>>;
beforeAll(async () => {
  model = await tinyChatModel();
  second = await tinyChatModel({ template: '{{ messages[0].content }}' });
});
afterAll(async () => {
  await model[Symbol.asyncDispose]();
  await second[Symbol.asyncDispose]();
});

const isRun = (page: string, line: string): boolean =>
  NOT_RUN.every(([pages, beginning]) => !pages.test(page) || !beginning.test(line));
const isGrammar = (line: string): boolean => /--(?:choices|json-schema|questions|regex|tools) /.test(line);
const { grammars } = loadAddon();

/** The schedule of the guide. */
const schedule = (): string => /```js\n([^]*?)```/.exec(readFileSync('docs/guides/schedule.md', 'utf8'))?.[1] ?? '';

/**
 * Runs a page's lines in a folder of its own where this package is installed, in their order, as a shell reads them.
 * Only models are others, and plans are of one block, for a machine that nobody has to measure.
 */
function run(
  page: string,
  files: Readonly<Record<string, string | Uint8Array>>,
  replaced: readonly (readonly [from: string | RegExp, to: string])[] = [],
): (name: string) => string {
  const folder = path(page.replaceAll('/', '-'));
  for (const [name, text] of Object.entries(files)) {
    mkdirSync(dirname(`${folder}/${name}`), { recursive: true });
    writeFileSync(`${folder}/${name}`, text);
  }
  for (const name of ['bin', 'node_modules']) mkdirSync(`${folder}/${name}`, { recursive: true });
  symlinkSync(resolve('.'), `${folder}/node_modules/spillway`);
  for (const [name, shift] of [
    ['npx', 'shift\n'],
    ['spillway', ''],
  ] as const) {
    const main = `exec "${process.execPath}" "${built('cli/main.js')}" "$@"`;
    writeFileSync(`${folder}/bin/${name}`, `#!/bin/sh\n${shift}${main}\n`);
    chmodSync(`${folder}/bin/${name}`, 0o755);
  }
  const lines = linesOf(page).filter((line) => isRun(page, line) && (grammars || !isGrammar(line)));
  const script = replaced
    .reduce((text, [from, to]) => text.replaceAll(from, to), lines.join('\n'))
    .replaceAll(/--model (?:smollm2-135m-instruct|MODEL|all-MiniLM-L6-v2)/g, `--model '${model.path}'`)
    .replaceAll(/spillway plan (?!.*--(?:chips|sweep))((?:.*\\\n)*.*)/g, (_, flags: string) =>
      [
        'spillway plan',
        ...(flags.includes('--policy') ? [] : ['--batch-size 16 --batches 1']),
        ...(flags.includes('--hardware') ? [] : ['--hardware flexgen-t4']),
        ...(/--schedule|--policy/.test(flags) ? [] : ['--schedule zigzag']),
        flags,
      ].join(' '),
    );
  const env = { ...process.env, PATH: `${folder}/bin:${process.env['PATH'] ?? ''}`, XDG_CACHE_HOME: `${folder}/cache` };
  execFileSync('bash', ['-euc', script], { cwd: folder, env, stdio: 'pipe' });
  return (name) => readFileSync(`${folder}/${name}`, 'utf8');
}

const ROWS = '{"prompt":"One"}\n{"prompt":"Two"}\n';
/** A table of so many rows. */
const table = (count: number, header: string, row: (nth: number) => string): string =>
  `${header}\n${Array.from({ length: count }, (_, nth) => `${row(nth)}\n`).join('')}`;

test('every line of the pages for a shell is run here, or stands above with its reason', () => {
  const all = PAGES.flatMap((page) => linesOf(page).map((line) => [page, line] as const));
  expect(all.filter(([page, line]) => isRun(page, line) && !RUN.includes(page))).toEqual([]);
  const used = NOT_RUN.filter(([pages, beginning]) =>
    all.some(([page, line]) => pages.test(page) && beginning.test(line)),
  );
  expect(NOT_RUN.filter((entry) => !used.includes(entry))).toEqual([]);
  const tests = NOT_RUN.flatMap(([, , reason]) => reason.match(/\b(?:test|scripts)\/[\w/.-]*\w/g) ?? []);
  expect(tests.filter((name) => !existsSync(name) && !existsSync(`${name}.test.ts`))).toEqual([]);
  expect(RUN.filter((page) => !all.some(([other, line]) => other === page && isRun(page, line)))).toEqual([]);
});

test('README', () => {
  const read = run('README.md', { 'questions.txt': 'One?\nTwo?\n' });
  expect(read('answers.jsonl').trim().split('\n')).toHaveLength(2);
});

test('the first hour', () => {
  const read = run('docs/learn/first-hour.md', {});
  expect(read('answers.jsonl').trim().split('\n')).toHaveLength(2);
  expect(read('labels.csv')).toMatch(
    /^nr,review,label,probability,.*\n1,"Arrived late, and broken\.",(?:posi|nega)tive,/,
  );
});

test('good answers', () => {
  const rows = 'subject,text,truth\nBuy now,Cheap watches,spam\nRe: patch,It applies cleanly,ham\n';
  const read = run('docs/learn/good-answers.md', { 'labelled.csv': rows });
  expect(JSON.parse(read('run.json'))).toMatchObject({ truth: expect.anything() as unknown });
  expect(read('labels.csv')).toMatch(/^subject,text,truth,label,/);
});

test('larger than memory', () => {
  const read = run('docs/learn/larger-than-memory.md', { 'rows.jsonl': '{"prompt":"One"}\n' });
  expect(read('answers.jsonl')).toContain('"text"');
  expect(read('plan.html').includes('Throughput by batch size')).toBe(true);
});

test('the command line', () => {
  const tickets = table(3, 'subject,body,prompt', (nth) => `Late ${nth},Where is it?,Where?`);
  const read = run('docs/command-line.md', { 'rows.jsonl': ROWS, 'tickets.csv': tickets }, [
    ['/mnt/a/', ''],
    ['/mnt/b/', ''],
    ['--dimensions 256', '--dimensions 16'],
    ['--watch 8090', '--watch 0'],
    // Several lines of the page write it, each as the only one would.
    ['answers.csv \\', 'templated.csv \\'],
    ['answers.csv --parts', 'collected.csv --parts'],
  ]);
  expect(read('labels.csv')).toContain('positive');
  expect(read('templated.csv').trim().split('\n')).toHaveLength(4);
  expect(read('answers.csv')).toMatch(/^subject,body,prompt,text,/);
  expect(read('collected.csv')).toBe(read('answers.csv'));
  expect(read('answers.jsonl').trim().split('\n')).toHaveLength(2);
});

test('answers in a format', () => {
  const mails = table(80, 'prompt,kind', (nth) => `Mail ${nth},${nth % 2 ? 'spam' : 'ham'}`);
  const tool = { type: 'function', function: { name: 'look', parameters: { type: 'object', properties: {} } } };
  const read = run(
    'docs/structured-output.md',
    {
      'rows.jsonl': ROWS,
      'mails.csv': mails,
      'questions.jsonl': '{"messages":[{"role":"user","content":"Look!"}],"maxNewTokens":4}\n',
      'tools.json': JSON.stringify([tool]),
    },
    [
      ['small-model', model.path],
      ['large-model', second.path],
      [/(--cascade-target .*)labelled\.csv/g, '$1learnt.csv'],
      ['--tool-choice auto --output answers.jsonl', '--tool-choice none --output called.jsonl'],
    ],
  );
  expect(read('labelled.csv')).toMatch(/^prompt,kind,label,/);
  expect(read('learnt.csv').trim().split('\n')).toHaveLength(81);
  if (!grammars) return;
  for (const line of read('answers.jsonl').trim().split('\n'))
    expect(['yes', 'no']).toContain((JSON.parse(line) as { value: unknown }).value);
  expect(read('codes.jsonl')).toMatch(/"value":"[A-Z]{2}-\d{4}"/);
});

test('policies', () => {
  const [, example = ''] = /^ {4}(\{"schedules".*\})$/m.exec(readFileSync('docs/policy.md', 'utf8')) ?? [];
  const sweep = JSON.parse(example) as Readonly<Record<string, unknown>>;
  const machine = readFileSync('hardware/flexgen-t4.json', 'utf8');
  const files = {
    'questions.csv': 'prompt\nOne?\nTwo?\n',
    'config.json': readFileSync(`${model.path}/config.json`, 'utf8'),
    'machine.json': machine,
    'mine.json': machine,
    'mine.mjs': schedule(),
    // A search, and this machine's profile, would take a minute.
    'sweep.json': JSON.stringify({ ...sweep, policies: ['policy.json'], hardware: ['flexgen-t4'] }),
  };
  // Few tokens are simulated: it goes square by square.
  const read = run('docs/policy.md', files, [
    ['--prompt-tokens 512 --rows 256', '--prompt-tokens 64 --max-new-tokens 4 --rows 32'],
  ]);
  expect((JSON.parse(read('trace.json')) as unknown[]).length).toBeGreaterThan(10);
  expect(read('plans.csv').trim().split('\n')).toHaveLength(3);
  expect(read('frontier.html')).toContain('palm-540b');
});

test('write a schedule', () => {
  const read = run('docs/guides/schedule.md', { 'shortest.mjs': schedule() }, [
    ['--simulate', '--simulate --json > plan.json'],
  ]);
  // Each row's tokens, in squares that the schedule of the guide has ordered.
  expect(JSON.parse(read('plan.json'))).toMatchObject({
    ownSchedule: expect.anything() as unknown,
    simulated: { rows: 256, newTokens: 256 * 32 },
  });
});

test('recipes', () => {
  const page = readFileSync('docs/recipes.md', 'utf8');
  const [, person = ''] = /`(\{"type":"object".*\})`/.exec(page) ?? [];
  const request = { model: 'any', messages: [{ role: 'user', content: 'One?' }], max_tokens: 4 };
  const read = run(
    'docs/recipes.md',
    {
      'reviews.csv': table(70, 'nr,review,body,tone', (nth) => `${nth},Fine ${nth},Fine,good`),
      'tickets.csv': 'body,urgent\nIt burns,yes\nThank you,no\n',
      'articles.csv': table(2, 'title,body', (nth) => `A${nth},${'It rained. '.repeat(40)}`),
      'reports.csv': table(2, 'body', (nth) => `Day ${nth}: ${'it rained and it was cold. '.repeat(70 * nth)}`),
      'notes.csv': 'note\nAnna is 34.\n',
      'person.json': person,
      'questions.json': JSON.stringify([{ name: 'topic', text: 'Topic?', choices: ['rain', 'sweets'] }]),
      'reviews/2026-01-31.parquet': new Uint8Array(
        parquetWriteBuffer({ columnData: [{ name: 'body', data: ['Fine', 'Late'], type: 'STRING' }] }),
      ),
      'batch.jsonl': `${JSON.stringify({ custom_id: 'a', method: 'POST', url: '/v1/chat/completions', body: request })}\n`,
    },
    [
      ['smollm2-135m-instruct,hf:owner/larger-model', `${model.path},${second.path}`],
      // Rows of the tiny model's context: its tokens are bytes.
      ['--questions questions.json', '--questions questions.json --limit 2'],
      // A random model may write a name without end: that row is an error, and the exit code 4.
      [/output people\.parquet(.*)/g, 'output people.csv$1 || [ $? = 4 ]'],
    ],
  );
  expect(read('labels.csv')).toMatch(/^nr,review,body,tone,label,probability,/);
  expect(read('labelled.csv').trim().split('\n')).toHaveLength(71);
  expect(read('summaries.csv')).toContain('merge_levels');
  expect(JSON.parse(read('batch-output.jsonl'))).toMatchObject({ custom_id: 'a' });
  for (const name of ['passages.parquet', 'summaries.parquet', 'shop.duckdb'])
    expect(readFileSync(path(`docs-recipes.md/${name}`)).length).toBeGreaterThan(0);
  if (grammars) expect(read('people.csv')).toMatch(/^note,name,age,/);
});
