import type {
  Engine,
  GenerateOptions,
  JobOptions,
  JobTaskName,
  PromptOptions,
  RowGenerator,
  RunOptions,
} from './library.js';

/** A command's task with its rows. */
export interface RowTask {
  readonly name: JobTaskName;
  /** The rows that a plan is made for: how long prompts and answers are. */
  readonly expected: GenerateOptions;
  /** Results a row. */
  readonly samples?: number | undefined;
  /** Files that flags of the command's own name. */
  readonly files?: Readonly<Record<string, string | undefined>>;
  /** Reads these files, and gives the options of rows that come of them. */
  read?(signal: AbortSignal): Promise<GenerateOptions>;
  /** Gives the job's options. @param common options of all tasks */
  task(common: CommonOptions): Pick<JobOptions, 'generate' | 'classify' | 'score' | 'rerank' | 'embed'>;
  /** Gives the methods of the engine that answer the rows. */
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
