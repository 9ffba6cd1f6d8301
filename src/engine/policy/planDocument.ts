import { advise, type Advice } from './advise.js';
import { choosePolicy, type RankedPlan } from './choosePolicy.js';
import type { CostModel } from './CostModel.js';
import { cappedHardware } from './PlanRequest.js';
import type { PlanRequest } from './PlanRequest.js';
import type { Policy } from './Policy.js';
import { predict, type Prediction } from './predict.js';
import type { Workload } from './Workload.js';

/** The document of `plan --json`. */
export interface PlanDocument {
  readonly model: string;
  readonly hardware: string;
  readonly costModel: CostModel['name'];
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
 * @throws UsageError, MemoryBudgetError
 */
export function planDocument(request: PlanRequest, given?: Policy): PlanDocument {
  const { shape, hardware, workload, costModel = 'spillway' } = request;
  cappedHardware(hardware, request.caps);
  const chosen = given === undefined ? choosePolicy(request) : undefined;
  const policy = chosen?.policy ?? given;
  if (policy === undefined) throw new TypeError('a plan without a policy');
  const predicted = chosen?.predicted ?? predict(request, policy);
  return {
    model: shape.name,
    hardware: hardware.name,
    costModel,
    workload,
    policy,
    predicted,
    bottleneck: predicted.bottleneck,
    advice: predicted.fits ? advise(request, policy, predicted.tokensPerSecond) : [],
    runnersUp: chosen?.runnersUp ?? [],
    ...(chosen && { searched: chosen.searched }),
  };
}
