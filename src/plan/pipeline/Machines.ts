import * as z from 'zod';
import { nameSchema } from '../nameSchema.js';
import { parsedFile } from '../parsed.js';
import type { HardwareProfile } from '../HardwareProfile.js';
import type { MemoryCaps } from '../PlanRequest.js';

/** A link from an engine to the one of the layers after; from the last one, to the first. */
export interface PipelineLink {
  readonly bytesPerSecond: number;
  readonly latencySeconds: number;
}

/** A machine of a pipeline, in the order of the layers. */
export interface PipelineMachine {
  readonly name: string;
  readonly hardware: HardwareProfile;
  readonly caps?: MemoryCaps | undefined;
  readonly link: PipelineLink;
}

/** A machine as a file of machines names it. */
export interface NamedMachine {
  readonly name?: string | undefined;
  /** A known machine, or a file that `profile` wrote. */
  readonly hardware: string;
  readonly link?: PipelineLink | undefined;
}

/** The file of `plan --machines`. */
export interface MachinesFile {
  /** In the order of the layers. */
  readonly machines: readonly NamedMachine[];
  /** The link of machines that name none. */
  readonly link: PipelineLink;
}

const MOST_MACHINES = 64;

export const linkSchema: z.ZodType<PipelineLink> = z.strictObject({
  bytesPerSecond: z.number().positive().max(1e15),
  latencySeconds: z.number().min(0).max(3600),
});

/** 1 Gbit/s, less what frames and packets take, in one rack. */
const ETHERNET: PipelineLink = { bytesPerSecond: 117e6, latencySeconds: 0.0002 };

/** A machine's name. */
export const machineNameSchema: z.ZodType<string> = nameSchema(100);

const fileSchema: z.ZodType<MachinesFile> = z.strictObject({
  machines: z
    .array(
      z.strictObject({
        name: machineNameSchema.optional(),
        hardware: z.string().min(1).max(4096),
        link: linkSchema.optional(),
      }),
    )
    .min(2)
    .max(MOST_MACHINES),
  link: linkSchema.default(ETHERNET),
});

/**
 * A file of machines from JSON that nobody vouches for. Default of `link`: Ethernet of 1 Gbit/s, 0.2 ms.
 * @param file for messages
 * @throws PlanFileError
 */
export function parseMachines(value: unknown, file: string): MachinesFile {
  return parsedFile(fileSchema, value, file);
}
