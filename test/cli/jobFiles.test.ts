import { createSocket } from 'node:dgram';
import { execFileSync, spawn, spawnSync, type ChildProcess } from 'node:child_process';
import {
  appendFileSync,
  chmodSync,
  closeSync,
  existsSync,
  mkdirSync,
  openSync,
  readdirSync,
  readFileSync,
  readlinkSync,
  statSync,
  symlinkSync,
  truncateSync,
  utimesSync,
  writeFileSync,
  writeSync,
} from 'node:fs';
import { describe, expect, test } from '@jest/globals';
import { built } from '../jobs/support/built.js';
import { byIndex, readResults, temporaryFolder, writeLines } from '../jobs/support/files.js';
import {
  resultOf,
  runCli,
  startCli,
  tinyModelWithTokenizer,
  TINY_MODEL,
  until,
  withFlags,
  type CliResult,
} from './support.js';

const path = temporaryFolder();
/** Against hanging for ever. */
const PATIENCE_MILLISECONDS = 570_000;
let names = 0;

function flags(count: number): { input: string; output: string; args: string[] } {
  names += 1;
  const [input, output] = [path(`in-${names}.jsonl`), path(`out-${names}.jsonl`)];
  writeLines(
    input,
    Array.from({ length: count }, (_, at) => ({ id: `row-${at}`, tokens: [1, 3 + (at % 250), 7] })),
  );
  return {
    input,
    output,
    args: [
      'generate',
      '--model',
      TINY_MODEL,
      '--input',
      input,
      '--output',
      output,
      '--max-new-tokens',
      '4',
      '--ignore-eos',
    ],
  };
}

/** The same with other paths. */
const withPaths = (args: readonly string[], paths: Readonly<Record<string, string>>): string[] =>
  withFlags(args, ...Object.entries(paths).flatMap(([flag, file]) => [`--${flag}`, file]));

function fifo(): string {
  names += 1;
  const file = path(`fifo-${names}`);
  execFileSync('mkfifo', [file]);
  return file;
}

function socket(file: string): void {
  spawnSync(
    process.execPath,
    [
      '-e',
      'require("node:net").createServer().listen(process.argv[1], () => process.kill(process.pid, "SIGKILL"))',
      file,
    ],
    { stdio: 'ignore' },
  );
}

const sizeOf = (file: string): number => (existsSync(file) ? statSync(file).size : 0);

/** What a process comes to; killed when it does not end by itself. */
async function endOf(child: ChildProcess): Promise<CliResult> {
  const timer = setTimeout(() => child.kill('SIGKILL'), PATIENCE_MILLISECONDS);
  return resultOf(child).finally(() => clearTimeout(timer));
}

/** What a process has open. */
function opened({ pid }: ChildProcess): string[] {
  const folder = `/proc/${pid}/fd`;
  return readdirSync(folder).map((name) => {
    try {
      return readlinkSync(`${folder}/${name}`);
    } catch {
      return '';
    }
  });
}

