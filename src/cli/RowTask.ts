import type {
  Engine,
  GenerateOptions,
  JobOptions,
  JobTaskName,
  PromptOptions,
  RowGenerator,
  RunOptions,
} from './library.js';

/** What a command does with rows. */
export interface RowTask {
  readonly name: JobTaskName;
  /** What rows are planned for: how long prompts and answers are. */
  readonly expected: GenerateOptions;
  /** Results a row. */
  readonly samples?: number | undefined;
  /** Files that flags of the command's own name. */
  readonly files?: Readonly<Record<string, string | undefined>>;
  /** What rows are told beside their prompts, with those files read. */
  read?(signal: AbortSignal): Promise<GenerateOptions>;
  /** What the job does. @param common what all tasks are told */
  task(common: CommonOptions): Pick<JobOptions, 'generate' | 'classify' | 'score' | 'rerank' | 'embed'>;
  /** What the engine does. */
  answer(
    engine: Engine,
    composition: Pick<RunOptions, 'peers' | 'microBatches' | 'reuse' | 'sharePrefixes' | 'lookAhead' | 'pipeline'>,
  ): Partial<RowGenerator>;
}

/** Reasoning is for rows that are generated alone. */
export type CommonOptions = Pick<
  GenerateOptions,
  | 'order'
  | 'rowTimeout'
  | 'signal'
  | 'onProgress'
  | 'onStats'
  | 'onTrace'
  | 'reasoning'
  | 'toolChoice'
  | 'parallelToolCalls'
  | 'responseFormat'
  | 'schemaInPrompt'
  | keyof PromptOptions
>;
