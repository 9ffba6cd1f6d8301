import { mkdirSync, readdirSync, readFileSync, rmSync, watch, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from '@jest/globals';
import { byIndex, readResults, temporaryFolder, writeLines } from '../jobs/support/files.js';
import { resultOf, runCli, startCli, TINY_MODEL } from './support.js';

const path = temporaryFolder();
/**
 * The changes of names (files made, linked, renamed, removed) in its folders at which a run is killed; an uninterrupted
 * one makes about twelve.
 */
const MOMENTS = [1, 2, 3, 5, 6, 8, 9, 11];

/** Kills a process at the n-th change of a name in folders. */
function killAt(change: number, folders: readonly string[], kill: () => void): () => void {
  let left = change;
  const watchers = folders.map((folder) =>
    watch(folder, (event) => {
      if (event !== 'rename') return;
      left -= 1;
      if (left === 0) kill();
    }),
  );
  return () => watchers.forEach((watcher) => watcher.close());
}

test('kill -9 at changes of files, while weights are repacked and rows written, leaves what the next run needs and nothing else', async () => {
  const [folder, disk, input, policy] = [path('run'), path('disk'), path('in.jsonl'), path('policy.json')];
  for (const made of [folder, disk]) mkdirSync(made);
  writeLines(
    input,
    Array.from({ length: 120 }, (_, at) => (at % 40 === 39 ? 'broken' : { id: `row-${at}`, tokens: [1, 3 + at, 7] })),
  );
  writeFileSync(policy, JSON.stringify({ batchSize: 32, weights: { cpu: 0, disk: 1 } }));
  const args = [
    'generate',
    '--model',
    TINY_MODEL,
    '--input',
    input,
    '--max-new-tokens',
    '8',
    '--ignore-eos',
    '--policy',
    policy,
    '--disk',
    disk,
  ];
  const expected = path('expected.jsonl');
  // In memory: what streams is the same.
  expect(await runCli([...args.slice(0, -4), '--output', expected])).toMatchObject({ code: 4 });

  const output = `${folder}/out.jsonl`;
  let killed = 0;
  /** Runs it, and tells whether it was killed. */
  const killedAt = async (moment: number, order: string): Promise<boolean> => {
    const child = startCli([...args, '--output', output, '--resume', '--retry-errors', '--order', order], {
      XDG_CACHE_HOME: path('cache'),
    });
    const stop = killAt(moment, [folder, disk], () => child.kill('SIGKILL'));
    const { code, stderr } = await resultOf(child);
    stop();
    if (code !== 137) expect({ code, stderr }).toMatchObject({ code: 4 });
    return code === 137;
  };
  for (const [at, moment] of MOMENTS.entries()) {
    const order = at % 2 === 0 ? 'completion' : 'input';
    for (let tries = 0; tries < 4; tries += 1) {
      if (await killedAt(moment, order)) {
        killed += 1;
        break;
      }
      // A kill that comes late finds the run over, and the next one would have little left to do: once more from the
      // beginning.
      for (const made of [folder, disk]) for (const name of readdirSync(made)) rmSync(join(made, name));
    }
  }
  expect(killed).toBeGreaterThan(MOMENTS.length / 2);
  expect(await runCli([...args, '--output', output, '--resume', '--retry-errors'])).toMatchObject({ code: 4 });
  expect(readFileSync(output, 'utf8')).toBe(readFileSync(expected, 'utf8'));
  expect(byIndex(readResults(output))).toHaveLength(120);
  expect(readdirSync(folder).sort()).toEqual(['out.jsonl', 'out.jsonl.job.json']);
  expect(readdirSync(disk)).toEqual([expect.stringMatching(/\.weights$/)]);
});
