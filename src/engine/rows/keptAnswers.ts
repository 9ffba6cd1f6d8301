import { found } from '../../arguments/found.js';
import { isObject, membersOf } from '../../arguments/isObject.js';
import { UsageError } from '../../errors/UsageError.js';
import type { KeptAnswers } from '../../KeptAnswer.js';

interface Form<Answer> {
  readonly words: string;
  /** The answer, and nothing else; undefined for what is none. */
  readonly of: (members: Readonly<Record<string, unknown>>) => Answer | undefined;
}

const FORMS: { readonly [Task in keyof KeptAnswers]: Form<KeptAnswers[Task]> } = {
  generate: {
    words: 'text, tokens and a finishReason of stop or length',
    of: ({ text, reasoning, tokens, finishReason, logprobs }) => {
      const texts = typeof text === 'string' && (reasoning === undefined || typeof reasoning === 'string');
      if (!texts || !Array.isArray(tokens) || (finishReason !== 'stop' && finishReason !== 'length')) return undefined;
      const answer = {
        text,
        ...(reasoning !== undefined && { reasoning }),
        tokens: tokens as number[],
        finishReason,
      } as const;
      return Array.isArray(logprobs)
        ? { ...answer, logprobs: logprobs as KeptAnswers['generate']['logprobs'] & object }
        : answer;
    },
  },
  classify: {
    words: 'a label, its probability and probabilities',
    of: ({ label, probability, probabilities }) => {
      if (typeof label !== 'string' || typeof probability !== 'number' || !isObject(probabilities)) return undefined;
      return { label, probability, probabilities: probabilities as KeptAnswers['classify']['probabilities'] };
    },
  },
  score: {
    words: 'scores',
    of: ({ scores }) => (Array.isArray(scores) ? { scores: scores as KeptAnswers['score']['scores'] } : undefined),
  },
  embed: {
    words: 'an embedding',
    of: ({ embedding }) =>
      Array.isArray(embedding) || typeof embedding === 'string'
        ? { embedding: embedding as KeptAnswers['embed']['embedding'] }
        : undefined,
  },
};

/** What a store has given, which may be anybody's, as an answer of a task. @throws UsageError */
export function keptAnswer<Task extends keyof KeptAnswers>(task: Task, given: unknown): KeptAnswers[Task] | undefined {
  if (given === undefined) return undefined;
  const { words, of } = FORMS[task];
  const answer = of(membersOf(given));
  if (answer) return answer;
  throw new UsageError(`reuse: found ${found(given)} from get, expected undefined or an answer with ${words}`);
}
