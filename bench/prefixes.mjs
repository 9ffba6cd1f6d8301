// Rows whose prompts begin alike: with sharing and without, beside tools that keep prefixes, on the same rows in one
// run.
import { existsSync, mkdtempSync, rmSync } from 'node:fs';
import { availableParallelism, tmpdir } from 'node:os';
import { basename, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { fail, readFlags, runMain, stopSignal } from './lib/flags.mjs';
import { hfFolder, w8a8Folder } from './lib/hfFolder.mjs';
import { describeMachine, machineInWords } from './lib/machine.mjs';
import { MemoryCap } from './lib/memoryCap.mjs';
import { prefixRows } from './lib/prefixRows.mjs';
import { markdownTable, RESULTS, writeResults } from './lib/results.mjs';
import { howItEnded, lastJson, runProcess } from './lib/runProcess.mjs';
import { median } from './lib/statistics.mjs';
import { cacheElements, writeTokenRows } from './lib/tokenRows.mjs';

const HERE = fileURLToPath(new URL('.', import.meta.url));
/**
 * By name: the levels of the prompts' tree, in words (SmolLM2's tokenizer makes about a token of each), and how many
 * rows those get that share nothing.
 */
const WORKLOADS = {
  'shared 400': {
    levels: [
      { branches: 1, words: 400 },
      { branches: 256, words: 20 },
    ],
    fewer: 64,
  },
  'shared 2000': {
    levels: [
      { branches: 1, words: 2000 },
      { branches: 256, words: 20 },
    ],
    fewer: 16,
  },
  tree: {
    levels: [
      { branches: 4, words: 300 },
      { branches: 16, words: 200 },
      { branches: 8, words: 20 },
    ],
    fewer: 64,
  },
  'nothing shared': { levels: [{ branches: 64, words: 420 }], fewer: 64 },
};
const USAGE = `usage: node bench/prefixes.mjs [--model FILE|ID] [--only WORKLOAD,…] [--tools NAME,…] [--runs 3] [--max-new-tokens 16] [--threads N] [--time-limit 600] [--output FOLDER]
  [--rows N] [--fewer N] [--cap MIB --cpu-memory SIZE] [--openvino PYTHON] [--vllm PYTHON [--hf-folder FOLDER] [--vllm-dtype float32]] [--llama PROGRAM [--llama-model FILE]]
workloads: ${Object.keys(WORKLOADS).join(', ')}
--rows, --fewer: so many of a workload's rows, and for tools that share nothing; --cap: of a memory cgroup for every run (root); --cpu-memory: what Spillway may take in it
--openvino: an interpreter that has openvino-genai; it reads the GGUF file itself
--tools: these alone, a name that is none lists them
--vllm: one that has vllm for the CPU; its weights in --vllm-dtype, and in 8 bits (vLLM int8); --hf-folder: the model as it reads it, made of the GGUF file where none is given; --vllm-dtype: bfloat16 (default) or float32, which is the faster without AVX-512
--llama: llama-batched-bench, with --llama-model instead of the model (its fastest type is Q4_0); it knows no rows, so the prompt in common and what rows have of their own
  are runs of their own, added up: that flatters it
All rows are handed over at once, behind the first one; a tool whose cache fills only as rows end finds little of a tree there.
Tools that share nothing get fewer of the rows where all of them would take too long; figures are rows a second.`;
const { values, number } = readFlags(USAGE, {
  model: { type: 'string', default: 'smollm2-135m-instruct' },
  only: { type: 'string', default: Object.keys(WORKLOADS).join(',') },
  runs: { type: 'string', default: '3' },
  'max-new-tokens': { type: 'string', default: '16' },
  threads: { type: 'string', default: String(availableParallelism()) },
  'time-limit': { type: 'string', default: '600' },
  output: { type: 'string', default: RESULTS },
  openvino: { type: 'string' },
  vllm: { type: 'string' },
  'hf-folder': { type: 'string' },
  'vllm-dtype': { type: 'string', default: 'bfloat16' },
  llama: { type: 'string' },
  'llama-model': { type: 'string' },
  tools: { type: 'string' },
  rows: { type: 'string' },
  fewer: { type: 'string' },
  cap: { type: 'string' },
  'cpu-memory': { type: 'string' },
});
const stopping = stopSignal();

/** Each: how it is started over a file of rows, and whether it shares. */
function contenders(model) {
  const python = (program, script, own, more = {}) => {
    const cached = { sequences: 128, prefixCaching: true, ...own };
    const from = join(HERE, 'peers', script);
    return (job) => ({ program, args: [from, JSON.stringify({ ...job, ...more, model, setting: cached })] });
  };
  const setting = values['cpu-memory'] === undefined ? {} : { cpuMemory: values['cpu-memory'] };
  const own =
    (sharePrefixes, more = {}) =>
    (job) => ({
      program: process.execPath,
      args: [
        join(HERE, 'prefixes/runSpillway.mjs'),
        JSON.stringify({ ...job, model, sharePrefixes, setting: { ...setting, ...more } }),
      ],
    });
  const llama = (job) => ({
    program: process.execPath,
    args: [
      join(HERE, 'prefixes/runLlamaCpp.mjs'),
      JSON.stringify({ ...job, program: values.llama, model: values['llama-model'] ?? model }),
    ],
  });
  const vllm = (name, hfFolder) => ({
    name,
    shares: true,
    command: python(values.vllm, 'runVllm.py', { batchedTokens: 2048, dtype: values['vllm-dtype'] }, { hfFolder }),
  });
  const folder = values.vllm && (values['hf-folder'] ?? hfFolder(model, values.vllm));
  const all = [
    { name: 'spillway', shares: true, command: own(true) },
    { name: 'spillway int8', shares: true, command: own(true, { weightsLayout: 'int8' }) },
    { name: 'spillway without sharing', shares: false, command: own(false) },
    ...(values.openvino === undefined
      ? []
      : [
          {
            name: 'OpenVINO GenAI',
            shares: true,
            command: python(values.openvino, 'runOpenvino.py', { batchedTokens: 512 }),
          },
        ]),
    ...(folder ? [vllm('vLLM', folder), vllm('vLLM int8', w8a8Folder(folder, values.vllm))] : []),
    ...(values.llama === undefined ? [] : [{ name: 'llama.cpp', shares: true, command: llama }]),
  ];
  if (values.tools === undefined) return all;
  return values.tools
    .split(',')
    .map(
      (name) =>
        all.find((tool) => tool.name === name.trim()) ??
        fail(`--tools: found ${name}, expected some of ${all.map((tool) => tool.name).join(', ')}`),
    );
}

async function runOnce({ name, shares, command }, job, { levels, fewer }) {
  const { program, args } = command({
    ...job,
    levels,
    rows: shares ? values.rows && number('rows') : values.fewer ? number('fewer') : fewer,
  });
  const cap = values.cap === undefined ? undefined : new MemoryCap(number('cap') * 2 ** 20);
  let output;
  try {
    output = await runProcess(program, args, {
      signal: stopping,
      timeLimitSeconds: number('time-limit'),
      cgroup: cap?.folder,
    });
  } finally {
    cap?.close();
  }
  stopping.throwIfAborted();
  const figures = output.code === 0 ? lastJson(output.stdout) : undefined;
  const failed = figures === undefined ? howItEnded(output, number('time-limit')) : undefined;
  return {
    name,
    failed,
    ...figures,
    rowsPerSecond: figures && figures.rows / figures.seconds,
    othersShare: output.othersShare,
    peakResidentBytes: output.peakResidentBytes,
  };
}

function summarize(name, runs) {
  const own = runs.filter((run) => run.name === name);
  const failed = own.find((run) => run.failed !== undefined)?.failed;
  const rates = own.flatMap(({ rowsPerSecond }) => rowsPerSecond ?? []);
  return {
    name,
    failed,
    rows: own[0]?.rows,
    rowsPerSecond: rates.length > 0 ? median(rates) : undefined,
    from: Math.min(...rates),
    to: Math.max(...rates),
    peakResidentBytes: Math.max(...own.map((run) => run.peakResidentBytes)),
  };
}

function report({ date, machine, model, maxNewTokens, workloads }) {
  const text = [
    `# Prompts that begin alike: ${model}`,
    '',
    `${date}. ${machineInWords(machine)}; ${maxNewTokens} new tokens a row, end tokens ignored; medians (least to most) of ${values.runs} runs in turn${values.cap === undefined ? '' : `, each in a memory cgroup of ${values.cap} MiB`}.`,
    '',
  ];
  for (const { name, tokens, distinctTokens, summary } of workloads) {
    const off = summary.find((each) => each.name === 'spillway without sharing')?.rowsPerSecond;
    text.push(
      `## ${name}`,
      '',
      `${tokens.rows} rows of ${Math.round(tokens.prompt / tokens.rows)} tokens, ${distinctTokens} of ${tokens.prompt} prompt tokens computed with sharing.`,
      '',
      ...markdownTable(
        ['tool', 'rows', 'rows a second', 'of Spillway without sharing', 'peak MiB'],
        summary.map((each) =>
          each.rowsPerSecond === undefined
            ? [each.name, '', each.failed, '', '']
            : [
                each.name,
                each.rows,
                `**${each.rowsPerSecond.toFixed(2)}** (${each.from.toFixed(2)} to ${each.to.toFixed(2)})`,
                off === undefined ? '' : `${(each.rowsPerSecond / off).toFixed(2)}x`,
                Math.round(each.peakResidentBytes / 2 ** 20),
              ],
        ),
      ),
      '',
    );
  }
  return text.join('\n');
}

async function main() {
  if (!existsSync(join(HERE, '../dist/index.js'))) fail('Spillway is not built: npm ci && npm run build');
  const chosen = values.only.split(',').map((name) => name.trim());
  const unknown = chosen.find((name) => !Object.hasOwn(WORKLOADS, name));
  if (unknown !== undefined) fail(`--only: found ${unknown}, expected some of ${Object.keys(WORKLOADS).join(', ')}`);
  const { readModel, resolveModel } = await import('../dist/api/models.js');
  const model = await resolveModel(values.model);
  const source = await readModel(model);
  const tools = contenders(model);
  const scratch = mkdtempSync(join(tmpdir(), 'spillway-prefixes-'));
  const workloads = [];
  try {
    for (const name of chosen) {
      const file = join(scratch, 'rows.jsonl');
      await writeTokenRows(file, prefixRows(WORKLOADS[name].levels), source);
      const job = {
        prompts: file,
        maxNewTokens: number('max-new-tokens'),
        threads: number('threads'),
        cacheElements: cacheElements(source),
      };
      const runs = [];
      for (let run = 1; run <= number('runs'); run++) {
        for (const tool of run % 2 === 1 ? tools : [...tools].reverse()) {
          const figures = await runOnce(tool, job, WORKLOADS[name]);
          runs.push(figures);
          process.stderr.write(
            `${name}, run ${run} of ${values.runs}: ${tool.name}: ${figures.failed ?? `${figures.rowsPerSecond.toFixed(2)} rows/s`}\n`,
          );
        }
      }
      const whole = runs.find((run) => run.name === 'spillway' && run.failed === undefined);
      workloads.push({
        name,
        tokens: { rows: whole?.rows, prompt: whole?.promptTokens },
        distinctTokens: whole && whole.promptTokens - whole.promptTokensSaved,
        summary: tools.map((tool) => summarize(tool.name, runs)),
        runs,
      });
    }
    const document = {
      date: new Date().toISOString().slice(0, 10),
      machine: describeMachine(number('threads')),
      model: basename(model),
      maxNewTokens: number('max-new-tokens'),
      workloads,
    };
    const part = chosen.length < Object.keys(WORKLOADS).length ? `-${chosen.join('-').replaceAll(' ', '-')}` : '';
    writeResults(
      values.output,
      `prefixes-${document.date}-${basename(model).replace(/\.gguf$/, '')}${part}`,
      document,
      report(document),
    );
  } finally {
    rmSync(scratch, { recursive: true, force: true });
  }
}

await runMain(main, stopping);
