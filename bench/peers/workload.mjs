// What both runners share: the job that they are given, and the figures that they report, on one line of JSON.
import { readFileSync, writeFileSync } from 'node:fs';

/** The job, as bench/peers.mjs writes it on the command line: {model, prompts, rows, maxNewTokens, threads, sequences, tokensFile?}. */
export const job = JSON.parse(process.argv[2] ?? 'null');
if (job === null) {
  process.stderr.write('this file is started by bench/peers.mjs\n');
  process.exit(1);
}

export const rows = readFileSync(job.prompts, 'utf8').trim().split('\n').slice(0, job.rows).map((line) => JSON.parse(line));

/**
 * @param {{version: string, loadSeconds: number, seconds: number, promptTokens: number, tokens: number[][], settings: object}} result
 *   `seconds` runs from the first row handed over to the last row done; opening the model is `loadSeconds`. `tokens`: a row's new tokens, in order of input.
 */
export function report({ version, loadSeconds, seconds, promptTokens, tokens, settings }) {
  const generated = tokens.reduce((sum, row) => sum + row.length, 0);
  const short = tokens.findIndex((row) => row.length !== job.maxNewTokens);
  if (short !== -1) throw new Error(`row ${short} has ${tokens[short].length} new tokens, expected ${job.maxNewTokens}: the runs would not compare`);
  const usage = process.resourceUsage();
  if (job.tokensFile) writeFileSync(job.tokensFile, JSON.stringify(tokens));
  process.stdout.write(
    `${JSON.stringify({
      version,
      settings,
      loadSeconds,
      seconds,
      rows: tokens.length,
      promptTokens,
      generatedTokens: generated,
      generatedTokensPerSecond: generated / seconds,
      promptTokensPerSecond: promptTokens / seconds,
      cpuSeconds: (usage.userCPUTime + usage.systemCPUTime) / 1e6,
      peakResidentBytes: usage.maxRSS * 1024,
    })}\n`,
  );
}
