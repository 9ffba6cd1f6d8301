import { readFileSync, writeFileSync } from 'node:fs';
import { describe, expect, test } from '@jest/globals';
import type { PipelinePlan, SimulatedPipeline } from '../../src/api/plan.js';
import { createProgram } from '../../src/cli/program.js';
import { InterruptedError } from '../../src/errors/InterruptedError.js';
import { temporaryFolder } from '../jobs/support/files.js';
import { CPU_MACHINE } from '../plan/support/hardware.js';
import { runHere } from './runHere.js';
import { TINY_MODEL, tinyModelWithTokenizer } from './support.js';

const path = temporaryFolder();
const T4 = [
  'plan',
  '--model',
  'opt-30b',
  '--hardware',
  'flexgen-t4',
  '--prompt-tokens',
  '512',
  '--max-new-tokens',
  '32',
];
const PUBLISHED = {
  schedule: 'zigzag',
  batchSize: 48,
  batches: 3,
  weights: { gpu: 0.2, cpu: 0.8, disk: 0 },
  cache: { cpu: 1 },
  activations: { cpu: 1 },
};

describe('plan', () => {
  test("a given policy under FlexGen's model: its own figure, a warning and exit 0 as it exceeds the usable memory", async () => {
    writeFileSync(path('policy.json'), JSON.stringify(PUBLISHED));
    const { code, stdout, stderr } = await runHere([
      ...T4,
      '--cost-model',
      'flexgen',
      '--policy',
      path('policy.json'),
      '--json',
    ]);
    expect(code).toBe(0);
    expect(stderr).toContain('warning: the policy does not fit (gpu: 18.77 GiB needed, 12.80 GiB usable)');
    const plan = JSON.parse(stdout) as { predicted: { tokensPerSecond: number; fits: boolean }; policy: object };
    expect(plan.predicted.fits).toBe(false);
    expect(plan.predicted.tokensPerSecond).toBeCloseTo(7.136, 2);
    expect(plan.policy).toMatchObject({ batchSize: 48, compressCache: 'none', cpuAttention: true });
  });

  test('a search: the document of the contract, whose policy is a policy file', async () => {
    const config = path('config.json');
    writeFileSync(
      config,
      JSON.stringify({
        model_type: 'opt',
        hidden_size: 768,
        num_hidden_layers: 12,
        num_attention_heads: 12,
        ffn_dim: 3072,
        vocab_size: 50272,
      }),
    );
    const args = [
      'plan',
      '--model',
      config,
      '--hardware',
      'flexgen-t4',
      '--prompt-tokens',
      '64',
      '--max-new-tokens',
      '8',
      '--rows',
      '40',
      '--gpu-memory',
      '0',
      '--cpu-memory',
      '1GiB',
      '--json',
    ];
    const { code, stdout, stderr } = await runHere([
      ...args,
      '--simulate',
      '--trace',
      path('trace.json'),
      '--html',
      path('plan.html'),
    ]);
    expect({ code, stderr }).toEqual({ code: 0, stderr: '' });
    const plan = JSON.parse(stdout) as Record<string, unknown> & {
      policy: Record<string, Record<string, number>>;
      predicted: Record<string, number>;
      simulated: Record<string, number>;
    };
    expect(Object.keys(plan)).toEqual(expect.arrayContaining(['policy', 'predicted', 'bottleneck', 'advice']));
    expect(Object.keys(plan.predicted)).toEqual(
      expect.arrayContaining([
        'tokensPerSecond',
        'prefillSeconds',
        'decodeSeconds',
        'queueSeconds',
        'memoryBytes',
        'fits',
      ]),
    );
    for (const kind of ['weights', 'cache', 'activations'])
      expect(Object.values(plan.policy[kind] ?? {}).reduce((sum, each) => sum + each, 0)).toBeCloseTo(1, 9);
    const ratio = (plan.simulated.tokensPerSecond ?? 0) / (plan.predicted.tokensPerSecond ?? 1);
    expect(ratio).toBeGreaterThan(0.8);
    expect(ratio).toBeLessThan(1.25);
    const trace = JSON.parse(readFileSync(path('trace.json'), 'utf8')) as { name: string; ph: string }[];
    expect(new Set(trace.filter(({ ph }) => ph === 'X').map(({ name }) => name.split(' ', 1)[0]))).toContain('compute');
    const page = readFileSync(path('plan.html'), 'utf8');
    expect(page).toContain('new uPlot(');
    expect(page).not.toMatch(/(src|href)=/); // nothing is fetched
    expect((await runHere([...args, '--policy', path('plan.json')])).code).toBe(2); // not written yet
    writeFileSync(path('plan.json'), stdout);
    const predicted = JSON.parse((await runHere([...args, '--policy', path('plan.json')])).stdout) as {
      predicted: Record<string, number>;
    };
    expect(predicted.predicted.tokensPerSecond).toBeCloseTo(plan.predicted.tokensPerSecond ?? 0, 9);
  });

  test("a folder for repacked models is this machine's: refused beside another one", async () => {
    const { code, stderr } = await runHere([...T4, '--disk', path('.')]);
    expect({ code, stderr }).toEqual({
      code: 1,
      stderr: expect.stringContaining('beside --hardware flexgen-t4, expected none: it is a folder of this machine'),
    });
  });

  test('a flag of the search beside a policy, which would change nothing, is refused', async () => {
    writeFileSync(path('fixed.json'), JSON.stringify(PUBLISHED));
    for (const flag of ['--compress-cache 4bit', '--max-latency 5']) {
      const { code, stderr } = await runHere([...T4, '--policy', path('fixed.json'), ...flag.split(' ')]);
      const [name] = flag.split(' ');
      expect([code, stderr]).toEqual([
        1,
        expect.stringContaining(`${name ?? ''} bounds the search: leave out --policy, which is one plan and no search`),
      ]);
    }
  });

  test('the budget that is named where none fits is one that works', async () => {
    const hardware = { ...CPU_MACHINE, memory: { ...CPU_MACHINE.memory, cpuBytes: 2 ** 36, diskBytes: 0 } };
    writeFileSync(path('machine.json'), JSON.stringify(hardware));
    const args = ['plan', '--model', 'opt-6.7b', '--hardware', path('machine.json'), '--prompt-tokens', '100'];
    const { code, stderr } = await runHere([...args, '--cpu-memory', '8GiB']);
    expect([code, stderr]).toEqual([3, expect.stringContaining('cpu memory is capped at 8 GiB;')]);
    const [, budget = ''] = /\(--cpu-memory (\d+)\)/.exec(stderr) ?? [];
    expect((await runHere([...args, '--cpu-memory', budget])).code).toBe(0);
    expect((await runHere([...args, '--cpu-memory', String(Math.floor(Number(budget) * 0.99))])).code).toBe(3);
  });

  test('a bound on the latency of a block', async () => {
    const { code, stdout } = await runHere([...T4, '--cost-model', 'flexgen', '--max-latency', '400', '--json']);
    expect(code).toBe(0);
    const { predicted } = JSON.parse(stdout) as { predicted: Record<string, number> };
    expect(predicted.latencySeconds).toBeLessThanOrEqual(400);
    const words = await runHere([...T4, '--cost-model', 'flexgen', '--max-latency', '400']);
    expect(words.stdout).toMatch(/, a block by itself \d+ min \d+ s\n/);
  });

  test('words', async () => {
    const { code, stdout } = await runHere([...T4, '--cost-model', 'flexgen', '--batch-size', '32']);
    expect(code).toBe(0);
    for (const word of ['tokens/s', 'host-to-device', 'what would lift it', 'runners-up', 'twice as much gpu memory'])
      expect(stdout).toContain(word);
  });

  test('a policy whose cache the link and the processor share: its words, and what is simulated', async () => {
    const share = { ...PUBLISHED, activations: { gpu: 1 }, batchSize: 8, cpuAttention: 0.25 };
    writeFileSync(path('shared.json'), JSON.stringify(share));
    const args = [...T4, '--policy', path('shared.json'), '--rows', '24', '--simulate'];
    const { code, stdout } = await runHere(args);
    expect(code).toBe(0);
    expect(stdout).toContain('attention to 25% of what is not on the GPU on the processor');
    const { simulated, policy } = JSON.parse((await runHere([...args, '--json'])).stdout) as {
      simulated: { queueSeconds: Record<string, number> };
      policy: object;
    };
    expect(policy).toMatchObject({ cpuAttention: 0.25 });
    for (const queue of ['cpu-compute', 'host-to-device']) expect(simulated.queueSeconds[queue]).toBeGreaterThan(0);
    for (const cpuAttention of [-1, 2, 'half', null]) {
      writeFileSync(path('shared.json'), JSON.stringify({ ...share, cpuAttention }));
      const refused = await runHere(args);
      expect(refused.code).toBe(2);
      expect(refused.stderr).toContain('cpuAttention');
    }
  });

  test.each([
    [['--model', 'opt-30b', '--hardware', 'nowhere', '--prompt-tokens', '1'], 1, 'hardware: found "nowhere"'],
    [['--model', 'opt-31b', '--hardware', 'flexgen-t4', '--prompt-tokens', '1'], 1, 'model: found "opt-31b"'],
    [['--model', 'opt-30b', '--hardware', 'flexgen-t4'], 1, 'missing: --prompt-tokens'],
    [
      ['--model', 'opt-30b', '--hardware', 'flexgen-t4', '--prompt-tokens', '1', '--trace', 'x'],
      1,
      '--trace needs --simulate',
    ],
    [
      ['--model', 'opt-30b', '--hardware', 'flexgen-t4', '--prompt-tokens', '1', '--max-latency', '1', '--policy', 'x'],
      1,
      '--max-latency bounds the search',
    ],
    [
      ['--model', 'opt-30b', '--hardware', 'flexgen-t4', '--prompt-tokens', '512', '--max-latency', '1e-3'],
      1,
      '--max-latency: found 0.001, expected at least',
    ],
    [
      [
        ...['--model', 'opt-30b', '--hardware', 'flexgen-t4', '--prompt-tokens', '512'],
        ...['--batch-size', '64', '--tokens-per-square', '16'],
      ],
      1,
      '--batch-size: found 64, expected at most --tokens-per-square, 16: every row has a token in a square',
    ],
    [
      ['--model', 'opt-30b', '--hardware', 'flexgen-t4', '--prompt-tokens', '9', '--shared-prefix-tokens', '9'],
      1,
      '--shared-prefix-tokens: found 9, expected fewer than --prompt-tokens, 9',
    ],
    [['--model', 'opt-30b', '--hardware', './none.json', '--prompt-tokens', '1'], 2, 'none.json'],
    [
      ['--model', 'opt-175b', '--hardware', 'lm-offload-a100', '--prompt-tokens', '1'],
      3,
      'the smallest budget that works',
    ],
  ])('%j ends with %i and a sentence', async (args, exit, sentence) => {
    const { code, stdout, stderr } = await runHere(['plan', ...args]);
    expect({ code, stdout }).toEqual({ code: exit, stdout: '' });
    expect(stderr).toContain(sentence);
  });
});

