// The benchmark's products of prompts, beside what cuBLASLt reaches with halves that are ready. Pure.

/**
 * @param bench what bench_cudaKernels prints (`cublasLt`: the library's file, or why it cannot be used;
 * `prefillProducts`), or nothing
 * @returns `products`: name, operations a second of the backend's own kernel (`own`), of the backend through cuBLASLt
 * (`library`) and of cuBLASLt by itself (`peak`), and `share`:
 *   of the faster of the backend's two in the peak; what was not measured is undefined. `why`: the reason where there
 *   is no peak
 */
export function prefillProducts({ cublasLt, prefillProducts: rows = [] } = {}) {
  const products = rows.map(
    ({
      name,
      ownOperationsPerSecond: own,
      cublasLtOperationsPerSecond: library,
      cublasLtPeakOperationsPerSecond: peak,
    }) => {
      const best = Math.max(own ?? 0, library ?? 0);
      return {
        name,
        ...(own > 0 && { own }),
        ...(library > 0 && { library }),
        ...(peak > 0 && { peak }),
        ...(best > 0 && peak > 0 && { share: best / peak }),
      };
    },
  );
  return {
    products,
    ...(products.some(({ share }) => share !== undefined) ? {} : { why: cublasLt ?? 'the benchmark has no such row' }),
  };
}
