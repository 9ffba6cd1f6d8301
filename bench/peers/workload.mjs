// What the runners share: the job that they are given, and the figures that they report, on one line of JSON.
import { readFileSync, writeFileSync } from 'node:fs';

/**
 * The job, as the benchmarks write it on the command line: {model, prompts, rows, maxNewTokens, threads, tokensFile?,
 * timeLimitSeconds?, setting}. `setting` is the runner's own.
 */
export const job = JSON.parse(process.argv[2] ?? 'null');
if (job === null) {
  process.stderr.write('this file is started by the benchmarks of this folder\n');
  process.exit(1);
}

/** Rows {id, tokens}: every tool gets the same ids, so that none gains or loses by its tokenizer. */
export const rows = readFileSync(job.prompts, 'utf8').trim().split('\n').slice(0, job.rows).map((line) => JSON.parse(line));

/**
 * @param {{version: string, loadSeconds: number, seconds: number, promptTokens: number, tokens: number[][], settings:
 * object, stopped?: boolean}} result
 *   `seconds` runs from the first row handed over to the last row done; opening the model is `loadSeconds`. `tokens`: a
 *   row's new tokens, in order of input. `stopped`: the time limit came first, so rows may be short. Other figures are
 *   passed on.
 */
export function report({ version, loadSeconds, seconds, promptTokens, tokens, settings, stopped = false, ...others }) {
  const generated = tokens.reduce((sum, row) => sum + row.length, 0);
  const short = tokens.findIndex((row) => row.length !== job.maxNewTokens);
  if (!stopped && short !== -1) throw new Error(`row ${short} has ${tokens[short].length} new tokens, expected ${job.maxNewTokens}: the runs would not compare`);
  if (job.tokensFile) writeFileSync(job.tokensFile, JSON.stringify(tokens));
  const usage = process.resourceUsage();
  process.stdout.write(
    `${JSON.stringify({
      version,
      settings,
      stopped,
      loadSeconds,
      seconds,
      rows: tokens.length,
      promptTokens,
      generatedTokens: generated,
      generatedTokensPerSecond: generated / seconds,
      promptTokensPerSecond: promptTokens / seconds,
      peakResidentBytes: usage.maxRSS * 1024,
      ...others,
    })}\n`,
  );
}
