/** Order of the prompts' first tokens; one that is another's beginning comes first. */
function compare(a: readonly number[], b: readonly number[]): number {
  const end = Math.min(a.length, b.length);
  for (let at = 0; at < end; at++) {
    const difference = (a[at] ?? 0) - (b[at] ?? 0);
    if (difference !== 0) return difference;
  }
  return a.length - b.length;
}

/**
 * Tokens of prompts that need not be computed because another one begins alike: all of them, less the distinct nodes of
 * their tree. In order, each prompt has as many in common with those before it as with its neighbour. The last token of
 * a prompt is always its own. Pure.
 */
export function commonTokens(prompts: readonly (readonly number[])[]): number {
  let common = 0;
  let before: readonly number[] = [];
  for (const prompt of [...prompts].sort(compare)) {
    const end = Math.min(before.length, prompt.length - 1);
    let at = 0;
    while (at < end && before[at] === prompt[at]) at++;
    common += at;
    before = prompt;
  }
  return common;
}
