import { execFileSync } from 'node:child_process';
import { chmodSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { delimiter } from 'node:path';
import { afterAll, beforeAll, expect, test } from '@jest/globals';
import { built } from '../jobs/support/built.js';
import { temporaryFolder } from '../jobs/support/files.js';
import { tinyChatModel } from '../support/tinyChatModel.js';

const path = temporaryFolder();
let model: Awaited<ReturnType<typeof tinyChatModel>>;
beforeAll(async () => {
  model = await tinyChatModel();
});
afterAll(async () => {
  await model[Symbol.asyncDispose]();
});

/** The shell lines of a page, in their order, without those that install something, or look at the whole machine. */
const shellOf = (page: string): string =>
  readFileSync(page, 'utf8')
    .split('\n')
    .filter((line) => /^ {4}/.test(line))
    .map((line) => line.slice(4))
    .filter((line) => !/^npm |spillway doctor/.test(line))
    .join('\n');

/**
 * Runs a page's lines in a folder of its own, as a shell reads them. Only the model is another, and plans are of one
 * block, for a machine that nobody has to measure.
 */
function run(page: string, files: Readonly<Record<string, string>> = {}): (name: string) => string {
  const folder = path(page.replaceAll('/', '-'));
  mkdirSync(folder);
  for (const [name, text] of Object.entries(files)) writeFileSync(`${folder}/${name}`, text);
  writeFileSync(`${folder}/npx`, `#!/bin/sh\nshift\nexec "${process.execPath}" "${built('cli/main.js')}" "$@"\n`);
  chmodSync(`${folder}/npx`, 0o755);
  const lines = shellOf(page)
    .replaceAll(/--model (?:smollm2-135m-instruct|MODEL)/g, `--model '${model.path}'`)
    .replaceAll('spillway plan', 'spillway plan --hardware flexgen-t4 --schedule zigzag --batch-size 16 --batches 1');
  expect(lines).toContain('npx spillway');
  const env = { ...process.env, PATH: `${folder}${delimiter}${process.env['PATH'] ?? ''}`, XDG_CACHE_HOME: folder };
  execFileSync('bash', ['-euc', lines], { cwd: folder, env, stdio: 'pipe' });
  return (name) => readFileSync(`${folder}/${name}`, 'utf8');
}

test('README', () => {
  const read = run('README.md', { 'questions.txt': 'One?\nTwo?\n' });
  expect(read('answers.jsonl').trim().split('\n')).toHaveLength(2);
});

test('the first hour', () => {
  const read = run('docs/learn/first-hour.md');
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
