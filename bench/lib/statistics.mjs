/** @returns the middle one, or the mean of the two in the middle */
export function median(numbers) {
  const sorted = [...numbers].sort((a, b) => a - b);
  const middle = sorted.length >> 1;
  return sorted.length % 2 === 1 ? sorted[middle] : (sorted[middle - 1] + sorted[middle]) / 2;
}

/** Tokens that two tools chose alike, counted to each row's first difference: after one, texts go apart. */
export function agreement(mine, theirs) {
  let same = 0;
  let rowsAlike = 0;
  let all = 0;
  mine.forEach((row, index) => {
    const first = row.findIndex((token, at) => token !== theirs[index][at]);
    same += first === -1 ? row.length : first;
    rowsAlike += first === -1 ? 1 : 0;
    all += row.length;
  });
  return { rowsAlike, rows: mine.length, tokensBeforeFirstDifference: same, tokens: all };
}
