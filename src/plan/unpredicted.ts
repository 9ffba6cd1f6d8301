import * as z from 'zod';

/**
 * Options of an engine that a run's policy names because they change its results, and that no cost model knows:
 * `Engine.open` follows them, `predict` says in its warning that the figures are without them. Sparse attention is one
 * of them to the papers' models.
 */
export interface UnpredictedOptions {
  readonly precision?: 'default' | 'float32' | undefined;
  readonly gpuProducts?: 'own' | 'cublaslt' | 'auto' | undefined;
}

/** For a schema. */
export const UNPREDICTED_CHECKS = {
  precision: z.enum(['default', 'float32']).optional(),
  gpuProducts: z.enum(['own', 'cublaslt', 'auto']).optional(),
};

/** Cost models that know nothing of sparse attention. */
const OF_PAPERS: readonly string[] = ['flexgen', 'flexgen-paper', 'lm-offload'];

/** The predicted values: as good as not naming the option. */
const PREDICTED: Readonly<Required<UnpredictedOptions>> = {
  precision: 'default',
  gpuProducts: 'own',
};

/**
 * Lists what of a policy is not predicted, in words such as `precision float32`.
 * @param costModel that predicts. Default: Spillway's own
 */
export function unpredictedOf(
  policy: UnpredictedOptions & { readonly sparseAttention?: number | undefined },
  costModel = 'spillway',
): string[] {
  const { sparseAttention = 1 } = policy;
  return [
    ...(OF_PAPERS.includes(costModel) && sparseAttention < 1 ? [`sparseAttention ${sparseAttention}`] : []),
    ...(Object.keys(PREDICTED) as (keyof UnpredictedOptions)[]).flatMap((name) => {
      const { [name]: value = PREDICTED[name] } = policy;
      return value === PREDICTED[name] ? [] : [`${name} ${value}`];
    }),
  ];
}
