import { spawn, type ChildProcessByStdio } from 'node:child_process';
import { once } from 'node:events';
import { readdirSync, statSync } from 'node:fs';
import type { Readable } from 'node:stream';
import { text } from 'node:stream/consumers';
import { setTimeout as sleep } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { expect, test } from '@jest/globals';
import { ReuseFile } from '../../src/reuse/ReuseFile.js';
import { built } from '../jobs/support/built.js';
import { temporaryFolder } from '../jobs/support/files.js';
import { answerFor, keyFor } from './support/answers.js';

const path = temporaryFolder();
const KILLS = 10;

function startWriter(
  file: string,
  maxBytes: number,
  first: number,
  count: number,
  rounds: number,
): ChildProcessByStdio<null, Readable, Readable> {
  const script = fileURLToPath(new URL('./support/writer.mjs', import.meta.url));
  return spawn(
    process.execPath,
    [script, built('reuse/ReuseFile.js'), file, ...[maxBytes, first, count, rounds].map(String)],
    { stdio: ['ignore', 'pipe', 'pipe'] },
  );
}

/** Which of some numbers are not there. What is there must be right. */
async function missingIn(store: ReuseFile, first: number, end: number): Promise<number[]> {
  const missing: number[] = [];
  for (let number = first; number < end; number += 1) {
    const answer = await store.get(keyFor(number));
    if (answer === undefined) missing.push(number);
    else expect(answer).toEqual(answerFor(number, 1000));
  }
  return missing;
}

test('what two processes write at once is all there', async () => {
  const file = path('two');
  const writers = [startWriter(file, 2 ** 30, 0, 250, 4), startWriter(file, 2 ** 30, 1000, 250, 4)];
  const said = await Promise.all(
    writers.map(async (writer) => (await Promise.all([text(writer.stderr), once(writer, 'close')]))[0]),
  );
  expect(said).toEqual(['', '']);
  const warnings: string[] = [];
  const store = await ReuseFile.open(file, { onWarning: (message) => warnings.push(message) });
  expect(await missingIn(store, 0, 2000)).toEqual([]);
  await store.close();
  expect(warnings).toEqual([]);
});

test('two processes that begin the file anew under each other lose nothing of the last, and keep the bound', async () => {
  const file = path('bounded');
  const writers = [startWriter(file, 2 ** 20, 0, 400, 5), startWriter(file, 2 ** 20, 10_000, 400, 5)];
  const said = await Promise.all(
    writers.map(async (writer) => (await Promise.all([text(writer.stderr), once(writer, 'close')]))[0]),
  );
  expect(said).toEqual(['', '']);
  expect(
    readdirSync(path('.'))
      .filter((name) => name.startsWith('bounded'))
      .sort(),
  ).toEqual(['bounded', 'bounded.old']);
  // What the other one writes in the same moment may come on top.
  for (const name of [file, `${file}.old`]) expect(statSync(name).size).toBeLessThan(2 * 2 ** 19 + 100_000);
  const store = await ReuseFile.open(file, { maxBytes: 2 ** 20 });
  const missing = [...(await missingIn(store, 0, 2000)), ...(await missingIn(store, 10_000, 12_000))];
  expect(missing.length).toBeGreaterThan(2000);
  expect(missing.length).toBeLessThan(4000 - 300);
  await store.close();
});

test(`kill -9 at ${KILLS} random moments: nothing wrong, and nothing lost that was flushed`, async () => {
  const file = path('killed');
  let first = 0;
  for (let kill = 0; kill < KILLS; kill += 1) {
    const writer = startWriter(file, 2 ** 28, first, 600, 1000);
    let said = '';
    writer.stdout.on('data', (data: Buffer) => (said += data.toString()));
    const before = statSync(file, { throwIfNoEntry: false })?.size ?? 0;
    while ((statSync(file, { throwIfNoEntry: false })?.size ?? 0) <= before && writer.exitCode === null) await sleep(1);
    await sleep(Math.random() * 60);
    writer.kill('SIGKILL');
    expect((await once(writer, 'close'))[1]).toBe('SIGKILL');
    const last = Number(said.trimEnd().split('\n').at(-1) || first - 1);
    const store = await ReuseFile.open(file);
    expect(await missingIn(store, Math.max(0, first - 300), last + 1)).toEqual([]);
    // Of what was under way some may be there; it is right, then.
    expect(await missingIn(store, last + 1, last + 602)).toContain(last + 601);
    await store.close();
    first = last + 1;
  }
});
