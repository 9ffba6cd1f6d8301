import { UsageError } from '../../errors/UsageError.js';
import type { ClassifyOptions, ScoreOptions, ScoreResult } from '../../Results.js';
import type { RowInput } from '../../Row.js';
import { fieldsOfTemplate } from '../../rows/promptTemplate.js';
import type { Composition } from './Generation.js';

/**
 * Log-probabilities of labels behind a prompt that says nothing, made and scored as any row's, in a run of its own.
 * @param text what stands in the place of all that a row says
 * @throws UsageError where no such prompt can be scored
 */
export async function labelPriorOf(
  labels: readonly string[],
  text: string,
  options: ClassifyOptions & Composition,
  score: (rows: readonly RowInput[], options: ScoreOptions & Composition) => AsyncIterable<ScoreResult>,
): Promise<readonly number[]> {
  const {
    labelEnd,
    signal,
    escapeSpecialTokens,
    promptTemplate,
    system,
    chat,
    tools,
    templateArgs,
    sharePrefixes,
    reuse,
  } = options;
  const row =
    promptTemplate === undefined
      ? { prompt: text }
      : { fields: Object.fromEntries(fieldsOfTemplate(promptTemplate).map((field) => [field, text])) };
  const asked = {
    completions: labels,
    ...(labelEnd !== undefined && { completionEnd: labelEnd }),
    ...(signal && { signal }),
    ...(sharePrefixes !== undefined && { sharePrefixes }),
    ...(escapeSpecialTokens !== undefined && { escapeSpecialTokens }),
    ...(promptTemplate !== undefined && { promptTemplate }),
    ...(system !== undefined && { system }),
    ...(chat !== undefined && { chat }),
    ...(reuse && { reuse }),
    ...(tools && { tools }),
    ...(templateArgs && { templateArgs }),
  };
  for await (const { scores, error } of score([row], asked)) {
    if (scores) return scores.map(({ logprob }) => logprob);
    throw new UsageError(`labelPrior: ${error?.message ?? 'the labels cannot be scored under it'}`);
  }
  throw new UsageError('labelPrior: the engine gave no result for it');
}
