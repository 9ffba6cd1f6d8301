import { spawn } from 'node:child_process';
import { readFileSync, writeFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { expect, test } from '@jest/globals';
import { built } from '../jobs/support/built.js';
import { readResults, temporaryFolder } from '../jobs/support/files.js';
import { resultOf, TINY_MODEL } from './support.js';

const path = temporaryFolder();
const MIB = 2 ** 20;
const CAP = 300 * MIB;
/**
 * The campaigns of rows and attacks hold turns to 100; a machine that has much else to do makes more of them. Before
 * rows were bounded these took seconds.
 */
const TURN_MILLISECONDS = 300;
const TURNS = fileURLToPath(new URL('../../scripts/nightly/lib/longestTurn.mjs', import.meta.url));
/** From /proc: what getrusage says also counts the process that started this one. */
const PEAK =
  "data:text/javascript,import{readFileSync}from'node:fs';process.on('exit',()=>process.stderr.write(`peak ${/VmHWM:\\s*(\\d+)/.exec(readFileSync('/proc/self/status','utf8'))[1]}\\n`))";

/** Runs the command line in a process of its own, and looks at what it took. */
async function generate(...args: string[]): Promise<{ readonly code: number | null; readonly stderr: string }> {
  const turns = path('turns.json');
  const child = spawn(
    process.execPath,
    [
      ...['--import', TURNS, '--import', PEAK, built('cli/main.js'), 'generate', '--model', TINY_MODEL],
      ...[
        '--cpu-memory',
        String(CAP),
        '--max-new-tokens',
        '2',
        '--ignore-eos',
        '--policy',
        'default',
        '--learn',
        'off',
      ],
      ...args,
    ],
    { stdio: 'pipe', env: { ...process.env, SPILLWAY_TURNS: turns } },
  );
  const { code, stderr } = await resultOf(child);
  const { longestTurnMs } = JSON.parse(readFileSync(turns, 'utf8')) as { longestTurnMs: number };
  const peakBytes = Number(/^peak (\d+)$/m.exec(stderr)?.[1]) * 1024;
  expect(peakBytes).toBeLessThan(CAP + 32 * MIB);
  expect(longestTurnMs).toBeLessThan(TURN_MILLISECONDS);
  return { code, stderr };
}

const row = (id: number, more = ''): string => `{"id":${id},"tokens":[1,${3 + (id % 250)}]${more}}`;
const of = (count: number, item: (at: number) => string): string =>
  Array.from({ length: count }, (_, at) => item(at)).join();

const LARGE: readonly (readonly [string, string])[] = [
  [`[${of(2_000_000, () => '{}')}]`, 'limit'],
  [`[${of(2_500_000, () => '[]')}]`, 'limit'],
  [`{${of(500_000, (at) => `"k${at}":1`)}}`, 'limit'],
  [`[${of(400_000, (at) => `{"k${at}":${at}}`)}]`, 'limit'],
  [`[${of(600_000, (at) => `"s${at}"`)}]`, 'limit'],
  [`[${of(600_000, (at) => `${at}.5`)}]`, 'limit'],
  [`${'['.repeat(3_000_000)}${']'.repeat(3_000_000)}`, 'limit'],
  [`"${'x'.repeat(60 * MIB)}"`, 'too-long'],
];

test('a row of millions of values is an error, wherever it stands, and those behind it are answered', async () => {
  const [input, output] = [path('large.jsonl'), path('large.out.jsonl')];
  const lines = LARGE.flatMap(([json], at) => [
    // A line has a name of its own for each kind, and keys before it.
    `{"id":"large-${at}","tokens":[7],"note":${json}}`,
    ...Array.from({ length: 5 }, (_, other) => row(10 * at + other)),
  ]);
  writeFileSync(input, `${lines.join('\n')}\n`);
  const { code, stderr } = await generate('--input', input, '--output', output, '--carry-fields');
  expect({ code, stderr }).toEqual({ code: 4, stderr: expect.stringContaining(`(${LARGE.length} with an error)`) });
  const results = readResults(output);
  expect(results.map(({ index }) => index)).toEqual([...lines.keys()]);
  expect(results.filter(({ error }) => error).map(({ error }) => error?.code)).toEqual(LARGE.map(([, code]) => code));
});

test('texts of megabytes and lists of a hundred thousand numbers are carried, in bounded memory', async () => {
  const [input, output] = [path('carried.jsonl'), path('carried.out.jsonl')];
  const note = `,"note":"${'what is so is so, '.repeat(300_000)}"`;
  const vector = `,"vector":[${of(100_000, (at) => String(at % 10))}]`;
  const lines = [row(1, note), ...Array.from({ length: 150 }, (_, at) => row(2 + at, vector)), row(502, note)];
  writeFileSync(input, `${lines.join('\n')}\n`);
  const { code } = await generate('--input', input, '--output', output, '--carry-fields');
  expect(code).toBe(0);
  const written = readFileSync(output, 'latin1');
  expect(written.split('\n')).toHaveLength(lines.length + 1);
  // All of what they carry is there.
  expect(written.length).toBeGreaterThan(150 * 200_000 + 2 * 5 * MIB - 2 ** 16);
});

test('a template that would be too long with the values of a row is the error of that row', async () => {
  const [input, output] = [path('templated.jsonl'), path('templated.out.jsonl')];
  writeFileSync(input, `{"id":1,"c":"${'x'.repeat(7 * MIB)}"}\n{"id":2}\n`);
  const template = '{{c}} '.repeat(500);
  const { code } = await generate('--input', input, '--output', output, '--prompt-template', template);
  expect(code).toBe(4);
  expect(readResults(output).map(({ error }) => error?.code)).toEqual(['too-long', 'missing-field']);
});

test('an output with a line that nobody of ours wrote is refused, and not read', async () => {
  const [input, output] = [path('in.jsonl'), path('out.jsonl')];
  writeFileSync(input, `${row(1)}\n${row(2)}\n`);
  await generate('--input', input, '--output', output);
  const begin = '{"id":1,"index":0,"text":"","finishReason":"stop","usage":{},"x":[';
  for (const json of [of(4_000_000, () => '{}'), '0,'.repeat(15 * MIB)]) {
    writeFileSync(output, `${begin}${json}]}\n`);
    const { code, stderr } = await generate('--input', input, '--output', output, '--resume');
    expect({ code, stderr }).toEqual({
      code: 2,
      stderr: expect.stringContaining('line 1: found a line of more than 24 MiB'),
    });
  }
});
