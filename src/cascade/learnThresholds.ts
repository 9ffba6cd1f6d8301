import { checkMembers } from '../arguments/checkMembers.js';
import { asyncOf } from '../collections/asyncOf.js';
import { InterruptedError } from '../errors/InterruptedError.js';
import { number } from '../arguments/memberChecks.js';
import type { AnyResult, ClassifyOptions } from '../Results.js';
import type { GenerateOptions, RowInput } from '../Row.js';
import { readableRow } from '../rows/readableRow.js';
import { leastSample } from './binomial.js';
import { method } from './Cascade.js';
import { type CascadeEngine, type CascadeStage, checkStages } from './CascadeStage.js';
import { confidenceOf, saidBy } from './confidence.js';
import { learnedThreshold, type LearnedThreshold } from './learnedThreshold.js';
import { StageEngines } from './StageEngines.js';

/** A cascade's promise about its answers. */
export interface CascadePromise {
  /** This share of all rows has the answer that the last model gives it, above 0 and below 1. */
  readonly target: number;
  /** With this probability over the draw of the sample. Default 0.95. */
  readonly certainty?: number;
}

export interface LearnOptions extends CascadePromise {
  /** The task that is done with rows, and what the models are told. */
  readonly generate?: GenerateOptions;
  readonly classify?: ClassifyOptions;
}

/** A cascade's models with thresholds that keep a promise. */
export interface LearnedCascade {
  readonly stages: readonly CascadeStage[];
  /** By model, but for the last. */
  readonly learned: readonly (LearnedThreshold & { readonly name: string })[];
}

const SHARE = { least: 0, above: true, most: 1 - 2 ** -30 } as const;

/** Computes how much of a promise each threshold may use up, and each test of one. */
function shares({ target, certainty = 0.95 }: CascadePromise, models: number): { risk: number; chance: number } {
  return { risk: (1 - target) / (models - 1), chance: (1 - certainty) / (models - 1) };
}

/**
 * How many rows a sample must have to show what is promised at all: with fewer no answer but the last model's stands.
 * @throws UsageError for shares out of range
 */
export function leastCascadeSample(promise: CascadePromise, models: number): number {
  checkPromise(promise);
  const { risk, chance } = shares(promise, models);
  return leastSample(risk, chance);
}

/**
 * Learns from which confidence on answers of a cascade's models may stand, so that with probability `certainty` over
 * the draw of the sample the share `target` of all rows, at least, has the answer that the last model gives it (see
 * `learnedThreshold`; where there are several thresholds each has an equal part of both, and the promise is their sum:
 * Bonferroni). All models answer the whole sample.
 *
 * @param stages those of a `Cascade`; thresholds that they have are not looked at
 * @param sample rows that were drawn of those to come, each as likely as any other: `Job.drawn`
 * @throws UsageError; and whatever the engines throw
 */
export async function learnThresholds(
  stages: readonly CascadeStage[],
  sample: readonly RowInput[],
  options: LearnOptions,
): Promise<LearnedCascade> {
  checkStages(stages, false);
  const { generate, classify, ...promise } = options;
  checkPromise(promise);
  const { risk, chance } = shares(promise, stages.length);
  const engines = new StageEngines();
  const answers: AnyResult[][] = [];
  try {
    // The last one first: that one is open then with which the cascade begins.
    for (const stage of [...stages].reverse())
      answers.unshift(await answersOf(await engines.of(stage), sample, generate, classify));
  } finally {
    await engines.close();
  }
  const right = (answers.at(-1) ?? []).map(saidBy);
  const learned = stages.slice(0, -1).map(({ name }, at) => ({
    name,
    ...learnedThreshold(
      (answers[at] ?? []).map((result, row) => ({
        confidence: confidenceOf(result),
        agrees: saidBy(result) === right[row],
      })),
      { risk, chance },
    ),
  }));
  return {
    stages: stages.map(({ threshold: _, ...stage }, at) => {
      const threshold = learned[at]?.threshold;
      return threshold === undefined ? stage : { ...stage, threshold };
    }),
    learned,
  };
}

/** By the sample's order. */
async function answersOf(
  engine: CascadeEngine,
  sample: readonly RowInput[],
  generate: GenerateOptions = {},
  classify?: ClassifyOptions,
): Promise<AnyResult[]> {
  const rows = asyncOf(
    sample.map((row, index): RowInput => {
      const { carry: _, ...asked } = readableRow(row);
      return { ...asked, id: index, index, duplicate: false };
    }),
  );
  const { signal } = classify ?? generate;
  const results: AsyncIterable<AnyResult> = classify
    ? method(engine, 'classify')(rows, ofSample(classify))
    : method(engine, 'generate')(rows, { ...ofSample(generate), confidence: true });
  const answers: AnyResult[] = [];
  for await (const result of results) answers[result.index] = result;
  if (signal?.aborted === true) throw new InterruptedError(signal.reason);
  return answers;
}

/** Statistics and traces are the run's, which comes after. */
function ofSample<Options extends Pick<GenerateOptions, 'onStats' | 'onTrace' | 'order'>>(
  options: Options,
): Omit<Options, 'onStats' | 'onTrace'> {
  const { onStats: _stats, onTrace: _trace, ...others } = options;
  return { ...others, order: 'completion' };
}

function checkPromise(promise: CascadePromise): void {
  checkMembers('options', promise, { target: number(SHARE), certainty: number(SHARE) });
  number(SHARE)('target', promise.target);
}