describe('an input that changes during a run: exit 2, what is finished is intact, and --resume goes on when the input is restored', () => {
  test.each([
    [
      'appended to',
      'input',
      (input: string) => appendFileSync(input, '{"tokens":[1,5]}\n'),
      /in-\d+\.jsonl: the input grew during the run: found \d+ bytes, expected the \d+ bytes \(400 rows\)/,
    ],
    [
      'cut short',
      'completion',
      (input: string) => truncateSync(input, 3000),
      /in-\d+\.jsonl: the input shrank during the run: found 3000 bytes, expected the \d+ bytes \(400 rows\)/,
    ],
    [
      'rewritten',
      'input',
      (input: string) => writeFileSync(input, readFileSync(input, 'utf8').replaceAll(',7]', ',8]')),
      /in-\d+\.jsonl: the input changed during the run: found other bytes after byte 0, expected the/,
    ],
  ] as const)('%s, in order of %s', async (how, order, change, message) => {
    const { input, output, args } = flags(400);
    const all = withFlags(args, '--max-new-tokens', '100', '--batch-size', '4', '--order', order);
    const original = readFileSync(input);
    const child = startCli(all);
    const ended = endOf(child);
    await until(() => sizeOf(output) > 0 || child.exitCode !== null);
    child.kill('SIGSTOP');
    change(input);
    child.kill('SIGCONT');
    const { code, stderr } = await ended;
    expect({ code, stderr }).toEqual({ code: 2, stderr: expect.stringMatching(message) });
    const done = readResults(output);
    expect(done.length).toBeGreaterThan(0);

    // One that has only got more rows is gone on with as it is, too.
    if (how !== 'appended to') {
      expect(await runCli([...all, '--resume'])).toMatchObject({
        code: 1,
        stderr: expect.stringContaining('differs from the one that began it in the input'),
      });
    }
    writeFileSync(input, original);
    expect(await runCli([...all, '--resume'])).toMatchObject({ code: 0 });
    const results = byIndex(readResults(output));
    expect(results.map(({ id }) => id)).toEqual(Array.from({ length: 400 }, (_, at) => `row-${at}`));
    expect(results.filter(({ index }) => done.some((before) => before.index === index))).toEqual(byIndex(done));
  });

  test.each([
    [
      'a byte overwritten behind the same time of modification',
      2,
      (file: string): void => {
        const descriptor = openSync(file, 'r+');
        writeSync(descriptor, '9', readFileSync(file, 'utf8').indexOf('7]'));
        closeSync(descriptor);
      },
    ],
    ['another mode', 0, (file: string): void => chmodSync(file, 0o600)],
  ] as const)('standard input that comes from a file: %s is exit %d', async (_, code, change) => {
    const { input: file, output, args } = flags(24_000);
    utimesSync(file, 1_600_000_000, 1_600_000_000);
    const shell = [
      '-c',
      `exec "$0" "$@" < ${file}`,
      process.execPath,
      built('cli/main.js'),
      ...withPaths(args, { input: '-', 'max-new-tokens': '1' }),
    ];
    const child = spawn('sh', shell, { stdio: 'pipe' });
    const ended = endOf(child);
    // By then the first rows have been read, and the last ones have not.
    await until(() => sizeOf(output) > 0 || child.exitCode !== null);
    child.kill('SIGSTOP');
    change(file);
    utimesSync(file, 1_600_000_000, 1_600_000_000);
    child.kill('SIGCONT');
    const { stderr, ...end } = await ended;
    expect({ code: end.code, stderr }).toEqual({
      code,
      stderr:
        code === 0
          ? expect.not.stringContaining('during the run')
          : expect.stringMatching(/standard input: the input changed during the run: found other bytes in it/),
    });
  });

  test.each(['-', '/dev/stdin'])(
    'standard input that comes from a file, as %s: cut short behind a line',
    async (input) => {
      const { input: file, output, args } = flags(24_000);
      const end = readFileSync(file).lastIndexOf(0x0a, 70_000) + 1;
      const shell = [
        '-c',
        `exec "$0" "$@" < ${file}`,
        process.execPath,
        built('cli/main.js'),
        ...withPaths(args, { input, 'max-new-tokens': '1' }),
      ];
      const child = spawn('sh', shell, { stdio: 'pipe' });
      const ended = endOf(child);
      await until(() => sizeOf(output) > 0 || child.exitCode !== null);
      truncateSync(file, end);
      const { code, stderr } = await ended;
      expect({ code, stderr }).toEqual({
        code: 2,
        stderr: expect.stringMatching(
          /(standard input|stdin): the input shrank during the run: found \d+ bytes, expected the \d+ bytes/,
        ),
      });
    },
  );
});

