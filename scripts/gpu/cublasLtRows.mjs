// The benchmark's rows about cuBLASLt, each beside the backend's own product of the same size. Pure.

const CUBLASLT = /\bcublaslt\b/i;

/** Type, sizes and rows that a name speaks of: what two rows have to have in common. */
function sizeOf(name) {
  return (name.match(/\b(?:Q\d_\S+|F16|F32|BF16)\b|\d+(?:x\d+)+|rows \d+/g) ?? []).sort().join(' ');
}

/**
 * @param bench what bench_cudaKernels prints, or nothing
 * @returns name, operations a second of cuBLASLt and of the backend's own kernel where both were measured, and their share; a row that says its `shareOfCublasLt` itself is believed
 */
export function cublasLtRows({ results = [] } = {}) {
  const own = results.filter(({ name }) => !CUBLASLT.test(name));
  const rows = results.filter(({ name }) => CUBLASLT.test(name)).map((row) => {
    const other = own.find(({ name }) => /^(multiply|product|prefill)/i.test(name) && sizeOf(name) === sizeOf(row.name));
    const share = row.shareOfCublasLt ?? (other && row.seconds / other.seconds);
    return { name: row.name.replace(CUBLASLT, '').replace(/\s+/g, ' ').trim(), cublasLtSeconds: row.seconds, cublasLtFlopsPerSecond: row.flopsPerSecond, ...(other && { ownSeconds: other.seconds, ownFlopsPerSecond: other.flopsPerSecond }), ...(share !== undefined && { shareOfPeak: share }) };
  });
  const stated = own.filter(({ shareOfCublasLt }) => shareOfCublasLt !== undefined).map(({ name, seconds, flopsPerSecond, shareOfCublasLt }) => ({ name, ownSeconds: seconds, ownFlopsPerSecond: flopsPerSecond, shareOfPeak: shareOfCublasLt }));
  return [...rows, ...stated];
}
