import type { Work } from '../../collections/drained.js';
import { RowError } from '../../errors/RowError.js';
import { UsageError } from '../../errors/UsageError.js';
import type { SequenceClassifier } from '../../model/ModelSource.js';
import type { Tokenizer } from '../../model/Tokenizer.js';
import type { RerankOptions } from '../../Results.js';
import type { AnswerTask } from './answerIntake.js';
import { candidatesLook, type HeadInput, type Look, pooledLook } from './HeadedRow.js';
import { documentsOf, type HeadSetup, preparedInputs, sigmoid, textOf } from './headTasks.js';
import { countedTokens, type PromptTokens } from './promptTokens.js';
import { keptOf } from './truncate.js';

/** Qwen3-Reranker's own words. */
const BEFORE =
  '<|im_start|>system\nJudge whether the Document meets the requirements based on the Query and the Instruct provided. Note that the answer can only be "yes" or "no".<|im_end|>\n<|im_start|>user\n';
const AFTER = '<|im_end|>\n<|im_start|>assistant\n<think>\n\n</think>\n\n';
const INSTRUCTION = 'Given a web search query, retrieve relevant passages that answer the query';
const FAMILIES: ReadonlySet<string> = new Set(['qwen3']);

/** Tells whether a model that generates is of a kind that is asked whether a document answers a query. */
export function judges({ family }: { readonly family: string }, classifier?: SequenceClassifier): boolean {
  return FAMILIES.has(family) && (classifier === undefined || String(classifier.labels) === 'yes,no');
}

/**
 * How well documents answer a query, by a model that is asked, and says yes or no (Qwen3-Reranker). Documents of one
 * query have its tokens, and what goes before them, from the first of them.
 * @throws UsageError for a model without the tokens that this takes
 */
export function judgedTask(
  options: RerankOptions,
  setup: Omit<HeadSetup, 'classifier'> & { readonly classifier: SequenceClassifier | undefined },
): AnswerTask<'rerank'> {
  const { tokenizer, limits } = setup;
  const { instruction = INSTRUCTION, truncate = 'off' } = options;
  const [before, after] = [BEFORE, AFTER].map((text) => tokenizer.encode(text, { specialTokens: false })) as [
    number[],
    number[],
  ];
  // Where the file has nothing of the head but the two words' rows, in this order, these tell.
  const look: Look = setup.classifier
    ? { ...pooledLook('last'), shares: true }
    : candidatesLook(['yes', 'no'].map((word) => wordToken(tokenizer, word)));
  /** @param all whether each of them is needed, and not the first ones alone */
  const tokensOf = (text: string, all: boolean): Work<PromptTokens> =>
    countedTokens(text, tokenizer, all ? Infinity : limits.contextTokens, {
      specialTokens: false,
      parseSpecial: options.escapeSpecialTokens !== true,
    });
  return {
    kind: 'rerank',
    *prepare(row) {
      const asked = `<Instruct>: ${instruction}\n<Query>: ${textOf(row, 'query')}\n<Document>: `;
      let cut = 0;
      const inputs: HeadInput[] = [];
      for (const document of documentsOf(row)) {
        yield;
        const { tokens: text, count } = yield* tokensOf(asked + document, false);
        const all = before.length + count + after.length;
        if (all <= limits.contextTokens) {
          inputs.push({ tokens: [...before, ...text, ...after] });
          continue;
        }
        const head = yield* tokensOf(asked, false);
        const room = limits.contextTokens - before.length - head.count - after.length;
        if (truncate === 'off' || room < 1)
          throw new RowError(
            'too-long',
            `a query and a document have ${all} tokens, the model's context holds ${limits.contextTokens}`,
          );
        const own = yield* tokensOf(document, truncate !== 'tail');
        const kept = keptOf(own.tokens, Math.min(room, own.count), truncate);
        cut += own.count - kept.length;
        inputs.push({ tokens: [...before, ...head.tokens, ...kept, ...after] });
      }
      return preparedInputs<'rerank'>(inputs, cut > 0 ? cut : undefined, ['judged'], look, setup, (outputs) => ({
        scores: outputs.map(([yes = NaN, no = NaN]) => ({ score: sigmoid(yes - no), logit: yes - no })),
      }));
    },
  };
}

/** @throws UsageError */
function wordToken(tokenizer: Tokenizer, word: string): number {
  const [token, ...more] = tokenizer.encode(word, { specialTokens: false });
  if (token === undefined || more.length > 0)
    throw new UsageError(
      `rerank: found a model to which ${word} is ${more.length === 0 ? 'no token' : `${more.length + 1} tokens`}, expected one that is asked for yes or no, such as Qwen3-Reranker, or a cross-encoder`,
    );
  return token;
}
