// An encoder that is larger than the memory that it may use: its rate in a memory cgroup, beside that without one.
// One run after the other, in turn, each a process of its own; the first, which lays the layers out on the disk, is not
// counted. Some four minutes on a quiet machine with the usual numbers and a model of 1.5 billion weights.
//   python bench/peers/encoderShape.py MINILM b1500 --layers 30 --hidden 2048 --type bfloat16
//   node bench/encoderCapped.mjs --model b1500
import { mkdirSync, mkdtempSync, readdirSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { cacheFolder } from './lib/cacheFolder.mjs';
import { dropCached } from './lib/disk.mjs';
import { fail, readFlags, runMain, stopSignal } from './lib/flags.mjs';
import { MemoryCap } from './lib/memoryCap.mjs';
import { markdownTable } from './lib/results.mjs';
import { howItEnded, lastJson, runProcess } from './lib/runProcess.mjs';
import { median } from './lib/statistics.mjs';
import { drawnTexts } from './peers/encoderTexts.mjs';

const MIB = 2 ** 20;
const ENCODE = fileURLToPath(new URL('peers/encodeNode.mjs', import.meta.url));
const USAGE = `usage: node bench/encoderCapped.mjs --model FOLDER [--cap 512] [--texts 90] [--repeats 2] [--seed 1] [--threads 2] [--disk FOLDER] [--time-limit 600] [--json FILE]
--cap: MiB of the cgroup, and of the engine in it; needs root (cgroups), Linux. --texts: the usual ones are some 8,000 tokens`;
const { values, number } = readFlags(USAGE, {
  model: { type: 'string' },
  cap: { type: 'string', default: '512' },
  texts: { type: 'string', default: '90' },
  repeats: { type: 'string', default: '2' },
  seed: { type: 'string', default: '1' },
  threads: { type: 'string', default: '2' },
  disk: { type: 'string', default: join(cacheFolder(), 'repacked-encoder') },
  'time-limit': { type: 'string', default: '600' },
  json: { type: 'string' },
});
if (!values.model) fail(`--model: found none, expected a folder of sentence-transformers\n${USAGE}`);
const stopping = stopSignal();
const capBytes = number('cap') * MIB;

/** @param capped whether it runs in the cgroup */
async function run(scratch, texts, capped) {
  const textsFile = join(scratch, 'texts.json');
  writeFileSync(textsFile, JSON.stringify(texts));
  const options = { disk: values.disk, ...(capped && { cpuMemory: capBytes }) };
  const job = {
    peer: 'spillway',
    model: values.model,
    texts: textsFile,
    out: join(scratch, 'out.bin'),
    threads: number('threads'),
    options,
  };
  for (const name of readdirSync(values.disk)) dropCached(join(values.disk, name));
  const cap = new MemoryCap(capped ? capBytes : undefined);
  const timeLimitSeconds = number('time-limit');
  try {
    const ended = await runProcess(process.execPath, [ENCODE, JSON.stringify(job)], {
      signal: stopping,
      timeLimitSeconds,
      cgroup: cap.folder,
    });
    stopping.throwIfAborted();
    const figures = lastJson(ended.stdout);
    const { peakBytes, oomKills } = cap.figures();
    if (figures === undefined || oomKills > 0)
      throw new Error(
        `${capped ? 'capped' : 'not capped'}: ${howItEnded(ended, timeLimitSeconds)}; ${oomKills} killed for memory`,
      );
    const { seconds, cpuSeconds, openSeconds, stats } = figures;
    const tokens = stats.tokens.prompt;
    return {
      capped,
      tokens,
      seconds,
      openSeconds,
      tokensPerSecond: tokens / seconds,
      tokensPerCpuSecond: tokens / cpuSeconds,
      computing: stats.queues['cpu-compute'].busySeconds / seconds,
      reading: (stats.queues['disk-read']?.busySeconds ?? 0) / seconds,
      readBytes: stats.queues['disk-read']?.bytes ?? 0,
      batches: stats.policy.batches,
      peakBytes,
      othersShare: ended.othersShare,
    };
  } finally {
    cap.close();
  }
}

const percent = (share) => (share === undefined ? '' : `${(100 * share).toFixed(0)}%`);

function report(runs) {
  const rows = runs.map((each) => [
    each.capped ? `${values.cap} MiB` : 'none',
    each.batches,
    each.tokensPerSecond.toFixed(1),
    each.tokensPerCpuSecond.toFixed(1),
    percent(each.computing),
    percent(each.reading),
    (each.readBytes / 2 ** 30).toFixed(1),
    each.peakBytes === undefined ? '' : Math.round(each.peakBytes / MIB),
    percent(each.othersShare),
  ]);
  const of = (capped, name) => median(runs.filter((each) => each.capped === capped).map((each) => each[name]));
  const ratio = (name) => of(true, name) / of(false, name);
  return [
    ...markdownTable(
      ['cap', 'batches', 'tokens/s', 'a processor second', 'computing', 'reading', 'GiB read', 'peak MiB', 'others'],
      rows,
    ),
    '',
    `${runs[0].tokens} tokens each. Capped at ${percent(ratio('tokensPerSecond'))} of the rate without a cap; by processor time ${percent(ratio('tokensPerCpuSecond'))}.`,
  ].join('\n');
}

async function main() {
  mkdirSync(values.disk, { recursive: true });
  const scratch = mkdtempSync(join(tmpdir(), 'spillway-encoder-capped-'));
  try {
    const texts = drawnTexts(number('texts'), number('seed', 0));
    await run(scratch, texts.slice(0, 1), true);
    const runs = [];
    for (let repeat = 0; repeat < number('repeats'); repeat++)
      for (const capped of [false, true]) {
        runs.push(await run(scratch, texts, capped));
        const { tokensPerSecond, openSeconds } = runs.at(-1);
        process.stderr.write(
          `${capped ? 'capped' : 'not capped'}: ${tokensPerSecond.toFixed(1)} tokens/s, opened in ${openSeconds.toFixed(1)} s\n`,
        );
      }
    process.stdout.write(`${report(runs)}\n`);
    if (values.json) writeFileSync(values.json, `${JSON.stringify(runs, undefined, 1)}\n`);
  } finally {
    rmSync(scratch, { recursive: true, force: true });
  }
}

await runMain(main, stopping);
