import { RowError } from '../../errors/RowError.js';
import { UsageError } from '../../errors/UsageError.js';
import type { SequenceClassifier } from '../../model/ModelSource.js';
import type { Tokenizer } from '../../model/Tokenizer.js';
import type { RerankOptions } from '../../Results.js';
import type { AnswerTask } from './answerIntake.js';
import { candidatesLook, type HeadInput, type Look, pooledLook } from './HeadedRow.js';
import { documentsOf, type HeadSetup, preparedInputs, sigmoid, textOf } from './headTasks.js';
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
  const encoded = (text: string): readonly number[] =>
    tokenizer.encode(text, { specialTokens: false, parseSpecial: options.escapeSpecialTokens !== true });
  return {
    kind: 'rerank',
    *prepare(row) {
      const asked = `<Instruct>: ${instruction}\n<Query>: ${textOf(row, 'query')}\n<Document>: `;
      let cut = 0;
      const inputs = documentsOf(row).map((document): HeadInput => {
        const whole = [...before, ...encoded(asked + document), ...after];
        if (whole.length <= limits.contextTokens) return { tokens: whole };
        const [head, tokens] = [[...before, ...encoded(asked)], encoded(document)];
        const room = limits.contextTokens - head.length - after.length;
        if (truncate === 'off' || room < 1)
          throw new RowError(
            'too-long',
            `a query and a document have ${whole.length} tokens, the model's context holds ${limits.contextTokens}`,
          );
        const kept = keptOf(tokens, Math.min(room, tokens.length), truncate);
        cut += tokens.length - kept.length;
        return { tokens: [...head, ...kept, ...after] };
      });
      yield;
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