describe('waiting for somebody else at a FIFO', () => {
  test.each([
    ['SIGINT', 130],
    ['SIGTERM', 143],
  ] as const)(
    '%s ends it: an input that nobody writes to, an output that nobody reads, or that nobody goes on reading',
    async (signal, code) => {
      const ends: Promise<CliResult>[] = [];
      const interrupted = (args: readonly string[], ready: (trace: string) => boolean): void => {
        const trace = path(`trace-${(names += 1)}`);
        const child = startCli([...args, '--trace', trace]);
        ends.push(endOf(child));
        // The trace is begun right before the run.
        void until(() => (sizeOf(trace) > 0 && ready(trace)) || child.exitCode !== null).then(() => child.kill(signal));
      };
      const { args } = flags(20);
      interrupted(withPaths(args, { input: fifo() }), () => true);
      interrupted(withPaths(args, { output: fifo() }), () => true);
      // More than a pipe holds, and tasks of the run in the trace: rows that are equal would be one.
      const stalled = fifo();
      const reader = spawn('sh', ['-c', 'exec 3<"$1"; read line <&3; exec sleep 600', 'sh', stalled], {
        stdio: 'ignore',
      });
      interrupted(
        [...withPaths(flags(4000).args, { output: stalled }), '--share-prefixes', 'off'],
        (trace) => sizeOf(trace) > 300_000,
      );
      for (const end of ends) expect(await end).toMatchObject({ code, stderr: expect.stringContaining('stopping') });
      reader.kill();
    },
  );

  test('an input of another command', async () => {
    const text = fifo();
    const child = startCli([
      'perplexity',
      '--model',
      tinyModelWithTokenizer(path('text')),
      '--text',
      text,
      '--window',
      '8',
    ]);
    const ended = endOf(child);
    await until(() => child.exitCode !== null || opened(child).includes(text));
    child.kill('SIGINT');
    expect(await ended).toMatchObject({ code: 130 });
  });

  test('a writer and a reader that come late are served, as are substituted processes', async () => {
    const [from, to] = [fifo(), fifo()];
    const { input, args } = flags(20);
    const late = endOf(startCli(withPaths(args, { input: from, output: to })));
    const feed = openSync(from, 'w');
    writeSync(feed, readFileSync(input));
    closeSync(feed);
    const lines = readFileSync(to, 'utf8').split('\n');
    expect(await late).toMatchObject({ code: 0 });
    expect(lines).toHaveLength(21);
    const command = '"$0" "$@" --input <(cat "$INPUT") --output >(wc -l >"$COUNT")';
    const shell = spawn(
      'bash',
      ['-c', command, process.execPath, built('cli/main.js'), ...args.slice(0, 3), '--max-new-tokens', '2'],
      { env: { ...process.env, INPUT: input, COUNT: path('count') } },
    );
    expect(await endOf(shell)).toMatchObject({ code: 0 });
    await until(() => sizeOf(path('count')) > 0);
    expect(readFileSync(path('count'), 'utf8').trim()).toBe('20');
  });

  test('devices and descriptors: /dev/null, /dev/stdin, /dev/stdout, /dev/fd', async () => {
    const { input, args } = flags(20);
    const rows = readFileSync(input, 'utf8');
    // Through real pipes: what Node connects processes with are sockets.
    const piped = async (paths: Readonly<Record<string, string>>): Promise<CliResult> => {
      const shell = spawn(
        'bash',
        [
          '-c',
          'set -o pipefail; cat | "$0" "$@" | cat',
          process.execPath,
          built('cli/main.js'),
          ...withPaths(args, paths),
        ],
        { stdio: 'pipe' },
      );
      shell.stdin.end(rows);
      return endOf(shell);
    };
    const named = await piped({ input: '/dev/stdin', output: '/dev/stdout' });
    expect(named).toMatchObject({ code: 0 });
    expect(named.stdout.split('\n')).toHaveLength(21);
    expect(await piped({ input: '/dev/fd/0', output: '/dev/null' })).toMatchObject({
      code: 0,
      stdout: '',
      stderr: expect.stringContaining('20 rows'),
    });
    expect(await runCli(withPaths(args, { input: '/dev/null', output: path('nothing.jsonl') }))).toMatchObject({
      code: 0,
    });
    expect(readResults(path('nothing.jsonl'))).toEqual([]);
  });
});

