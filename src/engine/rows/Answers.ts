import type {
  ClassifyOptions,
  ClassifyResult,
  EmbedOptions,
  EmbedResult,
  RerankOptions,
  RerankResult,
  ScoreOptions,
  ScoreResult,
} from '../../Results.js';
import type { Composition } from './Generation.js';

/** The tasks that can be asked of rows beside generating. */
export interface Answers {
  readonly classify: { readonly options: ClassifyOptions & Composition; readonly result: ClassifyResult };
  readonly score: { readonly options: ScoreOptions & Composition; readonly result: ScoreResult };
  readonly rerank: { readonly options: RerankOptions & Composition; readonly result: RerankResult };
  readonly embed: { readonly options: EmbedOptions & Composition; readonly result: EmbedResult };
}
export type AnswerKind = keyof Answers;
