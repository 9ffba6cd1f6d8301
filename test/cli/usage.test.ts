import { spawn } from 'node:child_process';
import {
  cpSync,
  existsSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, describe, expect, test } from '@jest/globals';
import { built } from '../jobs/support/built.js';
import { temporaryFolder, writeLines } from '../jobs/support/files.js';
import { runHere } from './runHere.js';
import { resultOf, TINY_MODEL, withFlags } from './support.js';

const path = temporaryFolder();
const input = path('in.jsonl');
writeLines(input, [{ tokens: [1, 5] }]);
const generate = (...more: string[]): string[] => [
  'generate',
  '--model',
  TINY_MODEL,
  '--input',
  input,
  '--output',
  path('out.jsonl'),
  ...more,
];

/** Refused as wrong usage, with nothing on stdout and nothing made. */
async function refused(args: string[]): Promise<string> {
  const { code, stdout, stderr } = await runHere(args);
  expect({ code, stdout }).toEqual({ code: 1, stdout: '' });
  expect(readdirSync(path('.'))).toEqual(['in.jsonl']);
  return stderr;
}

describe('--help', () => {
  test('names every flag of the contract, each with a default', async () => {
    const { code, stdout } = await runHere(['generate', '--help']);
    expect(code).toBe(0);
    const flags = [
      'model',
      'input',
      'output',
      'input-format',
      'max-new-tokens',
      'temperature',
      'top-p',
      'top-k',
      'min-p',
      'repetition-penalty',
      'seed',
      'stop',
      'ignore-eos',
      'logprobs',
      'escape-special-tokens',
      'precision',
      'gpu-memory',
      'gpu-products',
      'cpu-memory',
      'disk',
      'disk-memory',
      'policy',
      'hardware',
      'schedule',
      'batch-size',
      'batches',
      'compress-weights',
      'compress-cache',
      'sparse-attention',
      'overlap',
      'learn',
      'threads',
      'device',
      'resume',
      'order',
      'stats',
      'trace',
      'progress',
      'carry-fields',
      'retry-errors',
      'overwrite',
      'output-format',
      'columns',
      'result-columns',
      'delimiter',
      'errors',
      'max-errors',
      'row-timeout',
      'database',
      'prompt-template',
      'system',
      'chat',
      'template-args',
      'tools',
      'reasoning',
    ];
    const entries = stdout.split(/^ {2}(?=--)/m).slice(1);
    for (const flag of flags) {
      const entry = entries.find((text) => text.startsWith(`--${flag} `));
      expect({ flag, documented: entry !== undefined && /default:|necessary/s.test(entry) }).toEqual({
        flag,
        documented: true,
      });
    }
  });

  test.each(['tokenize', 'perplexity', 'inspect', 'pull'])('%s has help', async (command) => {
    const { code, stdout, stderr } = await runHere([command, '--help']);
    expect({ code, stderr }).toEqual({ code: 0, stderr: '' });
    expect(stdout).toContain(`Usage: spillway ${command}`);
  });

  (existsSync('/dev/full') ? test : test.skip)('help and version that cannot be written are exit 2', async () => {
    for (const flags of [['--help'], ['--version'], ['generate', '--help']]) {
      const child = spawn('sh', ['-c', 'exec "$0" "$@" >/dev/full', process.execPath, built('cli/main.js'), ...flags], {
        stdio: 'pipe',
      });
      expect(await resultOf(child)).toMatchObject({
        code: 2,
        stderr: expect.stringContaining('error: standard output: cannot be written: no space left on the device'),
      });
    }
  });

  test('the commands, the exit codes, the version', async () => {
    const { stdout } = await runHere(['--help']);
    for (const word of ['generate', 'tokenize', 'perplexity', 'inspect', 'pull', 'Exit codes: 0'])
      expect(stdout).toContain(word);
    expect((await runHere(['--version'])).stdout).toMatch(/^\d+\.\d+\.\d+\n$/);
  });
});