describe('what is no file where a file is written', () => {
  test.each(['FIFO', 'folder', 'socket'])(
    'a %s as lock, record, temporary file, statistics or trace is refused, before anything is done',
    async (kind) => {
      const make = (file: string): void => {
        if (kind === 'FIFO') execFileSync('mkfifo', [file]);
        else if (kind === 'folder') mkdirSync(file);
        else socket(file);
      };
      const attempts = ['.lock', '.job.json', '.retry.tmp', '.stats', '.trace'].map(async (suffix) => {
        const { output, args } = flags(2);
        make(`${output}${suffix}`);
        const report = suffix === '.stats' || suffix === '.trace' ? { [suffix.slice(1)]: `${output}${suffix}` } : {};
        const { code, stderr } = await endOf(startCli(withPaths(args, report)));
        expect({ code, stderr }).toEqual({ code: 2, stderr: expect.stringContaining(`${output}${suffix}: `) });
        expect(stderr).toMatch(new RegExp(`(found|it is) a ${kind}, expected`));
        expect(existsSync(output)).toBe(false);
      });
      await Promise.all(attempts);
    },
  );

  test('statistics and traces for which there is no folder, no permission or no room are refused, before anything is done', async () => {
    const { output, args } = flags(2);
    // Not even the superuser makes a file there.
    for (const [report, file] of [
      ['stats', '/proc/stats.json'],
      ['trace', '/proc/trace.json'],
      ['stats', path('none/stats.json')],
      ['trace', path('none/trace.json')],
      ['trace', '/dev/full'],
    ] as const) {
      expect(await runCli(withPaths(args, { [report]: file }))).toMatchObject({
        code: 2,
        stderr: expect.stringContaining(`error: ${file}: cannot be written: `),
      });
      expect(existsSync(output)).toBe(false);
    }
  });
});

describe('standard output', () => {
  const closed = (args: readonly string[]): Promise<CliResult> =>
    endOf(
      spawn('sh', ['-c', 'exec "$0" "$@" >&-', process.execPath, built('cli/main.js'), ...args], {
        stdio: ['ignore', 'pipe', 'pipe'],
      }),
    );

  (existsSync('/proc/self/fdinfo') ? test : test.skip)(
    'closed from the start: results would be lost, so none is made',
    async () => {
      const { args } = flags(3);
      const message = 'error: standard output: cannot be written: found it closed';
      expect(await closed(withPaths(args, { output: '-' }))).toMatchObject({
        code: 2,
        stderr: expect.stringContaining(message),
      });
      expect(await closed(['tokenize', '--model', tinyModelWithTokenizer(path('closed'))])).toMatchObject({
        code: 2,
        stderr: expect.stringContaining(message),
      });
      const onlyThere = [
        ['inspect', '--model', TINY_MODEL],
        ['bench', '--model', TINY_MODEL],
        ['pull', '--list'],
        ['perplexity', '--model', TINY_MODEL, '--text', TINY_MODEL, '--window', '8'],
        ['plan', '--model', 'opt-30b', '--hardware', 'flexgen-t4', '--prompt-tokens', '8'],
      ];
      for (const command of onlyThere)
        expect({ command, ...(await closed(command)) }).toMatchObject({
          command,
          code: 2,
          stderr: expect.stringContaining(message),
        });
      // Where nothing goes there, it is no matter.
      expect(await closed(args)).toMatchObject({ code: 0 });
    },
  );

  test.each(['/dev/stdout', '/dev/fd/1', '/proc/self/fd/1', 'link'])(
    'that goes into a file, as %s: written behind what is there, and the file stays',
    async (name) => {
      const { args } = flags(3);
      const [file, output] = [path(`redirected-${(names += 1)}`), name === 'link' ? path(`link-${names}`) : name];
      if (name === 'link') symlinkSync('/dev/stdout', output);
      const script = '{ echo before; "$0" "$@" --overwrite; echo after; } >"$FILE"';
      const shell = spawn(
        'sh',
        [
          '-c',
          script,
          process.execPath,
          built('cli/main.js'),
          ...withPaths(args, { output }),
          '--output-format',
          'csv',
        ],
        { stdio: 'pipe', env: { ...process.env, FILE: file } },
      );
      expect(await endOf(shell)).toMatchObject({ code: 0 });
      const lines = readFileSync(file, 'utf8').split('\n');
      expect([lines[0], lines[1]?.slice(0, 8), lines.length, lines.at(-2)]).toEqual(['before', 'id,text,', 7, 'after']);
      expect(readdirSync(path('.')).filter((each) => each.startsWith(`redirected-${names}`))).toEqual([
        `redirected-${names}`,
      ]);
    },
  );

  test('thrown away on purpose', async () => {
    const { args } = flags(3);
    const shell = spawn(
      'sh',
      ['-c', 'exec "$0" "$@" >/dev/null', process.execPath, built('cli/main.js'), ...withPaths(args, { output: '-' })],
      { stdio: 'pipe' },
    );
    expect(await endOf(shell)).toMatchObject({ code: 0 });
  });
});

