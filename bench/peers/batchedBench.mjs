// llama-batched-bench of llama.cpp and of ik_llama.cpp: what they are given, and how their table is read.

/**
 * Synthetic prompts, all of one length, in one block: no row waits for a longer one, and none is tokenized or sampled.
 * So it flatters the library.
 *
 * @param {{model: string, rows: number, promptTokens: number, maxNewTokens: number, threads: number}} work
 * `promptTokens`: of every row; where there are fewer rows than sequences, these are all
 * @param {{sequences: number, arguments?: string[], contextTokens?: number}} setting
 */
export function batchedBenchArguments({ model, rows, promptTokens, maxNewTokens, threads }, { sequences: most, arguments: own = [], contextTokens }) {
  const sequences = Math.min(most, rows);
  // A context is divided among its sequences, and every share rounded up to 256.
  const share = Math.ceil((promptTokens + maxNewTokens) / 256) * 256;
  return [
    '-m', model, '-c', String(contextTokens ?? sequences * share), '-b', '2048', '-ub', '512',
    '-npp', String(promptTokens), '-ntg', String(maxNewTokens), '-npl', String(sequences), '-t', String(threads), '-tb', String(threads), ...own,
  ];
}

/** @returns the figures of the one row of the table that the program prints; undefined if it printed none */
export function readBatchedBench(output) {
  for (const line of output.split('\n')) {
    const cells = line.split('|').slice(1, -1).map((cell) => cell.trim());
    const numbers = cells.map(Number);
    if (cells.length !== 10 || numbers.some((number) => !Number.isFinite(number))) continue;
    const [prompt, generated, sequences, , prefillSeconds, , decodeSeconds] = numbers;
    const seconds = prefillSeconds + decodeSeconds;
    const [promptTokens, generatedTokens] = [prompt * sequences, generated * sequences];
    return {
      rows: sequences, seconds, promptTokens, generatedTokens,
      generatedTokensPerSecond: generatedTokens / seconds,
      promptTokensPerSecond: promptTokens / seconds,
      prefillSeconds, decodeSeconds, decodedTokens: generatedTokens, stopped: false,
    };
  }
  return undefined;
}
