/** The probability of at most k of n, each of probability p on its own. Sums logarithms: n may be a million. */
export function binomialAtMost(k: number, n: number, p: number): number {
  if (k < 0) return 0;
  if (k >= n || p <= 0) return 1;
  if (p >= 1) return 0;
  const step = Math.log(p) - Math.log1p(-p);
  let log = n * Math.log1p(-p);
  let sum = Math.exp(log);
  for (let i = 1; i <= k; i++) {
    log += Math.log((n - i + 1) / i) + step;
    sum += Math.exp(log);
  }
  return Math.min(1, sum);
}

/**
 * The largest k such that at most k of n is no likelier than `chance` where each has probability p: -1 where there is
 * none, as n is too small.
 */
export function mostAtChance(n: number, p: number, chance: number): number {
  let [least, most] = [-1, n];
  while (least < most) {
    const middle = Math.ceil((least + most) / 2);
    if (binomialAtMost(middle, n, p) <= chance) least = middle;
    else most = middle - 1;
  }
  return least;
}

/** The upper bound of Clopper and Pearson (1934): the probability of which k of n leaves this chance of more. */
export function binomialBound(k: number, n: number, chance: number): number {
  if (k >= n) return 1;
  let [least, most] = [k / n, 1];
  for (let i = 0; i < 60; i++) {
    const middle = (least + most) / 2;
    if (binomialAtMost(k, n, middle) > chance) least = middle;
    else most = middle;
  }
  return most;
}

/** How many rows a sample needs, so that it can show at all that something is no likelier than p. */
export function leastSample(p: number, chance: number): number {
  return Math.ceil(Math.log(chance) / Math.log1p(-p));
}
