import { spawnSync } from 'node:child_process';
import { readdirSync, readFileSync, statSync, writeFileSync } from 'node:fs';
import { describe, expect, test } from '@jest/globals';
import { temporaryFolder, writeLines } from '../jobs/support/files.js';
import { built } from '../jobs/support/built.js';
import { TINY_MODEL } from './support.js';

const path = temporaryFolder();

/** Whether this process may mount, in a view of its own of the file system. */
const may = spawnSync('unshare', ['-m', 'mount', '--bind', '/tmp', '/tmp']).status === 0;

/** Runs the command line where files are bound over others, as `docker -v FILE:FILE` does. */
function runBound(binds: readonly (readonly [string, string])[], args: readonly string[]): [number | null, string] {
  const mounts = binds.map(([from, to]) => `mount --bind '${from}' '${to}' && `).join('');
  const { status, stderr } = spawnSync(
    'unshare',
    ['-m', 'sh', '-c', `${mounts}exec "$0" "$@"`, process.execPath, built('cli/main.js'), ...args],
    { encoding: 'utf8' },
  );
  return [status, stderr];
}

(may ? describe : describe.skip)('an output that is a mount (skipped where nothing may be mounted)', () => {
  const input = path('in.jsonl');
  const generate = (...more: string[]): string[] => [
    ...['generate', '--model', TINY_MODEL, '--input', input, '--max-new-tokens', '3', '--ignore-eos'],
    ...more,
  ];
  const empty = (name: string): string => {
    writeFileSync(path(name), 'old');
    return path(name);
  };

  test.each(['jsonl', 'csv'])('is written in place, as is a report: %s', (ending) => {
    writeLines(
      input,
      Array.from({ length: 6 }, (_, id) => ({ id, tokens: [1, id + 4] })),
    );
    const [outside, inside, stats, report] = ['outside', 'inside', 'stats', 'report'].map((name) =>
      empty(`${name}.${ending}`),
    ) as [string, string, string, string];
    const plain = path(`plain.${ending}`);
    expect(runBound([], generate('--output', plain))[0]).toBe(0);
    const [code, stderr] = runBound(
      [
        [outside, inside],
        [stats, report],
      ],
      generate('--output', inside, '--overwrite', '--stats', report),
    );
    expect([code, stderr]).toEqual([0, expect.stringContaining('6 rows')]);
    expect(readFileSync(outside, 'utf8')).toBe(readFileSync(plain, 'utf8'));
    expect(JSON.parse(readFileSync(stats, 'utf8'))).toMatchObject({ rows: { done: 6 } });
    // What they are bound over is as it was.
    for (const each of [inside, report]) expect(readFileSync(each, 'utf8')).toBe('old');
    expect(readdirSync(path('.')).filter((name) => name.endsWith('.tmp') || name.endsWith('.lock'))).toEqual([]);
  });

  test('what stood out of its turn is put in order in place', () => {
    const rows = Array.from({ length: 6 }, (_, id) => ({ id, tokens: [1, id + 4] }));
    writeLines(input, rows);
    const [outside, inside] = [empty('outside.order'), empty('inside.order')];
    const args = generate('--output', inside, '--output-format', 'jsonl');
    expect(runBound([[outside, inside]], [...args, '--overwrite'])[0]).toBe(0);
    const lines = readFileSync(outside, 'utf8').split('\n').slice(0, -1);
    writeFileSync(outside, `${[lines[3], lines[1]].join('\n')}\n`);
    const { ino } = statSync(outside);
    expect(runBound([[outside, inside]], [...args, '--resume'])).toEqual([0, expect.stringContaining('4 rows')]);
    expect(readFileSync(outside, 'utf8')).toBe(`${lines.join('\n')}\n`);
    expect(statSync(outside).ino).toBe(ino);
  });
});