describe('wrong usage: exit 1, and nothing is read or written', () => {
  test('no command, an unknown one, an unknown flag: with a suggestion', async () => {
    expect(await refused([])).toContain('Usage: spillway');
    expect(await refused(['genrate'])).toContain('Did you mean generate?');
    expect(await refused(generate('--max-new-token', '3'))).toContain('Did you mean --max-new-tokens?');
    // As other tools call it.
    for (const flag of ['--max-tokens', '--max-token', '--n-predict', '--num-predict', '--max_tokens'])
      expect(await refused(generate(flag, '3'))).toContain('Did you mean --max-new-tokens?');
    expect(await refused(generate('--temprature', '1'))).toContain('Did you mean --temperature?');
    expect(await refused(['generate', '--modle', 'x'])).toContain('Did you mean --model?');
    expect(await refused(generate('extra'))).toContain('too many arguments');
  });

  test('what is missing', async () => {
    expect(await refused(['generate', '--model', TINY_MODEL])).toContain('missing: --input, --output');
    expect(await refused(['tokenize'])).toContain('missing: --model');
    expect(await refused(['inspect'])).toContain('missing: --model');
    expect(await refused(['perplexity', '--model', TINY_MODEL])).toContain('missing: --text, --window');
    expect(await refused(['pull'])).toContain('either a name or --list');
    expect(await refused(generate('--seed'))).toContain('argument missing');
  });

  test.each([
    ['--max-new-tokens', '0'],
    ['--max-new-tokens', '1.5'],
    ['--max-new-tokens', '0x10'],
    ['--max-new-tokens', ''],
    ['--temperature', '-0.1'],
    ['--temperature', 'NaN'],
    ['--temperature', ''],
    ['--temperature', 'Infinity'],
    ['--top-p', '0'],
    ['--top-p', '1.01'],
    ['--top-k', '-1'],
    ['--min-p', '2'],
    ['--repetition-penalty', '0'],
    ['--seed', '-1'],
    ['--seed', '99999999999999999999'],
    ['--stop', ''],
    ['--logprobs', '-1'],
    ['--input-format', 'xml'],
    ['--output-format', 'xml'],
    ['--columns', 'prompt'],
    ['--columns', 'promt=x'],
    ['--columns', 'prompt=a,prompt=b'],
    ['--result-columns', 'answer'],
    ['--result-columns', 'text='],
    ['--delimiter', ',,'],
    ['--max-errors', '-1'],
    ['--row-timeout', '0'],
    ['--max-errors', '101%'],
    ['--precision', 'float16'],
    ['--order', 'random'],
    ['--progress', 'yes'],
    ['--device', 'tpu'],
    ['--gpu-products', 'cublas'],
    ['--threads', '0'],
    ['--batch-size', '0'],
    ['--batches', '1000'],
    ['--cpu-memory', '1 apple'],
    ['--cpu-memory', '0'],
    ['--schedule', 'spiral'],
    ['--compress-cache', '2bit'],
    ['--compress-weights', '3bit'],
    ['--sparse-attention', '0'],
    ['--sparse-attention', '1.5'],
    ['--sparse-attention', 'on'],
  ])('%s %j', async (flag, value) => {
    expect(await refused(generate(flag, value))).toContain(`option '${flag}`);
  });

  test('a whole number that JavaScript cannot tell from its neighbours is told the bound', async () => {
    expect(await refused(generate('--seed', '9007199254740992'))).toContain(
      'Expected a whole number from 0 to 9007199254740991.',
    );
  });

  test('a number beyond its bound is told the bound, however it is written', async () => {
    const most = Number.MAX_SAFE_INTEGER;
    expect(await refused(generate('--seed', '1e30'))).toContain(
      `argument '1e30' is invalid. Expected a whole number from 0 to ${most}.`,
    );
    expect(await refused(['perplexity', '--window', '1e30'])).toContain(
      `argument '1e30' is invalid. Expected a whole number from 2 to ${most}.`,
    );
    expect(await refused(generate('--cpu-memory', '1e300'))).toContain(
      `argument '1e300' is invalid. Expected a size from 1 byte to ${most}, such as`,
    );
    expect(await refused(generate('--max-errors', '1e30'))).toContain(
      `Found 1e+30, expected a whole number from 0 to ${most}, or a share of the rows from 0% to 100%.`,
    );
    expect(await refused(generate('--max-errors', '200%'))).toContain(
      `argument '200%' is invalid. Found "200%", expected a whole number of at least 0, or a share of the rows from 0% to 100%.`,
    );
    expect(await refused(generate('--columns', 'promt=x'))).not.toMatch(/\bit[:.]/);
    expect(await refused(generate('--chunk-overlap', '5'))).toContain(
      '--chunk-overlap: found it without --chunk-tokens',
    );
  });

  test.each([['--gpu-memory', '4GiB', '--gpu-memory: found 4 GiB, but there is no GPU here']])(
    '%s %s asks for what is not there, and is told what is',
    async (flag, value, words) => {
      expect(await refused(generate(flag, value))).toContain(words);
    },
  );

  test('what only the engine or the files can refuse leaves nothing behind either', async () => {
    expect(await refused(generate('--result-columns', 'answer=x'))).toContain(
      '--result-columns: found the unknown "answer", expected any of id, sample, text, value',
    );
    expect(await refused(generate('--logprobs', '100000'))).toContain('--logprobs: found 100000');
    // None of the package's machines is one to run on.
    for (const machine of ['flexgen-t4', 'nowhere']) {
      expect(await refused(generate('--hardware', machine))).toContain(
        `--hardware: found "${machine}", expected this, or a file (./NAME for one of that name)`,
      );
    }
    expect(await refused(generate('--device', 'cuda'))).toContain('--device: found "cuda"');
    expect(await refused(generate('--gpu-products', 'cublaslt'))).toContain(
      '--gpu-products: found "cublaslt" without --gpu-memory',
    );
    expect(await refused(generate('--retry-errors'))).toContain('--retry-errors goes with --resume');
    expect(await refused(generate('--resume', '--overwrite'))).toContain('contradict');
    expect(await refused(generate('--stats', path('out.jsonl')))).toContain('--output and --stats name the same file');
    for (const flag of ['--errors', '--stats', '--trace', '--reuse'])
      expect(await refused(generate(flag, '-'))).toContain(
        `${flag}: found -, expected a file (./- for one of that name)`,
      );
    expect(await refused(generate('--stats', '/dev/stdout'))).toContain(
      '/dev/stdout: found a place of the system, expected a file',
    );
    expect(await refused(generate('--trace', input))).toContain('--input and --trace name the same file');
    expect(
      await refused(['generate', '--model', TINY_MODEL, '--input', input, '--output', input, '--overwrite']),
    ).toContain('same file');
    expect(await refused(['generate', '--model', TINY_MODEL, '--input', input, '--output', '-', '--resume'])).toContain(
      '--resume needs a file as --output',
    );
    expect(await refused(['pull', 'no-such-model'])).toContain('smollm2-135m-instruct');
    expect(existsSync(input)).toBe(true);
  });

  test('what this machine cannot do is refused before a model is looked for', async () => {
    for (const command of [
      ['generate', '--input', '-', '--output', '-'],
      ['perplexity', '--text', input, '--window', '4'],
      ['bench'],
    ]) {
      expect(await refused([...command, '--model', 'no-such-model', '--device', 'cuda'])).toContain(
        '--device: found "cuda"',
      );
    }
  });

  test('a policy that is misspelt is told which there are; a file that is nowhere is exit 2', async () => {
    expect(await refused(generate('--policy', 'defualt'))).toContain(
      '--policy: found "defualt", expected auto, default, or a file',
    );
    expect((await runHere(generate('--policy', './defualt.json'))).code).toBe(2);
  });

  test('a model that is nowhere is exit 2, with the list of known ones', async () => {
    const { code, stderr } = await runHere(['generate', '--model', 'no-such-model', '--input', input, '--output', '-']);
    expect({ code, known: stderr.includes('smollm2-135m-instruct') }).toEqual({ code: 2, known: true });
  });
});

