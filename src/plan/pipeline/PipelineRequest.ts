import * as z from 'zod';
import { UsageError } from '../../errors/UsageError.js';
import { HIDDEN_STATES, type HiddenStates } from '../../engine/grid/HiddenStates.js';
import { ATTENTION_BY, type AttentionBy } from '../../model/dividedLayer.js';
import { profileSchema } from '../HardwareProfile.js';
import { parsedArgument } from '../parsed.js';
import { cappedHardware, capsSchema, nameOf, parseRequest, type Allowed, type PlanRequest } from '../PlanRequest.js';
import type { BlockChoice } from '../Policy.js';
import { linkSchema, machineNameSchema, type PipelineMachine } from './Machines.js';

/** The request that a pipeline over machines is planned for: like any other, but for the machines. */
export interface PipelineRequest extends Omit<PlanRequest, 'hardware' | 'caps'> {
  /** In the order of the layers. */
  readonly machines: readonly PipelineMachine[];
  /** How hidden states cross the links. Default float32. */
  readonly hiddenStates?: HiddenStates | undefined;
  /** How attention is divided where each machine has a share of each layer. Default: the faster way. */
  readonly attention?: AttentionBy | undefined;
}

/** A machine with no more memory than its caps leave. */
export type CappedMachine = Pick<PipelineMachine, 'name' | 'hardware' | 'link'>;

/** A request that makes sense. */
export interface ParsedPipelineRequest extends Omit<PlanRequest, 'hardware' | 'caps'> {
  readonly machines: readonly CappedMachine[];
  readonly hiddenStates: HiddenStates;
  readonly attention?: AttentionBy | undefined;
}

const machinesSchema = z
  .array(
    z.strictObject({
      name: machineNameSchema,
      hardware: profileSchema,
      caps: capsSchema.optional(),
      link: linkSchema,
    }),
  )
  .min(2);

/** Says what a request settles of every block beside its rows: the first of what it allows. */
export function settledBlock({
  compressWeights,
  compressCache,
  sparseAttention,
  threads,
  tokensPerSquare,
}: Allowed): Pick<
  BlockChoice,
  'compressWeights' | 'compressCache' | 'sparseAttention' | 'threads' | 'tokensPerSquare'
> {
  return {
    compressWeights: compressWeights?.[0] ?? 'none',
    compressCache: compressCache?.[0] ?? 'none',
    ...(sparseAttention !== undefined && { sparseAttention }),
    ...(threads !== undefined && { threads }),
    ...(tokensPerSquare !== undefined && { tokensPerSquare }),
  };
}

/** @throws UsageError for a request that makes no sense, or asks for what is not known of several machines */
export function parsePipelineRequest({
  machines: given,
  hiddenStates = 'float32',
  attention,
  ...rest
}: PipelineRequest): ParsedPipelineRequest {
  parsedArgument(z.enum(HIDDEN_STATES), hiddenStates, 'hiddenStates');
  parsedArgument(z.enum(ATTENTION_BY).optional(), attention, 'attention');
  const machines = parsedArgument(machinesSchema, given, 'machines').map(({ hardware, caps = {}, ...machine }) => ({
    ...machine,
    hardware: cappedHardware(hardware, caps),
  }));
  const [first] = machines;
  if (!first) throw new UsageError('machines: found none, expected at least two');
  const { hardware: _first, ...request } = parseRequest({ ...rest, hardware: first.hardware });
  const { shape, workload, costModel = 'spillway' } = request;
  if (costModel !== 'spillway')
    throw new UsageError(`costModel: found ${nameOf(costModel)}, expected spillway for several machines`);
  if ((workload.sharedPrefixTokens ?? 0) > 0)
    throw new UsageError(
      `sharedPrefixTokens: found ${workload.sharedPrefixTokens}, expected 0 for several machines: what rows share is not predicted there`,
    );
  if (shape.layers < machines.length)
    throw new UsageError(
      `machines: found ${machines.length}, expected at most the ${shape.layers} layers of the model`,
    );
  return { ...request, machines, hiddenStates, attention };
}