describe('standard input', () => {
  const model = (): string => tinyModelWithTokenizer(path('reads'));
  /** Of `generate` and of `tokenize`. */
  const ends = async (stdin: (args: readonly string[]) => ChildProcess): Promise<CliResult[]> => {
    const { args } = flags(1);
    return Promise.all([endOf(stdin(withPaths(args, { input: '-' }))), endOf(stdin(['tokenize', '--model', model()]))]);
  };
  const shell =
    (redirection: string) =>
    (args: readonly string[]): ChildProcess =>
      spawn('sh', ['-c', `exec "$0" "$@" ${redirection}`, process.execPath, built('cli/main.js'), ...args], {
        stdio: ['ignore', 'pipe', 'pipe'],
      });

  test('a folder, a socket of datagrams: an error, not a job of no rows', async () => {
    for (const end of await ends(shell('</tmp')))
      expect(end).toMatchObject({ code: 2, stderr: expect.stringContaining('found a folder, expected') });
    const datagrams = createSocket('udp4');
    await new Promise<void>((resolve) => datagrams.bind(0, '127.0.0.1', resolve));
    const { fd } = (datagrams as unknown as { _handle: { fd: number } })._handle;
    for (const end of await ends((args) =>
      spawn(process.execPath, [built('cli/main.js'), ...args], { stdio: [fd, 'pipe', 'pipe'] }),
    )) {
      expect(end).toMatchObject({ code: 2, stderr: expect.stringContaining('found a socket of datagrams, expected') });
    }
    datagrams.close();
  });

  test('of nothing, on purpose, there is no row', async () => {
    for (const end of await ends(shell('</dev/null')))
      expect(end).toMatchObject({ code: 0, stderr: expect.not.stringContaining('standard input') });
  });

  (existsSync('/proc/self/fdinfo') ? test : test.skip)(
    '/dev/null open for reading and writing, as Python gives it, or closed: likewise, with a word',
    async () => {
      for (const redirection of ['<>/dev/null', '<&-']) {
        for (const end of await ends(shell(redirection)))
          expect(end).toMatchObject({
            code: 0,
            stderr: expect.stringContaining('standard input is closed or /dev/null: there are no rows'),
          });
      }
    },
  );
});

test('what a killed run leaves beside its output is gone after the next one', async () => {
  const { output, args } = flags(20);
  const script = `
    const { acquireFileLock } = await import(process.argv[1]);
    const { temporaryPath } = await import(process.argv[2]);
    const { writeFileSync } = await import('node:fs');
    const output = process.argv[3];
    acquireFileLock(output + '.lock', output);
    for (const place of ['.lock', '.job.json', '.stats']) writeFileSync(temporaryPath(output + place), '{');
    writeFileSync(output + '.retry.tmp', '{"id":1');
    process.kill(process.pid, 'SIGKILL');`;
  const killed = spawn(
    process.execPath,
    ['--input-type=module', '-e', script, built('files/fileLock.js'), built('files/temporaryFiles.js'), output],
    { stdio: 'pipe' },
  );
  expect(await resultOf(killed)).toMatchObject({ code: 137, stderr: '' });
  const beside = (): string[] => readdirSync(path('.')).filter((name) => path(name).startsWith(output));
  expect(beside()).toHaveLength(5);
  writeFileSync(`${output}.4711-mine.tmp`, 'of somebody else');
  expect(await runCli(withPaths(args, { stats: `${output}.stats` }))).toMatchObject({ code: 0 });
  expect(
    beside()
      .map((name) => name.slice(name.indexOf('.jsonl')))
      .sort(),
  ).toEqual(['.jsonl', '.jsonl.4711-mine.tmp', '.jsonl.job.json', '.jsonl.stats']);
});
