import { isObservable } from 'rxjs';
import { checkObject } from '../arguments/checkMembers.js';
import { found } from '../arguments/found.js';
import type { AnswerRunOptions, GenerationSource, RunOptions } from '../engine/rows/Generation.js';
import type { RowSource } from '../Engine.js';
import { UsageError } from '../errors/UsageError.js';
import { pulled } from '../operators/pulled.js';
import type { ClassifyOptions, ClassifyResult } from '../Results.js';
import type { RowInput, RowResult } from '../Row.js';
import { cascadeResults } from './cascadeResults.js';
import { type CascadeEngine, type CascadeStage, checkStages, identityOfStages } from './CascadeStage.js';

/**
 * Models of which each answers the rows that those before were not sure enough of; results say which `model` answered.
 * It stands where an engine does: in `runJob`, and in operators such as `offloadGenerate(cascade, options)`.
 *
 * Rows go to the first model until as many wait for others as may (32 MiB; or 4,096 rows, where all engines are open),
 * then to the next, and so on in turn: memory stays the same whatever the number of rows, results come in order, and
 * models that do not fit together are open one after the other (`open`).
 *
 * @example
 * const models = new Cascade([{ name: 'small', engine: small, threshold: 0.8 }, { name: 'large', engine: large }]);
 * for await (const row of models.generate(rows, { responseFormat })) console.log(row.text, row.model);
 */
export class Cascade implements GenerationSource {
  /** The traits of the models that decide results; undefined where one of them does not say. */
  readonly resultIdentity?: object;
  /** Its models' names in results, in order. */
  readonly models: readonly string[];
  /** Stages: what has been thought of, and is asked of none. */
  private readonly stages: readonly CascadeStage[];

  /**
   * @param identity what else decides results, such as how thresholds were learnt
   * @throws UsageError naming the stage, its member, what was found and what was expected
   */
  constructor(stages: readonly CascadeStage[], identity: object = {}) {
    checkStages(stages, true);
    this.stages = [...stages];
    this.models = stages.map(({ name }) => name);
    const own = identityOfStages(stages);
    if (own) this.resultIdentity = { ...identity, ...own };
  }

  /**
   * Generates an answer for each row, as `Engine.generate` does, whose `confidence` says whether it stands.
   *
   * @throws UsageError for options that a cascade has no room for; and whatever its engines throw, and `open`
   */
  generate(rows: RowSource, options: RunOptions = {}): AsyncGenerator<RowResult, void, undefined> {
    checkObject('options', options);
    const other = (['samples', 'onDelta', 'peers'] as const).find((name) => options[name] !== undefined);
    if (other !== undefined)
      throw new UsageError(`${other}: found it in a cascade, expected one answer a row, of whichever model`);
    return cascadeResults<RowResult>(this.stages, pulledRows(rows), options, (engine, given, told) =>
      method(engine, 'generate')(given, { ...options, ...told, confidence: true }),
    );
  }

  /** Tells how likely labels are, as `Engine.classify` does: `probability` says whether a row's label stands. */
  classify(
    rows: RowSource,
    options: AnswerRunOptions<ClassifyOptions> = {},
  ): AsyncGenerator<ClassifyResult & Pick<RowResult, 'model'>, void, undefined> {
    checkObject('options', options);
    return cascadeResults<ClassifyResult>(this.stages, pulledRows(rows), options, (engine, given, told) =>
      method(engine, 'classify')(given, { ...options, ...told }),
    );
  }
}

function pulledRows(rows: RowSource): AsyncIterable<RowInput> | Iterable<RowInput> {
  return isObservable(rows) ? pulled(rows) : (rows as AsyncIterable<RowInput> | Iterable<RowInput>);
}

/** @throws UsageError for an engine that cannot do it */
export function method<Name extends 'generate' | 'classify'>(
  engine: CascadeEngine,
  name: Name,
): NonNullable<CascadeEngine[Name]> {
  const own = engine[name];
  if (typeof own !== 'function')
    throw new UsageError(`engine: found ${found(engine)} without a method ${name}, expected an engine that has it`);
  return own.bind(engine) as NonNullable<CascadeEngine[Name]>;
}
