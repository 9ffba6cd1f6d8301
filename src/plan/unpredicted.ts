import * as z from 'zod';

/**
 * Options of an engine that a run's policy names because they change its results, and that no cost model knows:
 * `Engine.open` follows them, `predict` says in its warning that the figures are without them.
 */
export interface UnpredictedOptions {
  readonly sparseAttention?: number | undefined;
  readonly precision?: 'default' | 'float32' | undefined;
  readonly gpuProducts?: 'own' | 'cublaslt' | 'auto' | undefined;
}

/** For a schema. */
export const UNPREDICTED_CHECKS = {
  sparseAttention: z.number().positive().max(1).optional(),
  precision: z.enum(['default', 'float32']).optional(),
  gpuProducts: z.enum(['own', 'cublaslt', 'auto']).optional(),
};

/** The predicted values: as good as not naming the option. */
const PREDICTED: Readonly<Required<UnpredictedOptions>> = {
  sparseAttention: 1,
  precision: 'default',
  gpuProducts: 'own',
};

/** Lists what of a policy is not predicted, in words such as `sparseAttention 0.1`. */
export function unpredictedOf(policy: UnpredictedOptions): string[] {
  return (Object.keys(PREDICTED) as (keyof UnpredictedOptions)[]).flatMap((name) => {
    const { [name]: value = PREDICTED[name] } = policy;
    return value === PREDICTED[name] ? [] : [`${name} ${value}`];
  });
}
