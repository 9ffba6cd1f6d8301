import { spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { readdirSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { describe, expect, test } from '@jest/globals';
import { runCli, TINY_MODEL, tinyModelWithTokenizer } from '../cli/support.js';
import { built } from '../jobs/support/built.js';
import { readResults, temporaryFolder, writeLines } from '../jobs/support/files.js';

const path = temporaryFolder();
const EXAMPLES = fileURLToPath(new URL('../../examples/cluster/', import.meta.url));
const PROGRAM = fileURLToPath(new URL('./clusterRows.py', import.meta.url));
const CACHE = { XDG_CACHE_HOME: path('cache') };
const ENVIRONMENT = { ...process.env, ...CACHE, PYTHONPATH: EXAMPLES, PYTHONDONTWRITEBYTECODE: '1' };
const runs = (program: string): boolean => spawnSync(program, ['--version']).status === 0;
/** Python 3 is what the examples are for: without it nothing of them can be tried. */
const testPython = runs('python3') ? test : test.skip;
const testTied = runs('python3') && runs('setpriv') ? test : test.skip;

const commandOf = (model: string, ...flags: readonly string[]): string[] => [
  ...[process.execPath, built('cli/main.js'), 'generate', '--model', model],
  ...['--max-new-tokens', '4', '--ignore-eos', '--threads', '1', '--policy', 'default', '--carry-fields', ...flags],
];

/** What a program of clusterRows.py prints, and says. */
function python(name: string, command: readonly string[], file = ''): { found: unknown; said: string } {
  const { stdout, stderr } = spawnSync('python3', [PROGRAM, name, JSON.stringify(command), file], {
    encoding: 'utf8',
    timeout: 570_000,
    maxBuffer: 2 ** 26,
    env: ENVIRONMENT,
  });
  if (stdout === '') throw new Error(stderr);
  return { found: JSON.parse(stdout), said: stderr };
}

describe('rows through a process of spillway, from Python', () => {
  testPython('the examples are programs of Python', () => {
    const names = readdirSync(EXAMPLES).filter((name) => name.endsWith('.py'));
    expect(names.sort()).toEqual(['ray_data.py', 'spark.py', 'spillway_rows.py']);
    const parse = 'import ast, sys\nfor name in sys.argv[1:]: ast.parse(open(name, encoding="utf-8").read(), name)';
    const { status, stderr } = spawnSync('python3', ['-c', parse, ...names.map((name) => `${EXAMPLES}${name}`)], {
      encoding: 'utf8',
    });
    expect({ status, stderr }).toEqual({ status: 0, stderr: '' });
  });

  testPython(
    'results are those of the command line, rows with an error among them, of more than pipes hold',
    async () => {
      const model = tinyModelWithTokenizer(path('model'));
      const texts = [
        'plain',
        'grüße 日本 🚀',
        'a "quote"\tand\nlines\r\n',
        '\u2028\u0000\\n',
        null,
        '',
        'long '.repeat(100),
      ];
      const [input, output] = [path('in.jsonl'), path('out.jsonl')];
      writeLines(
        input,
        Array.from({ length: 700 }, (_, at) => ({ prompt: texts[at % 7], pad: `${at} ${'日'.repeat(500)}` })),
      );
      const [, , ...flags] = commandOf(model);
      const { code } = await runCli([...flags, '--input', input, '--output', output], '', CACHE);
      expect(code).toBe(4);
      const { found } = python('whole', commandOf(model), input);
      const expected = readResults(output);
      expect(expected.filter(({ error }) => error !== undefined).length).toBeGreaterThanOrEqual(200);
      expect(found).toEqual({ done: expected });
    },
  );

  testPython('threads that ask at once have the results of their own rows, in order', () => {
    const { found } = python('threads', commandOf(TINY_MODEL));
    const rowsOf = (name: number): unknown[] =>
      Array.from({ length: 100 }, (_, at) => [name, Math.floor(at / 20), at % 20]);
    expect(found).toEqual({ done: Object.fromEntries([0, 1, 2, 3].map((name) => [name, rowsOf(name)])) });
  });

  testPython('of a source without end so much is taken as the process takes; leaving it ends the process', () => {
    const { found } = python('read_ahead', commandOf(TINY_MODEL, '--look-ahead-rows', '8'));
    const { done } = found as { done: { taken: number; code: number } };
    expect(done.code).toBe(-9);
    expect(done.taken).toBeGreaterThan(8);
    // Of a kilobyte each: what pipes and streams of both ends hold.
    expect(done.taken).toBeLessThan(2000);
  });

  testPython.each([
    ['an unknown flag', 'whole', ['--max-new-tokenz', '3'], 'SpillwayFailed', 'ended with exit code 1, row 0 had no'],
    [
      'samples',
      'whole',
      ['--samples', '2'],
      'SpillwayFailed',
      'found a result of row 0, expected that of row 1: --samples',
    ],
    [
      'rows that may not fail',
      'whole',
      ['--max-errors', '0'],
      'SpillwayFailed',
      // The last row may have been answered by then, or not.
      'ended with exit code 5, ',
    ],
    ['a kill', 'killed', [], 'SpillwayKilled', 'was ended by SIGKILL, row'],
    ['being told to end', 'ended', [], 'SpillwayKilled', 'was ended by SIGTERM, row'],
    ['a source that breaks off', 'broken_source', [], 'BrokenPipeError', 'the source broke off'],
  ])('%s is an error that says so', (_, name, flags, error, message) => {
    const input = path('few.jsonl');
    writeLines(input, [{ tokens: [1, 5] }, { tokens: [1, 999] }, { tokens: [1, 6] }]);
    const { found, said } = python(name, commandOf(TINY_MODEL, ...flags), input);
    expect(found).toEqual({ error, message: expect.stringContaining(message) });
    // What the process said stands in the error, and where the worker's own words go.
    const words = /error: unknown option .*/.exec(said)?.[0];
    if (words !== undefined) expect((found as { message: string }).message).toContain(words);
    expect(words !== undefined).toBe(flags[0] === '--max-new-tokenz');
  });

  testTied('a worker that is killed leaves no process', async () => {
    const child = spawn('python3', [PROGRAM, 'orphan', JSON.stringify(commandOf(TINY_MODEL))], { env: ENVIRONMENT });
    const [line] = (await once(child.stdout, 'data')) as [Buffer];
    const pid = Number(line.toString());
    expect(process.kill(pid, 0)).toBe(true);
    child.kill('SIGKILL');
    await once(child, 'close');
    // One that stays is ended by nobody: then this does not end.
    while (isThere(pid)) await new Promise((resolve) => setTimeout(resolve, 20));
  });
});

function isThere(pid: number): boolean {
  try {
    return process.kill(pid, 0);
  } catch {
    return false;
  }
}
