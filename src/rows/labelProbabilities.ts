import { RowError } from '../errors/RowError.js';
import type { ClassifiedAnswer } from '../KeptAnswer.js';

/**
 * Probabilities of labels from their log-likelihoods, normalised over them, and the most likely one; of equal ones the
 * first. Pure.
 * @param logprobs of each label, natural; minus infinity is one that is never chosen
 * @throws RowError where none has any probability
 */
export function labelProbabilities(labels: readonly string[], logprobs: readonly number[]): ClassifiedAnswer {
  const largest = Math.max(...logprobs);
  if (!Number.isFinite(largest))
    throw new RowError('numeric', 'the model gives none of the labels any probability at all');
  const weights = logprobs.map((logprob) => Math.exp(logprob - largest));
  const total = weights.reduce((sum, weight) => sum + weight, 0);
  const probabilities = weights.map((weight) => weight / total);
  const best = logprobs.indexOf(largest);
  return {
    label: labels[best] ?? '',
    probability: probabilities[best] ?? NaN,
    probabilities: Object.fromEntries(labels.map((label, at) => [label, probabilities[at] ?? NaN])),
  };
}
