import { isObservable, type Observable } from 'rxjs';
import { found } from '../arguments/found.js';
import { UsageError } from '../errors/UsageError.js';
import type { StageContext } from '../engine/execution/Run.js';
import type { RunOfSquares } from '../engine/execution/SquareRun.js';
import { defaultPipeline } from './defaultPipeline.js';
import { finishedRows } from './finishedRows.js';
import { squares } from './squares.js';
import type { Stage } from './stageInternals.js';

/**
 * A run's squares through the stages of a pipeline, to the results of the rows that end with them. A pipeline that
 * cannot be made ends the run: nothing of it is left.
 *
 * @throws UsageError for a pipeline that makes no stages; whatever it throws
 */
export function throughStages<Result>(
  run: RunOfSquares<Result>,
  pipeline: (run: StageContext) => Stage = defaultPipeline,
): Observable<Result> {
  try {
    return passed(squares(run), stagesOf(run, pipeline)).pipe(finishedRows(run));
  } catch (error) {
    run.fail(error);
    throw error;
  }
}

function stagesOf(run: StageContext, pipeline: unknown): Stage {
  if (typeof pipeline !== 'function')
    throw new UsageError(`pipeline: found ${found(pipeline)}, expected a function from a run to stages`);
  const stages: unknown = (pipeline as (run: StageContext) => unknown)(run);
  if (typeof stages !== 'function')
    throw new UsageError(
      `pipeline: found one that returns ${found(stages)}, expected one that returns stages: see overlap`,
    );
  return stages as Stage;
}

function passed(squares$: Parameters<Stage>[0], stages: Stage): ReturnType<Stage> {
  const passed$: unknown = stages(squares$);
  if (!isObservable(passed$))
    throw new UsageError(`pipeline: found stages that return ${found(passed$)}, expected an Observable of squares`);
  return passed$ as ReturnType<Stage>;
}