describe('plan --machines', () => {
  const flags = ['plan', '--model', 'opt-6.7b', '--prompt-tokens', '64', '--max-new-tokens', '8', '--rows', '16'];

  test('a file of machines: layers divided, who waits, and what is simulated', async () => {
    const machines = [
      { name: 'left', hardware: 'flexgen-t4' },
      { hardware: 'flexgen-t4', link: { bytesPerSecond: 1e9, latencySeconds: 0.001 } },
    ];
    writeFileSync(
      path('machines.json'),
      JSON.stringify({ machines, link: { bytesPerSecond: 1e8, latencySeconds: 0 } }),
    );
    const args = [...flags, '--machines', path('machines.json'), '--batch-size', '4', '--simulate'];
    const json = await runHere([...args, '--json']);
    expect({ code: json.code, stderr: json.stderr }).toEqual({ code: 0, stderr: '' });
    const plan = JSON.parse(json.stdout) as PipelinePlan & { simulated: SimulatedPipeline };
    expect(plan.stages.map(({ machine }) => machine)).toEqual(['left', '2']);
    expect(plan.stages.reduce((sum, { layers }) => sum + layers.count, 0)).toBe(32);
    expect(plan.batchSize).toBe(4);
    expect(plan.simulated.rows).toBe(16);
    const words = await runHere(args);
    expect(words.stdout).toMatch(/^opt-6.7b on 2 machines: .* tokens\/s/);
    expect(words.stdout).toMatch(/every engine: --batch-size 4 --batches \d+/);
    expect(words.stdout).toMatch(/\nleft +0-1\d /);
    expect(words.stdout).toContain('simulated: ');
    expect(words.stdout).toContain('tensor parallel: not for these (machines: found one with a GPU');
  });

  test('processors over a near link and a slow one: which of the two is faster, shares or layers', async () => {
    writeFileSync(path('cpu.json'), JSON.stringify(CPU_MACHINE));
    const said = async (bytesPerSecond: number, latencySeconds: number): Promise<string> => {
      const machines = [{ hardware: path('cpu.json') }, { hardware: path('cpu.json') }];
      writeFileSync(path('cpus.json'), JSON.stringify({ machines, link: { bytesPerSecond, latencySeconds } }));
      const { code, stdout } = await runHere([
        ...['plan', '--model', 'opt-6.7b', '--prompt-tokens', '64', '--max-new-tokens', '8', '--rows', '1'],
        ...['--machines', path('cpus.json'), '--batch-size', '1', '--compress-weights', '4bit'],
      ]);
      expect(code).toBe(0);
      return stdout;
    };
    expect(await said(1e10, 1e-5)).toMatch(
      /\ntensor parallel \(follow --tensor-parallel K\/2\): .* tokens\/s.*: share each layer\n/,
    );
    expect(await said(1e6, 0.05)).toMatch(
      /times the pipeline's: divide the layers\nevery engine: --batch-size 1 --batches \d; [\d.]+% of/,
    );
  });

  test('an interrupt ends the simulation', async () => {
    const machines = [{ hardware: 'flexgen-t4' }, { hardware: 'flexgen-t4' }];
    writeFileSync(path('interrupted.json'), JSON.stringify({ machines }));
    const printed: string[] = [];
    const program = createProgram({
      signal: AbortSignal.abort('SIGINT'),
      exitCode: 0,
      endAfter: () => undefined,
      endingAtOnce: async (work) => work(),
      say: () => undefined,
      print: (text) => Promise.resolve(void printed.push(text)),
    });
    const args = [...flags, '--machines', path('interrupted.json'), '--batch-size', '4', '--simulate'];
    await expect(program.parseAsync(args, { from: 'user' })).rejects.toThrow(InterruptedError);
    expect(printed).toEqual([]);
  });

  test.each([
    [2, [], { machines: [{ hardware: 'flexgen-t4' }] }, /machines: found .*, expected a list of at least 2/],
    [
      2,
      [],
      { machines: [{ hardware: 'flexgen-t4' }, { hardware: 'flexgen-t4', speed: 1 }] },
      /machines.1: found the unknown field speed/,
    ],
    [
      2,
      [],
      { machines: [{ name: 'a\nb', hardware: 'flexgen-t4' }, { hardware: 'flexgen-t4' }] },
      /machines.0.name: found "a\\nb", expected a line of/,
    ],
    [1, ['--hardware', 'flexgen-t4'], { machines: [] }, /--hardware: found flexgen-t4 beside --machines/],
    [1, ['--compress-cache', 'auto'], { machines: [] }, /--compress-cache: found auto beside --machines/],
  ])('what cannot be right is refused, with exit code %d: %j', async (expected, more, document, message) => {
    writeFileSync(path('wrong.json'), JSON.stringify(document));
    const { code, stderr } = await runHere([...flags, '--machines', path('wrong.json'), ...more]);
    expect(code).toBe(expected);
    expect(stderr).toMatch(message);
  });
});

