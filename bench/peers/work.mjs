// Whether runs compare: what each has to have computed, and what one is worth that was stopped before.

/**
 * @param {{rows: number, maxNewTokens: number, meanPromptTokens: number}} job
 * @param {number[]} lengths of the prompts
 * @returns {{promptTokens: number, generatedTokens: number}} what the run has to compute; of synthetic prompts the run
 * says how many there were
 */
export function expectedWork(figures, job, lengths) {
  const promptTokens = figures.synthetic
    ? figures.rows * job.meanPromptTokens
    : lengths.slice(0, job.rows).reduce((sum, length) => sum + length, 0);
  return { promptTokens, generatedTokens: (figures.synthetic ? figures.rows : job.rows) * job.maxNewTokens };
}

/**
 * The figures of a run, with rates that compare. One that did other work than it was given is refused. One that the
 * time limit stopped has the rate at which it would be done if all tokens took as long as those so far, which flatters
 * one that was at its prompts still.
 */
export function comparable(figures, job, lengths) {
  const expected = expectedWork(figures, job, lengths);
  if (!figures.stopped) {
    for (const [key, words] of [['promptTokens', 'prompt'], ['generatedTokens', 'new']])
      if (figures[key] !== expected[key])
        throw new Error(`found ${figures[key]} ${words} tokens, expected ${expected[key]}: the runs would not compare`);
    return figures;
  }
  const done = (figures.promptTokens + figures.generatedTokens) / (expected.promptTokens + expected.generatedTokens);
  if (done === 0) throw new Error(`no row had a token after ${figures.seconds.toFixed(0)} s`);
  return {
    ...figures,
    generatedTokensPerSecond: (done * expected.generatedTokens) / figures.seconds,
    promptTokensPerSecond: (done * expected.promptTokens) / figures.seconds,
  };
}

/**
 * Settings of a tool that takes its whole cache at once, without those for which the memory is too small: there is
 * nothing that would refuse them before the system ends some process.
 *
 * @param {object} contender see contenders.mjs
 * @param {{longestRow: number, cacheElements: number}} job
 * @param {{freeBytes: number, modelBytes: number}} memory
 */
export function fittingSettings({ settings, elementBytes, sequencesOf }, job, { freeBytes, modelBytes }) {
  if (elementBytes === undefined) return differingSettings(settings, job);
  // Every share of a context is whole 256 tokens; weights may be there twice, as in the file and repacked.
  const share = Math.ceil(job.longestRow / 256) * 256 * job.cacheElements;
  return settings.filter(
    (setting) => sequencesOf(setting) * share * elementBytes(setting) + 2 * modelBytes <= freeBytes,
  );
}

/**
 * Settings of a tool that admits rows as they come, each once: no more rows are under way, and no more tokens of prompts
 * in a step, than the job has. The first of those that come to the same counts; vLLM takes minutes to open with each.
 *
 * @param {{sequences?: number, batchedTokens?: number}[]} settings
 * @param {{rows: number, meanPromptTokens: number}} job
 */
function differingSettings(settings, { rows, meanPromptTokens }) {
  const seen = new Set();
  return settings.filter(({ sequences, batchedTokens, ...rest }) => {
    const key = JSON.stringify([
      rest,
      sequences && Math.min(sequences, rows),
      batchedTokens && Math.min(batchedTokens, rows * meanPromptTokens),
    ]);
    return !seen.has(key) && seen.add(key);
  });
}
