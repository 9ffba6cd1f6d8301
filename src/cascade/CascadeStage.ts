import { type Check, checkMembers, checkObject } from '../arguments/checkMembers.js';
import { checkFunction, checkText } from '../arguments/checks.js';
import { found } from '../arguments/found.js';
import { isWithin } from '../arguments/NumberRange.js';
import { object } from '../arguments/memberChecks.js';
import { UsageError } from '../errors/UsageError.js';
import type { RowGenerator } from '../jobs/JobOptions.js';

/** An engine, or what does as one, that answers rows of a cascade. */
export type CascadeEngine = Partial<Pick<RowGenerator, 'generate' | 'classify' | 'resultIdentity'>>;

/** One that was opened for a part of the rows, and is closed after them. */
export type OpenedCascadeEngine = CascadeEngine & AsyncDisposable;

/** A model of a cascade. */
export interface CascadeStage {
  /** The model's name in results: no two alike. */
  readonly name: string;
  /**
   * Answers of which the model is at least so sure stand, from 0 to 1: its `confidence`, or of `classify` the
   * `probability`. The rows of all others, and of errors, go on to the next model. Null: no answer stands. Of the last
   * model, whose answers all do, there is none.
   */
  readonly threshold?: number | null;
  /** One that is open, and stays so. */
  readonly engine?: CascadeEngine;
  /**
   * Or what opens one: models that do not fit into memory together are open one after the other, each for many rows.
   */
  readonly open?: () => Promise<OpenedCascadeEngine>;
  /** Beside `open`: the `resultIdentity` that the engine has. */
  readonly resultIdentity?: object;
}

/** Which models answer, from when on. */
export const STAGES = { least: 2, most: 8 } as const;

const CHECKS: Readonly<Record<keyof CascadeStage, Check>> = {
  name: (name, value) => {
    checkText(name, value, 'what results call the model');
    if (value === '') throw new UsageError(`${name}: found an empty text, expected what results call the model`);
  },
  threshold: (name, value) => {
    if (value !== null && !isThreshold(value))
      throw new UsageError(`${name}: found ${found(value)}, expected a number from 0 to 1, or null`);
  },
  engine: object,
  open: checkFunction,
  resultIdentity: object,
};

function isThreshold(value: unknown): value is number {
  return isWithin(value, { least: 0, most: 1 });
}

/**
 * @param lines whether each has its threshold: not where these are still to be learnt
 * @throws UsageError naming the stage, its member, what was found and what was expected
 */
export function checkStages(stages: unknown, lines: boolean): asserts stages is readonly CascadeStage[] {
  const { least, most } = STAGES;
  if (!Array.isArray(stages) || stages.length < least || stages.length > most)
    throw new UsageError(
      `stages: found ${Array.isArray(stages) ? `${stages.length} models` : found(stages)}, expected a list of ${least} to ${most}`,
    );
  const names = new Set<string>();
  for (const [at, stage] of (stages as readonly unknown[]).entries()) {
    const place = `stages[${at}]`;
    checkMembers(place, stage, CHECKS, `${place}.`);
    const { name, threshold, engine, open } = stage as CascadeStage;
    checkText(`${place}.name`, name, 'what results call the model');
    if ((engine === undefined) === (open === undefined))
      throw new UsageError(
        `${place}: found ${engine ? 'engine and open' : 'no engine'}, expected one of engine and open`,
      );
    if (names.has(name))
      throw new UsageError(`${place}.name: found ${found(name)}, which an earlier model is called, expected each once`);
    names.add(name);
    const last = at === stages.length - 1;
    if (last ? threshold !== undefined : lines && threshold === undefined)
      throw new UsageError(
        last
          ? `${place}.threshold: found ${found(threshold)} of the last model, expected none: there is no next one`
          : `${place}.threshold: found none, expected a number from 0 to 1: below it a row goes on to the next model`,
      );
  }
}

/**
 * Gives the traits of the models that decide results, and from when on each answers; undefined where one of them does
 * not say.
 */
export function identityOfStages(stages: readonly CascadeStage[]): object | undefined {
  const all = stages.map(({ name, threshold, engine, resultIdentity = engine?.resultIdentity }) => ({
    // First what words about a difference should show.
    ...(threshold !== undefined && { threshold }),
    name,
    identity: resultIdentity,
  }));
  return all.every(({ identity }) => identity !== undefined) ? { cascade: all } : undefined;
}

/** @throws UsageError for an engine that is another than was said */
export function checkOpened(name: string, engine: unknown, expected: object | undefined): void {
  checkObject(name, engine);
  const { resultIdentity } = engine as CascadeEngine;
  if (expected === undefined || resultIdentity === undefined) return;
  if (JSON.stringify(resultIdentity) === JSON.stringify(expected)) return;
  throw new UsageError(
    `${name}: found an engine whose results are not those of the one that was told of: ${JSON.stringify(resultIdentity)}, expected ${JSON.stringify(expected)}`,
  );
}
