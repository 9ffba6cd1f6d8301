// Compares greedy answers of two devices that round otherwise, as the tests in test/gpu do: where the two likeliest
// tokens are closer than rounding may move them either may come, and the rest of that row is another text.

/**
 * @param expected results of one device, with log-probabilities of the two likeliest tokens
 * @param found those of the other
 * @param tolerance how far rounding may move a token's log-probability
 * @returns `rows`, and how many of them are equal token by token; `tokens` in all, those `compared` (before a row's
 * first difference); `ties`: row, token and
 *   the gap of log-probabilities where a row went another way; `worst` difference of a log-probability; `wrong`: what
 *   is no rounding, in words
 */
export function compareAnswers(expected, found, tolerance) {
  const outcome = { rows: expected.length, equal: 0, tokens: 0, compared: 0, ties: [], worst: 0, wrong: [] };
  if (expected.length !== found.length) outcome.wrong.push(`${found.length} rows, expected ${expected.length}`);
  expected.forEach((row, index) => {
    outcome.tokens += row.tokens.length;
    const other = found[index];
    if (other !== undefined) compareRow(row, other, tolerance, outcome);
  });
  return outcome;
}

function compareRow(row, other, tolerance, outcome) {
  const wrong = (what) => {
    outcome.wrong.push(`row ${row.id}${what}`);
  };
  if (other.id !== row.id || row.error || other.error)
    return wrong(`: ${JSON.stringify(row.error ?? other.error ?? `found row ${other.id}`)}`);
  for (const [step, token] of row.tokens.entries()) {
    const [at, there] = [row.logprobs?.[step], other.logprobs?.[step]];
    if (!at || (!there && other.tokens[step] !== undefined)) return wrong(`, token ${step}: no log-probability`);
    if (other.tokens[step] !== token) {
      const taken = at.top.find((each) => each.token === other.tokens[step]);
      const gap = taken === undefined ? Infinity : at.logprob - taken.logprob;
      if (!(gap <= 2 * tolerance))
        return wrong(
          `, token ${step}: found ${other.tokens[step]}, expected ${token}, which is likelier by ${taken === undefined ? 'far' : gap.toPrecision(3)}`,
        );
      outcome.ties.push({ row: row.id, token: step, gap });
      return undefined;
    }
    const difference = Math.abs(at.logprob - there.logprob);
    if (!(difference <= tolerance))
      return wrong(`, token ${step}: log-probability ${there.logprob}, expected ${at.logprob}`);
    outcome.worst = Math.max(outcome.worst, difference);
    outcome.compared++;
  }
  if (other.tokens.length !== row.tokens.length)
    return wrong(`: ${other.tokens.length} tokens, expected ${row.tokens.length}`);
  outcome.equal++;
  return undefined;
}