describe('no flag overwrites what another reads or writes', () => {
  const folder = (name: string, content = '{}'): string => {
    const at = mkdtempSync(join(tmpdir(), 'spillway-paths-'));
    folders.push(at);
    writeFileSync(join(at, name), content);
    return at;
  };
  const folders: string[] = [];
  afterAll(() => {
    for (const at of folders) rmSync(at, { recursive: true, force: true });
  });

  /** @returns what is said; each file of the folder is as before */
  async function kept(at: string, args: readonly string[]): Promise<string> {
    const contents = (): unknown =>
      readdirSync(at)
        .sort()
        .map((name) => [name, readFileSync(join(at, name))]);
    const before = contents();
    const { code, stdout, stderr } = await runHere(args);
    expect({ code, stdout, files: contents() }).toEqual({ code: 1, stdout: '', files: before });
    return stderr;
  }

  test('generate: the model, policy, hardware and sidecars of the output', async () => {
    const at = folder('m.gguf');
    cpSync(TINY_MODEL, join(at, 'm.gguf'));
    symlinkSync(join(at, 'm.gguf'), join(at, 'alias'));
    for (const name of [
      'm-00001-of-00002.gguf',
      'm-00002-of-00002.gguf',
      'x.out.job.json',
      'policy.json',
      'hardware.json',
      'config.json',
      'model.safetensors',
    ])
      writeFileSync(join(at, name), '{}');
    const [model, output] = [join(at, 'm.gguf'), join(at, 'x.out')];
    const run = (...more: string[]): Promise<string> =>
      kept(at, withFlags(['generate', '--model', model, '--input', input, '--output', output], ...more));
    expect(await run('--stats', model)).toContain(`--model and --stats name the same file: ${model}`);
    expect(await run('--trace', join(at, 'alias'))).toContain('--model and --trace name the same file');
    expect(await run('--output', model, '--overwrite')).toContain('--model and --output name the same file');
    expect(
      await run('--model', join(at, 'm-00001-of-00002.gguf'), '--stats', join(at, 'm-00002-of-00002.gguf')),
    ).toContain('--model and --stats name the same file');
    expect(await run('--model', at, '--output', join(at, 'config.json'), '--overwrite')).toContain(
      '--model and --output name the same file',
    );
    expect(
      await run('--policy', join(at, 'policy.json'), '--output', join(at, 'policy.json'), '--overwrite'),
    ).toContain('--policy and --output name the same file');
    expect(await run('--policy', join(at, 'policy.json'), '--stats', join(at, 'policy.json'))).toContain(
      '--policy and --stats name the same file',
    );
    expect(
      await run('--hardware', join(at, 'hardware.json'), '--output', join(at, 'hardware.json'), '--overwrite'),
    ).toContain('--hardware and --output name the same file');
    expect(await run('--stats', join(at, 'x.out.job.json'))).toContain(
      'the record of --output and --stats name the same file',
    );
    expect(await run('--trace', join(at, 'x.out.lock'))).toContain(
      'the lock of --output and --trace name the same file',
    );
    expect(await run('--stats', join(at, 'new'), '--trace', join(at, '.', 'new'))).toContain(
      '--stats and --trace name the same file',
    );
  });

  test('plan: the model, the policy and the hardware file', async () => {
    const at = folder('c.json');
    for (const name of ['h.json', 'p.json']) writeFileSync(join(at, name), '{}');
    const run = (...more: string[]): Promise<string> =>
      kept(at, [
        'plan',
        '--model',
        join(at, 'c.json'),
        '--hardware',
        join(at, 'h.json'),
        '--prompt-tokens',
        '8',
        ...more,
      ]);
    expect(await run('--html', join(at, 'c.json'))).toContain('--model and --html name the same file');
    expect(await run('--simulate', '--trace', join(at, 'c.json'))).toContain('--model and --trace name the same file');
    expect(await run('--html', join(at, 'h.json'))).toContain('--hardware and --html name the same file');
    expect(await run('--policy', join(at, 'p.json'), '--html', join(at, 'p.json'))).toContain(
      '--policy and --html name the same file',
    );
  });
});
