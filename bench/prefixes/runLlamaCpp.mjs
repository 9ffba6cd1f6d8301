// llama.cpp over prompts that begin alike. Usage: runLlamaCpp.mjs JOB (JSON: program, model; levels, rows,
// maxNewTokens, threads)
//
// llama-batched-bench knows no rows: with -pps all sequences go on from one prompt, which is computed once and shared
// in the cache, and what rows have of their own is none. So the prompts' own ends are a run by themselves, without what
// they would attend to, and times are added up: that flatters it, as does that nothing is sampled.
import { spawnSync } from 'node:child_process';
import { batchedBenchArguments, readBatchedBench } from '../peers/batchedBench.mjs';

const { program, model, levels, rows: wanted, maxNewTokens, threads } = JSON.parse(process.argv[2]);
const SEQUENCES = [32, 64, 128];
const shared = levels.slice(0, -1);
if (shared.some(({ branches }) => branches > 1))
  throw new Error('found prompts with several beginnings, expected one: the program shares nothing less');
const [common, own] = [shared.reduce((sum, { words }) => sum + words, 0), levels.at(-1).words];
const rows = Math.min(wanted ?? Infinity, levels.at(-1).branches);

/** Seconds of prompts, and of new tokens, for so many rows at once. */
function run(promptTokens, newTokens, sequences, more = []) {
  const setting = { sequences, arguments: more, contextTokens: (promptTokens + newTokens + 16) * sequences };
  const { stdout, stderr } = spawnSync(
    program,
    batchedBenchArguments({ model, promptTokens, maxNewTokens: newTokens, threads }, setting),
    { encoding: 'utf8', maxBuffer: 2 ** 28 },
  );
  const figures = readBatchedBench(stdout) ?? readBatchedBench(stderr);
  if (figures === undefined)
    throw new Error(`${program} printed no table: ${stderr.trim().split('\n').slice(-3).join(' / ')}`);
  return figures;
}

let best;
for (const sequences of SEQUENCES.filter((each) => each <= rows)) {
  const times = rows / sequences;
  const beginning = common > 0 ? run(common, maxNewTokens, sequences, ['-pps']) : undefined;
  const ends = run(own, common > 0 ? 1 : maxNewTokens, sequences);
  const seconds =
    (beginning ? beginning.prefillSeconds + beginning.decodeSeconds * times : ends.decodeSeconds * times) +
    ends.prefillSeconds * times;
  if (best === undefined || seconds < best.seconds) best = { rows, seconds, sequences };
}
process.stdout.write(`${JSON.stringify(best)}\n`);
