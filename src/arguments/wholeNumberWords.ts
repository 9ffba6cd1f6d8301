/** The whole numbers that were expected, in words. The largest that JavaScript can tell from its neighbours is named where a value is beyond it. */
export function wholeNumberWords(value: unknown, least: number, most = Number.MAX_SAFE_INTEGER): string {
  const beyond = typeof value === 'number' && value > most;
  return most === Number.MAX_SAFE_INTEGER && !beyond ? `a whole number of at least ${least}` : `a whole number from ${least} to ${most}`;
}
