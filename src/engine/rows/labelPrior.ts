import { createHash } from 'node:crypto';
import { UsageError } from '../../errors/UsageError.js';
import type { Tokenizer } from '../../model/Tokenizer.js';
import type { ClassifyOptions, ScoreOptions, ScoreResult } from '../../Results.js';
import type { Row, RowInput } from '../../Row.js';
import { fieldsOfTemplate } from '../../rows/promptTemplate.js';
import type { Composition } from './Generation.js';
import { isConversation } from './promptTokens.js';
import { RecentAnswers } from './RecentAnswers.js';

/**
 * The parts of a row, beside what it says, that decide how its prompt is made: rows that are alike in them have one
 * prior.
 */
export interface PromptWay extends Pick<Row, 'tools' | 'templateArgs'> {
  /** Through the chat template, as a user's message. */
  readonly chat: boolean;
}

/** Priors that are kept: rows come in few ways, unless each has tools of its own. */
const KEPT = { rows: 1024, bytes: 2 ** 20 };

/** The priors of a run's labels, each found out when the first row of its way comes. */
export class LabelPriors {
  private readonly known = new RecentAnswers<readonly number[]>(KEPT);

  /** @param find makes one */
  constructor(
    private readonly options: ClassifyOptions,
    private readonly tokenizer: Tokenizer,
    private readonly find: (way: PromptWay) => Promise<readonly number[]>,
  ) {}

  /** @param row whose prompt can be made @throws what `find` throws */
  async of(row: Row): Promise<readonly number[]> {
    const { tools, templateArgs } = row;
    const chat = isConversation(row, this.options, this.tokenizer);
    const own = chat && (tools ?? templateArgs ?? undefined) !== undefined;
    const key = own
      ? createHash('sha256')
          .update(JSON.stringify([tools ?? null, templateArgs ?? null]))
          .digest('hex')
      : String(chat);
    const known = this.known.get(key);
    if (known) return known;
    const way = { chat, ...(own && tools && { tools }), ...(own && templateArgs && { templateArgs }) };
    const prior = await this.find(way);
    this.known.put(key, prior);
    return prior;
  }
}

/**
 * Log-probabilities of labels after a prompt that says nothing, made and scored as any row's, in a run of its own.
 * @param text what stands in the place of all that a row says
 * @throws UsageError where no such prompt can be scored
 */
export async function labelPriorOf(
  labels: readonly string[],
  text: string,
  way: PromptWay,
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
    now,
    sharePrefixes,
    reuse,
  } = options;
  const row =
    promptTemplate === undefined
      ? { prompt: text, ...way }
      : { fields: Object.fromEntries(fieldsOfTemplate(promptTemplate).map((field) => [field, text])), ...way };
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
    ...(now !== undefined && { now }),
  };
  for await (const { scores, error } of score([row], asked)) {
    if (scores) return scores.map(({ logprob }) => logprob);
    throw new UsageError(`labelPrior: ${error?.message ?? 'the labels cannot be scored under it'}`);
  }
  throw new UsageError('labelPrior: the engine gave no result for it');
}
