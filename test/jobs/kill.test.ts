import { spawn, type ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, readFileSync, statSync, writeFileSync } from 'node:fs';
import { setTimeout as sleep } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { expect, test } from '@jest/globals';
import { transformFileSync } from '@swc/core';
import { built } from './support/built.js';
import { byIndex, readResults, temporaryFolder, writeLines } from './support/files.js';

const path = temporaryFolder();
const ROWS = 2000;
const KILLS = 20;

/** The stub engine as plain JavaScript, for a process without jest. */
function compiledStub(): string {
  const { code } = transformFileSync(fileURLToPath(new URL('./support/stubEngine.ts', import.meta.url)), {
    jsc: { target: 'es2022', parser: { syntax: 'typescript' } },
    module: { type: 'es6' },
  });
  const file = path('stubEngine.mjs');
  writeFileSync(file, code);
  return file;
}

test(`kill -9 at ${KILLS} random moments, then one run to the end: no row lost, none doubled`, async () => {
  const [input, output, stub] = [path('in.jsonl'), path('out.jsonl'), compiledStub()];
  const lines = Array.from({ length: ROWS }, (_, at) => (at % 100 === 99 ? 'broken' : { id: `row-${at}`, prompt: `prompt ${at} `.repeat(at % 40) + 'end' }));
  writeLines(input, lines);
  const script = fileURLToPath(new URL('./support/killableJob.mjs', import.meta.url));
  const jobs = built('jobs/index.js');
  const start = (order: string): ChildProcess => spawn(process.execPath, [script, jobs, stub, input, output, order], { stdio: ['ignore', 'inherit', 'inherit'] });
  const size = (): number => (existsSync(output) ? statSync(output).size : 0);

  for (let kill = 0; kill < KILLS; kill += 1) {
    const before = size();
    const child = start(kill % 2 === 0 ? 'completion' : 'input');
    const ended = once(child, 'exit') as Promise<[number | null, string | null]>;
    // One kill in five comes while the job begins or reads what is there; the others while it writes.
    if (kill % 5 === 4) await sleep(Math.random() * 150);
    else {
      while (size() <= before && child.exitCode === null) await sleep(1);
      await sleep(Math.random() * 60);
    }
    child.kill('SIGKILL');
    expect((await ended)[1]).toBe('SIGKILL');
    if (existsSync(output)) {
      const content = readFileSync(output);
      // What a crash of the machine could do besides: a last line that is cut anywhere.
      if (kill % 3 === 2 && content.length > 3) writeFileSync(output, content.subarray(0, content.length - 1 - Math.floor(Math.random() * 60)));
    }
  }

  const [code] = (await once(start('completion'), 'exit')) as [number | null];
  expect(code).toBe(0);
  const results = byIndex(readResults(output));
  expect(results.map(({ index }) => index)).toEqual(Array.from({ length: ROWS }, (_, at) => at));
  for (const [at, line] of lines.entries()) {
    const result = results[at];
    if (typeof line === 'string') expect(result).toMatchObject({ id: at + 1, error: { code: 'invalid-json' } });
    else expect(result).toMatchObject({ id: line.id, text: line.prompt.toUpperCase(), finishReason: 'stop' });
  }
  expect(existsSync(`${output}.lock`)).toBe(false);
}, 120_000);