describe('plan --input', () => {
  const model = tinyModelWithTokenizer(path('tokenized'));
  writeFileSync(path('hardware.json'), JSON.stringify(CPU_MACHINE));
  const planned = ['plan', '--model', model, '--hardware', path('hardware.json'), '--max-new-tokens', '7'];

  test('takes prompts, answers and their number from the rows, as generate does', async () => {
    const rows = Array.from({ length: 30 }, (_, at) => ({
      tokens: [5, 6, 7, ...Array.from({ length: at % 3 }, () => 3 + at)],
      ...(at % 2 === 0 && { maxNewTokens: 3 }),
    }));
    writeFileSync(path('rows.jsonl'), rows.map((row) => `${JSON.stringify(row)}\n`).join(''));
    const { code, stdout, stderr } = await runHere([...planned, '--input', path('rows.jsonl'), '--json']);
    expect({ code, stderr }).toMatchObject({
      code: 0,
      stderr: expect.stringContaining('rows.jsonl: 30 rows of 4 tokens, 3 of them shared, and 5 new ones\n'),
    });
    const said = ['--prompt-tokens', '4', '--shared-prefix-tokens', '3', '--rows', '30'];
    const told = await runHere([...planned.slice(0, -2), ...said, '--max-new-tokens', '5', '--json']);
    expect(JSON.parse(stdout)).toEqual(JSON.parse(told.stdout));
  });

  test.each([
    [['--prompt-tokens', '3'], '', '--prompt-tokens: found it beside --input'],
    [['--shared-prefix-tokens', '3'], '', '--shared-prefix-tokens: found it beside --input'],
    [[], 'not json\n', 'no row in '],
    [['--model', TINY_MODEL], '{"prompt":"a"}\n', 'no row in '],
  ])('%j over %j is refused', async (more, content, words) => {
    writeFileSync(path('odd.jsonl'), content);
    const own = more.includes('--model') ? planned.toSpliced(1, 2) : planned;
    const { code, stderr } = await runHere([...own, ...more, '--input', path('odd.jsonl')]);
    expect({ code, stderr }).toMatchObject({ code: 1, stderr: expect.stringContaining(words) });
  });
});
