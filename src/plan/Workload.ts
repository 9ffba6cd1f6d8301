import * as z from 'zod';

/** The rows that are to be generated, all alike. */
export interface Workload {
  readonly promptTokens: number;
  readonly newTokens: number;
  /**
   * The tokens of a prompt with which all prompts begin: fewer than a prompt has. Computed once, and kept once; but
   * beside a GPU with pages on disk that the processor attends to, and in the papers' models, by every row. Default 0.
   */
  readonly sharedPrefixTokens?: number | undefined;
  /**
   * Tokens of each prompt, fewer than it has without those that all share, whose keys and values come from elsewhere,
   * each row's its own. Default 0.
   */
  readonly givenTokens?: number | undefined;
  /** How many there are. Default: without end, which is to say whole blocks of them. */
  readonly rows?: number | undefined;
  /**
   * Pages of the KV cache in memory, where rows at their full length would take more: rows of all ages share them.
   * Default: as many as they would take.
   */
  readonly cachePages?: number | undefined;
  /**
   * Rows that come in a sweep at most, where memory sets the pace of a diagonal block (memory/AdmissionPace). Default:
   * as many as there are places.
   */
  readonly admittedPerSweep?: number | undefined;
}

const count = z.int().min(1);

export const workloadSchema: z.ZodType<Workload> = z.strictObject({
  promptTokens: count,
  newTokens: count,
  sharedPrefixTokens: z.int().min(0).optional(),
  givenTokens: z.int().min(0).optional(),
  rows: count.optional(),
  cachePages: z.number().positive().optional(),
  admittedPerSweep: z.number().positive().optional(),
});
