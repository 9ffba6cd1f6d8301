import { spawnSync } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import { describe, expect, test } from '@jest/globals';
import { built } from '../jobs/support/built.js';
import { readResults, temporaryFolder, writeLines } from '../jobs/support/files.js';
import { TINY_MODEL } from './support.js';

interface Seen {
  readonly code: number;
  readonly text: string;
  readonly lines: readonly string[];
}

const PROGRAM = fileURLToPath(new URL('./terminal.py', import.meta.url));
const path = temporaryFolder();

/**
 * The command line on a terminal of so many columns. @param interruptAfter Ctrl-C is typed when this has been written
 */
function onTerminal(columns: number, args: readonly string[], interruptAfter = ''): Seen {
  const { stdout, stderr } = spawnSync(
    'python3',
    [PROGRAM, String(columns), interruptAfter, process.execPath, built('cli/main.js'), ...args],
    { encoding: 'utf8', timeout: 570_000 },
  );
  if (stdout === '') throw new Error(stderr);
  return JSON.parse(stdout) as Seen;
}

describe('a run on a terminal of 80 columns', () => {
  const input = path('in.jsonl');
  writeLines(
    input,
    Array.from({ length: 6000 }, (_, at) => ({ tokens: [1, 5 + (at % 200), 7 + (at % 31)] })),
  );
  const output = path('out.jsonl');
  const args = [
    'generate',
    '--model',
    TINY_MODEL,
    '--input',
    input,
    '--output',
    output,
    '--max-new-tokens',
    '30',
    '--ignore-eos',
    '--batch-size',
    '8',
    '--policy',
    'default',
  ];

  test('Ctrl-C leaves two lines that stay, and nothing else; --resume goes on', () => {
    const interrupted = onTerminal(80, args, '/6000 | 0:');
    expect(interrupted.code).toBe(130);
    const done = readResults(output).length;
    expect(done).toBeGreaterThan(0);
    const shown = interrupted.lines.join('');
    expect(shown).toContain('stopping (again to stop at once)');
    expect(shown).toContain(`${done} of 6000 rows in ${output}; go on with --resume`);
    expect(shown).not.toMatch(/[█░]|tokens\/s|\^C/);
    // The cursor is there, and long lines are wrapped again.
    expect(interrupted.text.lastIndexOf('\u001b[?25h')).toBeGreaterThan(interrupted.text.lastIndexOf('\u001b[?25l'));
    expect(interrupted.text.lastIndexOf('\u001b[?7h')).toBeGreaterThan(interrupted.text.lastIndexOf('\u001b[?7l'));
    const resumed = onTerminal(80, [...args, '--resume']);
    expect(resumed).toMatchObject({ code: 0 });
    expect(resumed.text).toMatch(/rows .*\/6000 \| /);
    expect(resumed.lines.join('')).toMatch(/^\d+ rows, \d+ from before/);
    expect(resumed.lines.join('')).not.toMatch(/[█░]/);
    expect(readResults(output)).toHaveLength(6000);
  });
});

describe('help on a terminal', () => {
  test.each([
    '',
    'generate',
    'tokenize',
    'perplexity',
    'profile',
    'plan',
    'bench',
    'inspect',
    'pull',
    'models',
    'doctor',
  ])('%s fits into 80 columns, with whole words', (command) => {
    const { code, text } = onTerminal(80, [...(command === '' ? [] : [command]), '-h']);
    expect(code).toBe(0);
    const long = text
      .replaceAll('\r', '')
      .split('\n')
      .filter((line) => line.length > 80);
    expect(long).toEqual([]);
  });
});
