// The diagonal block against the zig-zag block in the same memory: how many rows share a pass, and how many bytes of
// weights a token costs. Rows of one length, so that theory has a figure: (2s + 2n) / (2s + n) times the rows for
// prompts of s and answers of n tokens (FlexGen, A.2).
import { availableParallelism } from 'node:os';
import { basename, join } from 'node:path';
import { fail, readFlags, runMain, stopSignal } from './lib/flags.mjs';
import { cacheFolder } from './lib/cacheFolder.mjs';
import { describeMachine, machineInWords } from './lib/machine.mjs';
import { markdownTable, RESULTS, writeResults } from './lib/results.mjs';

const USAGE = `usage: node bench/blockSize.mjs --model FILE|ID [--rows 48] [--block 12] [--prompt-tokens 128] [--max-new-tokens 384] [--resident 0.9] [--disk FOLDER] [--output FOLDER]
--block: rows whose whole cache fits in the memory that both schedules get; --resident: share of the weights in memory, the rest is read in every pass`;
const { values, number } = readFlags(USAGE, {
  model: { type: 'string' },
  rows: { type: 'string', default: '48' },
  block: { type: 'string', default: '12' },
  'prompt-tokens': { type: 'string', default: '128' },
  'max-new-tokens': { type: 'string', default: '384' },
  resident: { type: 'string', default: '0.9' },
  disk: { type: 'string', default: join(cacheFolder(), 'repacked') },
  output: { type: 'string', default: RESULTS },
});

const stopping = stopSignal();

async function measure(schedule) {
  const { Engine } = await import('../dist/index.js');
  const [count, block, promptTokens, maxNewTokens] = [
    number('rows'),
    number('block'),
    number('prompt-tokens'),
    number('max-new-tokens'),
  ];
  const places = 2 * block;
  const resident = Number(values.resident);
  // Memory for the cache is planned by rows of a usual length in every place: half the length in twice the places is
  // `block` whole rows.
  const engine = await Engine.open({
    model: values.model,
    policy: 'default',
    batchSize: places,
    tokensPerSquare: 512,
    disk: values.disk,
    weights: { cpu: resident, disk: 1 - resident },
    rowTokens: Math.ceil((promptTokens + maxNewTokens) / 2),
  });
  const passes = new Map();
  let stats;
  const rows = Array.from({ length: count }, (_, row) => ({
    id: row,
    tokens: Array.from({ length: promptTokens }, (__, position) => 100 + ((row * 7919 + position * 104729) % 5000)),
  }));
  const start = performance.now();
  for await (const row of engine.generate(rows, {
    maxNewTokens,
    ignoreEos: true,
    schedule,
    signal: stopping,
    onStats: (final) => {
      stats = final;
    },
    onTrace: ({ ph, args }) => {
      if (ph === 'X' && args.part === 'head') passes.set(args.pass, args.rows.length);
    },
  }))
    if (row.error) fail(row.error.message);
  const seconds = (performance.now() - start) / 1000;
  await engine.close();
  const sizes = [...passes.values()];
  return {
    schedule: schedule.name,
    passes: sizes.length,
    mostRows: Math.max(...sizes),
    meanRows: sizes.reduce((sum, each) => sum + each, 0) / sizes.length,
    // The middle half: without the first rows coming in and the last ones going out.
    steadyRows: mean(sizes.slice(Math.floor(sizes.length / 4), Math.ceil((3 * sizes.length) / 4))),
    weightBytesPerToken: stats.bytes.weights['disk→cpu'] / stats.tokens.generated,
    peakCacheBytes: stats.memory.cpu.peakBytes,
    seconds,
    tokensPerSecond: stats.tokens.generated / seconds,
  };
}

function mean(numbers) {
  return numbers.reduce((sum, each) => sum + each, 0) / numbers.length;
}

async function main() {
  if (values.model === undefined) fail(USAGE);
  const { diagonalBlock, zigZagBlock } = await import('../dist/api/schedules.js');
  const results = [];
  for (const schedule of [zigZagBlock(), diagonalBlock()]) results.push(await measure(schedule));
  const [zigzag, diagonal] = results;
  const [s, n] = [number('prompt-tokens'), number('max-new-tokens')];
  const document = {
    date: new Date().toISOString().slice(0, 10),
    machine: describeMachine(availableParallelism()),
    model: basename(values.model),
    settings: { ...values, model: undefined, disk: undefined, output: undefined },
    results,
  };
  const words = [
    `# Rows in a block, ${document.model}, prompts of ${s}, answers of ${n} tokens`,
    '',
    `${document.date}. ${machineInWords(document.machine)}. ${number('rows')} rows; both schedules have memory for ${number('block')} whole rows.`,
    '',
    ...markdownTable(
      [
        'schedule',
        'passes',
        'rows a pass, most',
        'mean',
        'mean of the middle half',
        'weights read a token, KiB',
        'tok/s',
      ],
      results.map((each) => [
        each.schedule,
        each.passes,
        each.mostRows,
        each.meanRows.toFixed(1),
        each.steadyRows.toFixed(1),
        (each.weightBytesPerToken / 1024).toFixed(0),
        each.tokensPerSecond.toFixed(1),
      ]),
    ),
    '',
    `Diagonal over zig-zag: ${(diagonal.steadyRows / zigzag.steadyRows).toFixed(2)} times the rows in the middle half, ${(diagonal.mostRows / zigzag.mostRows).toFixed(2)} at most; ` +
      `(2s + 2n) / (2s + n) = ${((2 * s + 2 * n) / (2 * s + n)).toFixed(2)}. Pages of 32 tokens, and one sweep until a row's pages are free, cost the difference.`,
    '',
  ].join('\n');
  writeResults(
    values.output,
    `block-${document.date}-${document.model.replace(/\.gguf$/, '')}-${s}+${n}`,
    document,
    words,
  );
}

await runMain(main, stopping);
