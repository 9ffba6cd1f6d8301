// A model that is larger than the memory that it may use: Spillway in a memory cgroup and without one, beside llama.cpp
// and node-llama-cpp. One run after another, each a process of its own with a time limit; pages of the model's files
// are dropped from memory before each.
import { existsSync, mkdirSync, mkdtempSync, readdirSync, rmSync, statSync } from 'node:fs';
import { availableParallelism, tmpdir } from 'node:os';
import { basename, join } from 'node:path';
import { cappedReport } from './capped/report.mjs';
import { cappedRuns } from './capped/runs.mjs';
import { bytesReadFromDisk, directReadSpeed, dropCached } from './lib/disk.mjs';
import { cacheFolder } from './lib/cacheFolder.mjs';
import { fail, readFlags, runMain, stopSignal } from './lib/flags.mjs';
import { describeMachine } from './lib/machine.mjs';
import { MemoryCap } from './lib/memoryCap.mjs';
import { RESULTS, writeResults } from './lib/results.mjs';
import { howItEnded, runProcess } from './lib/runProcess.mjs';

const MIB = 2 ** 20;
const USAGE = `usage: node bench/capped.mjs --model FILE [--cap 2048] [--cpu-memory 1900] [--rows 64] [--batches 1] [--policy default|auto] [--compress-cache none|4bit|8bit]
  [--prompt-tokens 16] [--max-new-tokens 8] [--time-limit 240] [--threads N] [--q4-1 FILE] [--only spillway,node-llama-cpp,llama.cpp] [--disk FOLDER] [--llama-cpp PROGRAM] [--llama-cpp-sequences 32] [--output FOLDER]
--model: larger than the cap, e.g. of bench/models/makeDummy.py; --cap, --cpu-memory: MiB, of the cgroup and of Spillway in it; --rows: Spillway's
--policy auto: Spillway plans for these rows, from what memory it finds; --cpu-memory and --batches say nothing then, and runs have no rates of prefill and decode
--q4-1: the same shape in Q4_1, for node-llama-cpp, which copies Q4_0 weights while loading and dies of it
--llama-cpp-sequences: rows of llama.cpp's runs; several, parted by commas, are tried one after another. The most that 2 GiB hold beside a 7B model are 32
--time-limit: seconds a run. Needs root (cgroups), Linux; the peers as bench/peers.mjs does`;
const { values, number } = readFlags(USAGE, {
  model: { type: 'string' },
  cap: { type: 'string', default: '2048' },
  'cpu-memory': { type: 'string', default: '1900' },
  rows: { type: 'string', default: '64' },
  batches: { type: 'string', default: '1' },
  policy: { type: 'string', default: 'default' },
  'compress-cache': { type: 'string', default: 'none' },
  'prompt-tokens': { type: 'string', default: '16' },
  'max-new-tokens': { type: 'string', default: '8' },
  'time-limit': { type: 'string', default: '240' },
  'q4-1': { type: 'string' },
  threads: { type: 'string', default: String(availableParallelism()) },
  only: { type: 'string' },
  disk: { type: 'string', default: join(cacheFolder(), 'repacked') },
  'llama-cpp': { type: 'string', default: join(cacheFolder(), 'build-llama.cpp/bin/llama-batched-bench') },
  'llama-cpp-sequences': { type: 'string', default: '32' },
  output: { type: 'string', default: RESULTS },
});
if (!['default', 'auto'].includes(values.policy)) fail(`--policy: found ${values.policy}, expected default or auto`);
const stopping = stopSignal();
const timeLimitSeconds = number('time-limit');

/** The files whose pages are dropped: the model's, and what Spillway made of it. */
function filesOf(model) {
  const repacked = existsSync(values.disk)
    ? readdirSync(values.disk)
        .map((name) => join(values.disk, name))
        .filter((path) => statSync(path).isFile())
    : [];
  return [model, ...repacked];
}

async function runOnce({ contender, setting, job, capBytes }) {
  const { program, args } = contender.command(job, setting);
  for (const file of filesOf(contender.model)) dropCached(file);
  const diskBytesPerSecond = directReadSpeed(contender.model);
  dropCached(contender.model);
  const cap = new MemoryCap(capBytes);
  try {
    const before = bytesReadFromDisk(contender.model);
    // The runners stop by themselves, with figures; this limit is for those that cannot, and for loading.
    const output = await runProcess(program, args, {
      signal: stopping,
      timeLimitSeconds: timeLimitSeconds + (contender.stopsItself ? 120 : 0),
      cgroup: cap.folder,
    });
    stopping.throwIfAborted();
    const machineReadBytes = before === undefined ? undefined : bytesReadFromDisk(contender.model) - before;
    const measured = {
      wallSeconds: output.wallSeconds,
      cpuSeconds: output.cpuSeconds,
      othersShare: output.othersShare,
      readBytes: output.readBytes,
      machineReadBytes,
      diskBytesPerSecond,
      peakResidentBytes: output.peakResidentBytes,
      cgroup: cap.figures(),
    };
    if (measured.cgroup.oomKills > 0)
      return { ...measured, failed: `killed for memory after ${output.wallSeconds.toFixed(0)} s` };
    try {
      if (output.timedOut) throw new Error(howItEnded(output, timeLimitSeconds));
      return { ...measured, ...contender.figures({ ...output, timeLimitSeconds }) };
    } catch (error) {
      return { ...measured, failed: error.message };
    }
  } finally {
    cap.close();
  }
}

async function main() {
  if (values.model === undefined || !existsSync(values.model))
    fail(`--model: found ${values.model ?? 'nothing'}, expected a GGUF file\n${USAGE}`);
  if (values['q4-1'] !== undefined && !existsSync(values['q4-1'])) fail(`--q4-1: found no file ${values['q4-1']}`);
  try {
    new MemoryCap(undefined).close();
  } catch (error) {
    fail(error.message);
  }
  mkdirSync(values.disk, { recursive: true });
  const scratch = mkdtempSync(join(tmpdir(), 'spillway-capped-'));
  try {
    const { runs, missing } = await cappedRuns({ ...values, scratch, number });
    const done = [];
    for (const run of runs) {
      process.stderr.write(`${run.name} …\n`);
      const figures = await runOnce(run);
      if (run.preparation) {
        if (figures.failed !== undefined) fail(`${run.name}: ${figures.failed}`);
        process.stderr.write(
          `${run.name}: ${figures.wallSeconds.toFixed(0)} s, peak ${Math.round(figures.cgroup.peakBytes / MIB)} MiB\n`,
        );
      }
      done.push({
        name: run.name,
        tool: run.contender.tool,
        capBytes: run.capBytes,
        setting: { ...run.setting, disk: undefined },
        rows: run.job.rows,
        preparation: run.preparation ?? false,
        ...figures,
      });
    }
    const document = {
      date: new Date().toISOString().slice(0, 10),
      machine: describeMachine(number('threads')),
      workload: {
        model: basename(values.model),
        modelBytes: statSync(values.model).size,
        capBytes: number('cap') * MIB,
        promptTokens: number('prompt-tokens'),
        maxNewTokens: number('max-new-tokens'),
        timeLimitSeconds,
      },
      runs: done,
      missing,
    };
    writeResults(
      values.output,
      `capped-${document.date}-${basename(values.model).replace(/\.gguf$/, '')}-${values.cap}MiB-${values.rows}rows`,
      document,
      cappedReport(document),
    );
  } finally {
    rmSync(scratch, { recursive: true, force: true });
  }
}

await runMain(main, stopping);
