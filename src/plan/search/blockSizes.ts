/** Batch sizes worth a try: every one up to 4, then about an eighth apart, multiples of 4. */
export function batchSizes(most: number): number[] {
  const sizes: number[] = [];
  for (let size = 1; size <= most;) {
    sizes.push(size);
    size = size < 4 ? size + 1 : size + Math.max(4, Math.floor(size / 32) * 4);
  }
  if (most > 4 && !sizes.includes(most)) sizes.push(most);
  return sizes;
}

/** Numbers of batches worth a try: every one up to 20 (FlexGen's bound), then about an eighth apart. */
export function batchCounts(most: number): number[] {
  const counts: number[] = [];
  for (let count = 1; count <= most; count += count < 20 ? 1 : Math.max(1, Math.floor(count / 8))) counts.push(count);
  return counts;
}
