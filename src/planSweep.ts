import * as z from 'zod';
import { inTurns } from './collections/inTurns.js';
import { SpillwayError } from './errors/SpillwayError.js';
import { readJsonObject } from './model/files/readJson.js';
import { COST_MODEL_NAMES, type CostModel, type CostModelName } from './plan/CostModel.js';
import { planDocumentInParts, type PlanDocument } from './plan/document/planDocument.js';
import { parsedFile } from './plan/parsed.js';
import { nameOf, type PlanRequest } from './plan/PlanRequest.js';
import type { Policy } from './plan/Policy.js';
import { SCHEDULE_NAMES, type ScheduleName } from './engine/schedules/blockSchedules.js';
import type { Schedule } from './engine/schedules/Schedule.js';
import { simulatePlan } from './simulatePlan.js';

/** The lists that a sweep goes through: each of its lines is one of each. */
export interface Sweep {
  readonly hardware: readonly { readonly name: string; readonly request: PlanRequest }[];
  /** Policies that are given, by a name; one without a policy is searched. */
  readonly policies: readonly { readonly name: string; readonly policy?: Policy | undefined }[];
  readonly costModels: readonly (CostModelName | CostModel)[];
  /** Schedules that are there, and ones of your own by a name, which are simulated, for no closed form knows them. */
  readonly schedules: readonly (ScheduleName | { readonly name: string; readonly schedule: Schedule })[];
}

/** One plan of a sweep. What did not come to be has an `error`, and none of the figures. */
export interface SweepLine {
  readonly hardware: string;
  readonly policy: string;
  readonly costModel: string;
  readonly schedule: string;
  readonly plan?: PlanDocument;
  /** Predicted seconds, for a schedule that the cost model knows. */
  readonly predictedSeconds?: number;
  readonly simulatedSeconds?: number;
  readonly simulatedTokensPerSecond?: number;
  readonly error?: string;
}

/** A sweep as a file says it: of hardware and policies the names. */
export type SweepFile = z.infer<typeof fileSchema>;

const MOST_BYTES = 2 ** 20;
const list = z.array(z.string().min(1)).min(1).max(100);
const fileSchema = z.strictObject({
  /** Names, or files of modules. */
  schedules: list.default([...SCHEDULE_NAMES]),
  /** `search`, or policy files. */
  policies: list.default(['search']),
  /** As `readHardware` takes it. */
  hardware: list.default(['this']),
  costModels: z.array(z.enum(COST_MODEL_NAMES)).min(1).max(COST_MODEL_NAMES.length).default(['spillway']),
});

/** Reads a sweep from a file of JSON, what is left out filled in. @throws PlanFileError */
export async function readSweepFile(path: string): Promise<SweepFile> {
  return parsedFile<SweepFile>(fileSchema, await readJsonObject(path, MOST_BYTES), path);
}

/**
 * Plans every schedule with every policy on every machine by every cost model, one after the other. What does not fit,
 * or is no plan, is a line that says why.
 *
 * @param options.simulate with the time in virtual seconds beside the closed form's. Default: of schedules of your own
 * alone
 */
export async function* planSweep(
  { hardware, policies, costModels, schedules }: Sweep,
  { simulate = false, signal }: { readonly simulate?: boolean; readonly signal?: AbortSignal | undefined } = {},
): AsyncGenerator<SweepLine, void, undefined> {
  for (const { name: machine, request } of hardware)
    for (const { name, policy } of policies)
      for (const costModel of costModels)
        for (const schedule of schedules) {
          signal?.throwIfAborted();
          const told = {
            hardware: machine,
            policy: name,
            costModel: nameOf(costModel),
            schedule: typeof schedule === 'string' ? schedule : schedule.name,
          };
          try {
            yield { ...told, ...(await planned({ ...request, costModel }, policy, schedule, simulate, signal)) };
          } catch (error) {
            signal?.throwIfAborted();
            if (!(error instanceof SpillwayError)) throw error;
            yield { ...told, error: error.message };
          }
        }
}

async function planned(
  request: PlanRequest,
  policy: Policy | undefined,
  schedule: Sweep['schedules'][number],
  simulate: boolean,
  signal: AbortSignal | undefined,
): Promise<Partial<SweepLine>> {
  const known = typeof schedule === 'string' ? schedule : undefined;
  const allow = { ...request.allow, ...(known !== undefined && { schedules: [known] }) };
  const plan = await inTurns(
    planDocumentInParts({ ...request, allow }, policy && known !== undefined ? { ...policy, schedule: known } : policy),
    { signal },
  );
  const own = typeof schedule === 'string' ? undefined : schedule.schedule;
  const simulated =
    simulate || own ? await simulatePlan(request, plan.policy, { signal, ...(own && { schedule: own }) }) : undefined;
  return {
    plan,
    ...(!own && { predictedSeconds: plan.predicted.wallSeconds }),
    ...(simulated && {
      simulatedSeconds: simulated.seconds,
      simulatedTokensPerSecond: simulated.tokensPerSecond,
    }),
  };
}
