// Spillway beside other tools, on the same model and the same rows, in one run on one machine.
// Greedy decoding, every row gets exactly the same number of new tokens. First a small sweep finds each tool's best
// setting, then runs alternate, so that a slow spell of the machine falls on all; each run is a process of its own.
// Runs of the sweep that have all rows count as runs. Figures are medians.
import { execFileSync } from 'node:child_process';
import { copyFileSync, existsSync, mkdtempSync, readFileSync, rmSync, statSync } from 'node:fs';
import { availableParallelism, freemem, tmpdir } from 'node:os';
import { basename, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { cacheFolder } from './lib/cacheFolder.mjs';
import { fail, readFlags, runMain, stopSignal } from './lib/flags.mjs';
import { hfFolder, openvinoFolder, w8a8Folder } from './lib/hfFolder.mjs';
import { describeMachine } from './lib/machine.mjs';
import { buildPeak, measurePeak } from './lib/measurePeak.mjs';
import { RESULTS, rewriteTable, writeResults } from './lib/results.mjs';
import { howItEnded, runProcess } from './lib/runProcess.mjs';
import { median } from './lib/statistics.mjs';
import { cacheElements, writeTokenRows } from './lib/tokenRows.mjs';
import { allContenders, spillway } from './peers/contenders.mjs';
import { report, shortTable } from './peers/report.mjs';
import { AGREEMENT, peerResults, README_MODEL, speedTable, WORKLOADS } from './peers/speedTable.mjs';
import { summarize } from './peers/summary.mjs';
import { comparable, fittingSettings } from './peers/work.mjs';

const HERE = fileURLToPath(new URL('.', import.meta.url));
const USAGE = `usage: node bench/peers.mjs [--quick] [--model FILE|ID] [--type WORDS] [--q4-0 FILE] [--rows 256] [--prompt-tokens N] [--max-new-tokens 64] [--runs 3]
  [--threads N] [--only NAME,…] [--sweep-rows 64] [--time-limit 900] [--python PYTHON] [--openvino PYTHON [--optimum PYTHON]] [--vllm PYTHON]
  [--hf-folder FOLDER] [--llama-cpp PROGRAM] [--ik-llama-cpp PROGRAM] [--output FOLDER] [--no-write] [--no-reference]
  --readme --model FILE --type Q4_K_M [--trained FILE|ID] …: all jobs of README's table of speed, one after another, then the table
--no-reference: nothing says whose tokens are the model's, which takes float32's time: of random weights nobody's are
--write: nothing is run; README's table is made anew of the newest results
--quick: 48 rows, one run each, no sweep, docs/performance.md stays as it is
--trained: a model of the same type that was trained: whose tokens are the model's. Without, SmolLM2 in Q4_1: then the table says it of vLLM and transformers alone
--prompt-tokens: of every row, instead of passages of all lengths; docs/performance.md stays as it is
--time-limit: of a run, without loading; tools that can be stopped are, and have the rate so far
--q4-0: the same model in Q4_0, llama.cpp's fast type (bench/models/requantise.py makes it)
--python: one that has torch, transformers and gguf; --openvino: one that has openvino-genai, which reads the GGUF file itself
--optimum: one that has optimum-intel, nncf and gguf: with it OpenVINO runs from an IR, too, in 8 and in 4 bits
--vllm: one that has vllm for the CPU; --hf-folder: the model as it reads it, and as an IR is made of it; made of the GGUF file where none is given
needs: npm install --ignore-scripts --prefix bench/peers; node bench/peers/buildLlamaCpp.mjs for llama.cpp. What is missing is named in the report.`;

const { values, number } = readFlags(USAGE, {
  quick: { type: 'boolean', default: false },
  model: { type: 'string', default: 'smollm2-135m-instruct' },
  type: { type: 'string', default: 'Q4_1' },
  'q4-0': { type: 'string' },
  rows: { type: 'string' },
  'prompt-tokens': { type: 'string' },
  'max-new-tokens': { type: 'string', default: '64' },
  runs: { type: 'string' },
  threads: { type: 'string', default: String(availableParallelism()) },
  only: { type: 'string' },
  'sweep-rows': { type: 'string', default: '64' },
  'time-limit': { type: 'string', default: '900' },
  python: { type: 'string' },
  openvino: { type: 'string' },
  optimum: { type: 'string' },
  vllm: { type: 'string' },
  'hf-folder': { type: 'string' },
  'llama-cpp': { type: 'string', default: join(cacheFolder(), 'build-llama.cpp/bin/llama-batched-bench') },
  'ik-llama-cpp': { type: 'string', default: join(cacheFolder(), 'build-ik_llama.cpp/bin/llama-batched-bench') },
  output: { type: 'string', default: RESULTS },
  'no-write': { type: 'boolean', default: false },
  'no-reference': { type: 'boolean', default: false },
  readme: { type: 'boolean', default: false },
  trained: { type: 'string' },
  write: { type: 'boolean', default: false },
});
values.rows ??= values.quick ? '48' : '256';
values.runs ??= values.quick ? '1' : '3';
const stopping = stopSignal();
const timeLimitSeconds = number('time-limit');
/** The model's own answers, of some rows: in float32, in which the tests compare Spillway with transformers. */
const REFERENCE = { precision: 'float32' };
const REFERENCE_ROWS = 24;
/** vLLM compiles, for minutes where others compute too. */
const LOADING_SECONDS = 1200;

/** @returns the figures of one run; throws an Error that says why there are none */
async function runOnce(contender, { lengths, ...job }, setting) {
  const { program, args } = contender.command({ ...job, timeLimitSeconds, model: contender.model }, setting);
  const limit = timeLimitSeconds + (contender.stopsItself ? LOADING_SECONDS : 0);
  const output = await runProcess(program, args, { signal: stopping, timeLimitSeconds: limit });
  stopping.throwIfAborted();
  if (output.timedOut) throw new Error(howItEnded(output, limit));
  const figures = comparable(contender.figures({ ...output, timeLimitSeconds: limit }), job, lengths);
  return {
    contender: contender.name,
    setting,
    ...figures,
    cpuSeconds: output.cpuSeconds,
    othersShare: output.othersShare,
    peakResidentBytes: Math.max(figures.peakResidentBytes ?? 0, output.peakResidentBytes),
  };
}

function say(figures, when) {
  process.stderr.write(
    `${when}: ${figures.contender} ${JSON.stringify(figures.setting)} ${figures.generatedTokensPerSecond.toFixed(1)} generated tokens/s\n`,
  );
}

/** Settings that are no further than this from the best one are told apart by one more run. */
const NEAR = 0.95;
/** A contender that is slower than this share of the fastest one gets no more settings of a type, and no more runs. */
const FAR = 0.5;

/**
 * Tries each setting on fewer rows: once, then those near the best in turn again, for a slow spell of the machine is
 * longer than such a run. Runs with all rows of the job are runs like those that follow: `figures` of what is returned.
 * @param {number} fastest generated tokens/s of the fastest contender so far
 * @returns the one with the best median, with all that was found; no setting if none gave figures
 */
async function sweep(contender, job, { fastest, scratch }) {
  const memory = { freeBytes: freemem(), modelBytes: statSync(contender.model).size };
  const settings = fittingSettings(contender, job, memory);
  if (settings.length === 0) return { error: 'the memory is too small for the cache of its sequences', tried: [] };
  if (values.quick || settings.length === 1) return { setting: settings[0], tried: [], figures: [] };
  const rows = Math.min(job.rows, number('sweep-rows'));
  const attempt = async (entry) => {
    const tokensFile = join(scratch, `${contender.name}-${settings.indexOf(entry.setting)}.json`);
    try {
      const figures = await runOnce(contender, { ...job, rows, tokensFile }, entry.setting);
      say(figures, 'sweep');
      if (rows === job.rows) entry.figures.push(figures);
      entry.runs.push(figures.generatedTokensPerSecond);
      entry.generatedTokensPerSecond = median(entry.runs);
      entry.othersShare = Math.max(entry.othersShare ?? 0, figures.othersShare ?? 0);
    } catch (error) {
      stopping.throwIfAborted();
      entry.error = error.message;
      process.stderr.write(`sweep: ${contender.name} ${JSON.stringify(entry.setting)}: ${error.message}\n`);
    }
  };
  const tried = [];
  const found = () =>
    tried
      .filter(({ error }) => error === undefined)
      .sort((a, b) => b.generatedTokensPerSecond - a.generatedTokensPerSecond);
  for (const setting of settings) {
    const isFar = found()[0]?.generatedTokensPerSecond < FAR * fastest;
    if (isFar && tried.some((entry) => entry.setting.dtype === setting.dtype)) continue;
    tried.push({ setting, runs: [], figures: [] });
    await attempt(tried.at(-1));
  }
  const near = found().filter(
    ({ generatedTokensPerSecond }) => generatedTokensPerSecond >= NEAR * found()[0].generatedTokensPerSecond,
  );
  if (near.length > 1) for (const entry of near.reverse()) await attempt(entry);
  const [best] = found();
  const all = tried.map((entry) => ({ ...entry, figures: undefined }));
  if (best === undefined) return { error: tried[0].error, tried: all };
  // A tool with synthetic prompts has no tokens.
  const tokens = join(scratch, `${contender.name}-${settings.indexOf(best.setting)}.json`);
  if (best.figures.length > 0 && existsSync(tokens)) copyFileSync(tokens, join(scratch, `${contender.name}.json`));
  return { setting: best.setting, tried: all, figures: best.figures };
}

/** Writes the rows, and says what there is to know of them. */
async function writePrompts(file, model) {
  const { readModel } = await import('../dist/api/models.js');
  const { makePrompts } = await import('./peers/makePrompts.mjs');
  const source = await readModel(model);
  const promptTokens = values['prompt-tokens'] && number('prompt-tokens');
  // A word is a token at least.
  const lengths = await writeTokenRows(file, makePrompts(number('rows'), promptTokens), source, promptTokens);
  return {
    source,
    lengths,
    meanPromptTokens: Math.round(lengths.reduce((sum, length) => sum + length, 0) / lengths.length),
    longestRow: Math.max(...lengths) + number('max-new-tokens'),
    cacheElements: cacheElements(source),
  };
}

const README = join(HERE, '../README.md');

/** Makes README's table of the results that are there. */
function writeReadme() {
  rewriteTable('bench:speed', speedTable(peerResults(values.output)), README);
}

/** Runs this program for each job of README's table, and on a model that was trained, with the same other flags. */
function runReadme() {
  if (!basename(values.model).startsWith(README_MODEL))
    fail(`--readme: found --model ${values.model}, expected a file ${README_MODEL}… (bench/README.md makes it)`);
  const { runs, model, trained, type, 'hf-folder': folder } = values;
  const own = new Set(['readme', 'trained', 'write', 'rows', 'runs', 'model', 'type', 'hf-folder', 'q4-0']);
  const shared = Object.fromEntries(Object.entries(values).filter(([name]) => !own.has(name)));
  const flagsOf = (flags) =>
    Object.entries(flags).flatMap(([name, value]) =>
      value === undefined || value === false ? [] : value === true ? [`--${name}`] : [`--${name}`, String(value)],
    );
  const run = ({ rows, promptTokens, maxNewTokens }, more) => {
    const job = { rows, 'prompt-tokens': promptTokens, 'max-new-tokens': maxNewTokens };
    const args = flagsOf({ ...shared, ...job, ...more });
    execFileSync(process.execPath, [fileURLToPath(import.meta.url), ...args], { stdio: 'inherit' });
  };
  for (const job of WORKLOADS) run(job, { runs, model, type, 'hf-folder': folder });
  run(AGREEMENT, { quick: true, ...(trained !== undefined && { model: trained, type }) });
  writeReadme();
}

async function main() {
  if (values.write) return writeReadme();
  if (values.readme) return runReadme();
  if (!existsSync(join(HERE, 'peers/node_modules/@stdlib')))
    fail('the rows and the peers are not installed: npm install --ignore-scripts --prefix bench/peers');
  if (!existsSync(join(HERE, '../dist/index.js'))) fail('Spillway is not built: npm ci && npm run build');
  const { resolveModel } = await import('../dist/api/models.js');
  const { sha256OfFile } = await import('../dist/jobs/shards/sha256OfFile.js');
  const model = await resolveModel(values.model);
  const wanted = values.only?.split(',').map((name) => name.trim());
  // Folders take minutes and gigabytes.
  const wants = (names) => wanted === undefined || wanted.some((name) => names.test(name));
  const irBits = [8, 4].filter(
    (bits) => values.openvino && values.optimum && wants(new RegExp(`^openvino( genai int${bits})?$`, 'i')),
  );
  const needsFolder = (values.vllm && wants(/^vllm/i)) || irBits.length > 0;
  const folder = values['hf-folder'] ?? (needsFolder ? hfFolder(model, values.vllm ?? values.optimum) : undefined);
  const wantsInt8 = folder && values.vllm && wants(/^vllm( int8)?$/i);
  const all = allContenders({
    model,
    q4_0: values['q4-0'],
    type: values.type,
    python: values.python,
    openvinoPython: values.openvino,
    vllmPython: values.vllm,
    hfFolder: folder,
    w8a8Folder: wantsInt8 ? w8a8Folder(folder, values.vllm) : undefined,
    irFolders:
      values.optimum &&
      Object.fromEntries(irBits.map((bits) => [`int${bits}`, openvinoFolder(folder, values.optimum, bits)])),
    llamaCpp: values['llama-cpp'],
    ikLlamaCpp: values['ik-llama-cpp'],
  });
  const { missing } = all;
  const unknown = wanted?.find(
    (name) => !all.contenders.some((contender) => contender.name === name || contender.tool === name),
  );
  if (unknown !== undefined)
    fail(`--only: found ${unknown}, expected some of ${all.contenders.map(({ name }) => name).join(', ')}`);
  const contenders = all.contenders.filter(
    ({ name, tool }) => wanted === undefined || wanted.includes(name) || wanted.includes(tool),
  );

  const peakProgram = buildPeak();
  const scratch = mkdtempSync(join(tmpdir(), 'spillway-peers-'));
  try {
    const prompts = join(scratch, 'prompts.jsonl');
    const { source, ...facts } = await writePrompts(prompts, model);
    const job = {
      prompts,
      rows: number('rows'),
      maxNewTokens: number('max-new-tokens'),
      threads: number('threads'),
      ...facts,
    };
    const peaks = [measurePeak(peakProgram, job.threads)];
    const chosen = [];
    const done = [];
    const fastest = () => Math.max(0, ...done.map(({ generatedTokensPerSecond }) => generatedTokensPerSecond));
    for (const contender of contenders) {
      const { setting, tried, figures, error } = await sweep(contender, job, { fastest: fastest(), scratch });
      if (setting === undefined) missing.push({ name: contender.name, reason: error });
      else chosen.push({ contender, setting, tried });
      done.push(...(figures ?? []));
    }
    // Whose tokens are the model's is known before who is fast.
    const reference = join(scratch, 'reference.json');
    const few = { ...job, rows: Math.min(job.rows, REFERENCE_ROWS), tokensFile: reference };
    if (!values['no-reference']) say(await runOnce(spillway('the reference', model), few, REFERENCE), 'reference');
    const failed = new Map();
    const isDone = ({ name }) => {
      const rates = done.filter(({ contender }) => contender === name).map((run) => run.generatedTokensPerSecond);
      return rates.length >= number('runs') || (rates.length > 0 && median(rates) < FAR * fastest());
    };
    for (let run = 1; run <= number('runs'); run++) {
      // Every other round goes the other way.
      for (const { contender, setting } of run % 2 === 1 ? chosen : [...chosen].reverse()) {
        if (failed.has(contender.name) || isDone(contender)) continue;
        try {
          const figures = await runOnce(
            contender,
            { ...job, tokensFile: join(scratch, `${contender.name}.json`) },
            setting,
          );
          done.push(figures);
          say(figures, `run ${run} of ${values.runs}`);
        } catch (error) {
          stopping.throwIfAborted();
          if (contender.tool === 'spillway') fail(`${contender.name}: ${error.message}`);
          failed.set(contender.name, error.message);
          process.stderr.write(`run ${run} of ${values.runs}: ${contender.name}: ${error.message}\n`);
        }
      }
      peaks.push(measurePeak(peakProgram, job.threads));
    }
    for (const [name, reason] of failed) missing.push({ name, reason });
    const document = {
      date: new Date().toISOString().slice(0, 10),
      machine: describeMachine(job.threads),
      workload: {
        model: basename(model),
        sha256: await sha256OfFile(model),
        ...(values['q4-0'] !== undefined && { q4_0Sha256: await sha256OfFile(values['q4-0']) }),
        rows: job.rows,
        maxNewTokens: job.maxNewTokens,
        meanPromptTokens: job.meanPromptTokens,
        ...(values['prompt-tokens'] !== undefined && { promptTokens: number('prompt-tokens') }),
        promptsSha256: await sha256OfFile(prompts),
      },
      ...summarize({
        contenders: chosen.filter(({ contender }) => !failed.has(contender.name)),
        runs: done,
        source,
        peaks,
        scratch,
        reference: values['no-reference'] ? undefined : JSON.parse(readFileSync(reference, 'utf8')),
      }),
      missing,
      runs: done,
    };
    const promptTokens = values['prompt-tokens'] === undefined ? '' : `${number('prompt-tokens')}+`;
    const kind = `${values.quick ? '-quick' : ''}${wanted === undefined ? '' : '-part'}`;
    writeResults(
      values.output,
      `peers-${document.date}-${basename(model).replace(/\.gguf$/, '')}-${job.rows}x${promptTokens}${job.maxNewTokens}${kind}`,
      document,
      report(document),
    );
    if (!values['no-write'] && !values.quick && wanted === undefined && promptTokens === '')
      rewriteTable('bench:peers', shortTable(document));
  } finally {
    rmSync(scratch, { recursive: true, force: true });
  }
}

await runMain(main, stopping);
