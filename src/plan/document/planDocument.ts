import { drained, type Work } from '../../collections/drained.js';
import { advise, type Advice } from './advise.js';
import { choosePolicyInParts, type Choice, type RankedPlan } from '../search/choosePolicy.js';
import { nameOf, parseRequest, type PlanRequest } from '../PlanRequest.js';
import { policyArgument, type Policy } from '../Policy.js';
import { predict, type Prediction } from '../predict.js';
import type { Workload } from '../Workload.js';

/** The document of `plan --json`. */
export interface PlanDocument {
  readonly model: string;
  readonly hardware: string;
  /** Its name. */
  readonly costModel: string;
  readonly workload: Workload;
  readonly policy: Policy;
  readonly predicted: Prediction;
  readonly bottleneck: string;
  readonly advice: readonly Advice[];
  readonly runnersUp: readonly RankedPlan[];
  readonly searched?: { readonly blocks: number; readonly programs: number; readonly feasible: number };
}

/**
 * Plans a request: searches, or predicts the policy that is given (whether it fits or not). Pure.
 * @throws UsageError for a request or a policy that makes no sense, MemoryBudgetError if nothing fits
 */
export function planDocument(given: PlanRequest, followed?: Policy): PlanDocument {
  return drained(planDocumentInParts(given, followed));
}

/** The same in slices, between which others may have their turn. */
export function* planDocumentInParts(given: PlanRequest, followed?: Policy): Work<PlanDocument> {
  const request = parseRequest(given);
  const { shape, hardware, workload, costModel = 'spillway' } = request;
  const {
    policy,
    predicted,
    runnersUp = [],
    searched,
  }: RankedPlan & Partial<Choice> = followed === undefined
    ? yield* choosePolicyInParts(request)
    : planOf(request, policyArgument(followed));
  return {
    model: shape.name,
    hardware: hardware.name,
    costModel: nameOf(costModel),
    workload,
    policy,
    predicted,
    bottleneck: predicted.bottleneck,
    advice: predicted.fits ? yield* advise(request, policy, predicted.tokensPerSecond) : [],
    runnersUp,
    ...(searched && { searched }),
  };
}

function planOf(request: PlanRequest, policy: Policy): RankedPlan {
  return { policy, predicted: predict(request, policy) };
}
