import * as z from 'zod';
import { CORRECTIONS_WORDS, WORK_KIND, areCorrections } from './corrections.js';
import { nameSchema } from './nameSchema.js';
import { parsedFile } from './parsed.js';
import { UsageError } from '../errors/UsageError.js';
import { formatBytes } from '../units.js';

const positive = z.number().positive().max(1e30);
const seconds = z.number().min(0).max(1e6);

/**
 * Weight types whose products differ in speed: 16-bit floats, 32-bit floats, 8-bit and 4-bit blocks (5-bit ones count
 * as 8), and K-quants, whose nested scales take time: Q6_K, and those of fewer bits.
 */
export const MATMUL_WEIGHTS = ['f32', 'f16', 'q8', 'q4', 'q4_k', 'q6_k'] as const;
export type MatmulWeights = (typeof MATMUL_WEIGHTS)[number];

/** From so many inputs on the speed of a product depends on them no more. */
export const LONG_INPUTS = 4096;

/** Formats of kept keys and values. */
export const CACHE_KINDS = ['f32', 'f16', 'q8', 'q4'] as const;

/**
 * Products of weights of at least LONG_INPUTS inputs; points that name `inputs` are of weights with so many, which is
 * fewer.
 */
const matmulSchema = z
  .array(
    z.strictObject({
      weights: z.enum(MATMUL_WEIGHTS),
      tokens: positive,
      inputs: positive.optional(),
      flopsPerSecond: positive,
    }),
  )
  .min(1)
  .max(256)
  .superRefine((points, context) => {
    // Whatever has more inputs than were measured is as fast as long weights: they have to be there.
    const wrong = points.find(({ inputs = 1 }) => inputs >= LONG_INPUTS);
    if (wrong)
      context.addIssue({ code: 'custom', message: `expected inputs below ${LONG_INPUTS}, and none for longer ones` });
    for (const { weights } of points)
      if (!points.some((point) => point.weights === weights && point.inputs === undefined)) {
        context.addIssue({ code: 'custom', message: `expected points of ${weights} without inputs, too: long ones` });
        return;
      }
  });
/**
 * Attention of single new tokens by what the cache is kept as, and by how many query heads share a head of keys and
 * values: the bytes that these would have in 16 bits, a second. What quantised ones cost to read is in it.
 */
const decodeSchema = z
  .array(z.strictObject({ cache: z.enum(CACHE_KINDS), groupHeads: z.int().min(1).max(4096), bytesPerSecond: positive }))
  .min(1)
  .max(64);

/** Products and attention on other threads, or with other instructions, than a processor's main figures. */
const otherSchema = z.strictObject({
  threads: z.int().min(1).max(4096),
  instructionSet: z.string().max(40).optional(),
  matmul: matmulSchema,
  attention: z.strictObject({
    prefillFlopsPerSecond: positive,
    decodeBytesPerSecond: positive,
    decode: decodeSchema.optional(),
    rowHeadsPerSecond: positive.optional(),
  }),
});

const computeSchema = z.strictObject({
  /** Threads that the figures below were measured with; more or fewer scale them. GPUs: 1. */
  threads: z.int().min(1).max(4096),
  /**
   * Speed of x·Wᵀ for a batch of `tokens` rows of x: 2 operations a weight and token. Kinds without points are as
   * fast as the nearest that has some.
   */
  matmul: matmulSchema,
  /** The same on a GPU by cuBLASLt, of many tokens: what `gpuProducts` would give. Plans do not look at it. */
  matmulCublasLt: matmulSchema.optional(),
  attention: z.strictObject({
    /** Query · key and weights · value of prompts: 4 operations a query head element and key. */
    prefillFlopsPerSecond: positive,
    /** Keys and values that attention of single new tokens reads, in bytes of the uncompressed cache. */
    decodeBytesPerSecond: positive,
    /** The same by cache and heads; goes before `decodeBytesPerSecond` where it is there. */
    decode: decodeSchema.optional(),
    /** Single new tokens times query heads, beside reading keys and values. Default: they take no time of their own. */
    rowHeadsPerSecond: positive.optional(),
  }),
  /** Large blocks, read by all threads. */
  memoryBytesPerSecond: positive,
  /** Large blocks, copied by all threads; a byte counts once. */
  memoryCopyBytesPerSecond: positive.optional(),
  /** Values that become 4 or 8 bit, or become floats again. */
  quantiseValuesPerSecond: positive,
  dequantiseValuesPerSecond: positive,
  /**
   * Values that norms, rounding, activation functions, rotations and sums go over, once for each of these. Default: as
   * fast as memory is read, several times.
   */
  rowOperationsPerSecond: positive.optional(),
  /** Logits that are looked at when sampling. */
  sampleLogitsPerSecond: positive.default(1e9),
  /** The same with a temperature and top-p. */
  sampleTopPLogitsPerSecond: positive.optional(),
  /** The seconds that a task costs beside its work: queueing, waking threads. */
  taskSeconds: seconds.default(0),
  /** The same processor on one thread. */
  oneThread: otherSchema.optional(),
  /** The same processor on a thread for each core, where that is fewer threads: others share a core with these. */
  oneThreadACore: otherSchema.optional(),
  /** The same threads with other instruction sets. */
  otherInstructionSets: z.array(otherSchema).max(16).optional(),
});

const DISK_OPERATIONS = ['read', 'readLayers', 'readPages', 'readBlocks', 'write'] as const;
export type DiskOperation = (typeof DISK_OPERATIONS)[number];

/** One way of asking a disk for data. */
const diskRequestsSchema = z.strictObject({
  operation: z.enum(DISK_OPERATIONS),
  /**
   * The bytes of one request; `readLayers`: of all the requests for a layer, for the last of which the next layer's
   * wait.
   */
  requestBytes: positive,
  /** Requests in flight. */
  depth: z.int().min(1).max(65_536),
  bytesPerSecond: positive,
});

/** One way of copying between pinned memory of the host and a GPU. */
const linkCopiesSchema = z.strictObject({
  direction: z.enum(['toDevice', 'toHost']),
  copyBytes: positive,
  /** Copies that are given at a time; of one alone the way to and from the device is part. */
  depth: z.int().min(1).max(65_536),
  bytesPerSecond: positive,
});

/**
 * Constants of FlexGen's cost model as shipped (its file, not its paper); bandwidths in bytes, compute in operations.
 */
const flexgenSchema = z.strictObject({
  ctogBytesPerSecond: positive,
  gtocCacheBytesPerSecond: positive,
  gtocHiddenBytesPerSecond: positive,
  dtocBytesPerSecond: positive,
  /** Factor on `dtoc` for weights in decode. */
  dtocWeightsFactor: positive,
  ctodCachePrefillBytesPerSecond: positive,
  ctodHiddenPrefillBytesPerSecond: positive,
  ctodDecodeBytesPerSecond: positive,
  mmPrefillFlopsPerSecond: positive,
  mmDecodeFlopsPerSecond: positive,
  bmmPrefillFlopsPerSecond: positive,
  bmmDecodeFlopsPerSecond: positive,
  cpuFlopsPerSecond: positive,
  /** CPU speed falls with smaller batches (c2) and smaller models (c3), and less with both (c1). */
  c1: z.number(),
  c2: z.number(),
  c3: z.number(),
});

/** LM-Offload's hardware features (its table 2). */
const lmOffloadSchema = z.strictObject({
  gpuFlopsPerSecond: positive,
  gpuHertz: positive,
  gpuMemoryBytesPerSecond: positive,
  cpuFlopsPerSecond: positive,
  cpuHertz: positive,
  cpuMemoryBytesPerSecond: positive,
  ctogBytesPerSecond: positive,
  gtocBytesPerSecond: positive,
  diskToCpuBytesPerSecond: positive,
  /** Bytes of keys and values that attention on the CPU reads a second. */
  cpuAttentionBytesPerSecond: positive,
  /** Share of the peak that matrix products reach on the GPU. */
  gpuEfficiency: positive.max(1),
});

/** Pieces that need each other are there together, else it says which is missing. */
export const profileSchema = z
  .strictObject({
    format: z.literal('spillway-hardware-1'),
    name: nameSchema(200),
    description: z.string().max(4000).default(''),
    /**
     * The machine that the profile belongs to; a profile that says nothing here is of a machine that one does not own.
     */
    machine: z
      .strictObject({
        processorName: z.string().max(400).optional(),
        /** Less than one where a group has a part of its time. */
        processors: z.number().min(0.01).max(65_536).optional(),
        memoryBytes: positive.optional(),
        instructionSet: z.string().max(40).optional(),
        gpuName: z.string().max(400).optional(),
        gpuMemoryBytes: positive.optional(),
        /** The newest CUDA that its driver knows. */
        gpuDriver: z.string().max(40).optional(),
      })
      .default({}),
    /** The memory that is there for a run to use; 0 for a tier that is not there. */
    memory: z.strictObject({
      gpuBytes: z.number().min(0).max(1e18),
      cpuBytes: positive,
      diskBytes: z.number().min(0).max(1e18),
    }),
    /**
     * Share of each memory that a plan may fill. 1, unless memory is known to be lost (FlexGen's alpha: fragmentation).
     */
    usableFraction: positive.max(2).default(1),
    /** The price of an hour of the machine. */
    dollarsPerHour: positive.max(1e9).optional(),
    /** Power that the whole machine draws while it computes. */
    watts: positive.max(1e9).optional(),
    /** Bytes a second of large transfers. Left out where a tier is not there. */
    links: z.strictObject({
      hostToDeviceBytesPerSecond: positive.optional(),
      deviceToHostBytesPerSecond: positive.optional(),
      /**
       * The seconds that a copy of next to nothing takes, up or down, until it is known to be there. Default: nothing.
       */
      copySeconds: seconds.optional(),
      diskReadBytesPerSecond: positive.optional(),
      diskWriteBytesPerSecond: positive.optional(),
    }),
    /** The disk by size and number of requests; `links` has what the engine's own give. */
    diskRequests: z.array(diskRequestsSchema).max(64).optional(),
    /** The link to the GPU by size and number of copies; `links` has what large ones give. */
    linkCopies: z.array(linkCopiesSchema).max(64).optional(),
    cpu: computeSchema,
    gpu: computeSchema.optional(),
    /**
     * Half the interquartile range of a measured figure over its median, by the figure's path, e.g.
     * `links.diskReadBytesPerSecond`, `cpu.matmul.q4.64`.
     */
    spread: z.record(z.string().max(200), z.number().min(0)).default({}),
    /** The disturbance of the measuring, in words: the machine was busy with something else. */
    disturbed: z.string().max(1000).optional(),
    /** Figures that were not measurable, and why. */
    leftOut: z.record(z.string().max(200), z.string().max(4000)).optional(),
    /**
     * The time that runs took over what the figures above say, by kind of work (corrections.ts): seconds are multiplied
     * by it.
     */
    corrections: z
      .record(z.string().regex(WORK_KIND, 'expected a kind of work, such as compute.decode.q4.64'), z.number())
      .refine(areCorrections, { error: `expected ${CORRECTIONS_WORDS}` })
      .optional(),
    flexgen: flexgenSchema.optional(),
    lmOffload: lmOffloadSchema.optional(),
  })
  .superRefine(({ memory, links, cpu, gpu }, context) => {
    for (const [name, on] of Object.entries({ cpu, gpu }))
      if (on?.oneThreadACore && on.oneThreadACore.threads >= on.threads)
        context.addIssue({
          code: 'custom',
          path: [name, 'oneThreadACore', 'threads'],
          message: `expected fewer than ${name}.threads, which are ${on.threads}`,
        });
    const need = (value: unknown, path: readonly string[], tier: keyof typeof memory): void => {
      if (value === undefined && memory[tier] > 0)
        context.addIssue({ code: 'custom', path: [...path], message: `expected a value, as memory.${tier} is not 0` });
    };
    need(gpu, ['gpu'], 'gpuBytes');
    need(links.hostToDeviceBytesPerSecond, ['links', 'hostToDeviceBytesPerSecond'], 'gpuBytes');
    need(links.deviceToHostBytesPerSecond, ['links', 'deviceToHostBytesPerSecond'], 'gpuBytes');
    need(links.diskReadBytesPerSecond, ['links', 'diskReadBytesPerSecond'], 'diskBytes');
    need(links.diskWriteBytesPerSecond, ['links', 'diskWriteBytesPerSecond'], 'diskBytes');
  });

export type OtherCompute = z.output<typeof otherSchema>;
/** How fast one processor computes. */
export type ComputeProfile = z.output<typeof computeSchema>;
export type FlexgenConstants = z.output<typeof flexgenSchema>;
export type LmOffloadConstants = z.output<typeof lmOffloadSchema>;

/**
 * A machine as the cost models see it: the JSON of `profile --output`, or written by hand (docs/policy-hardware.md says
 * how).
 */
export type HardwareProfile = z.output<typeof profileSchema>;

/**
 * A profile from JSON that nobody vouches for.
 * @param file for messages
 * @throws PlanFileError naming the field, what was found and what was expected
 */
export function parseHardware(value: unknown, file: string): HardwareProfile {
  return parsedFile(profileSchema, value, file);
}

/** Tells whether a machine computes on a GPU, and says how fast. */
export function hasGpu({ gpu, memory }: Pick<HardwareProfile, 'gpu' | 'memory'>): boolean {
  return gpu !== undefined && memory.gpuBytes > 0;
}

/** Facts that tell one machine from another. */
export interface MachineIdentity {
  readonly processorName: string;
  readonly processors: number;
  readonly memoryBytes: number;
  /** The name of the GPU that is to compute; undefined: none is. */
  readonly gpuName?: string | undefined;
}

/**
 * Refuses a profile that was measured on another machine than this one: for whoever is about to run by it, not for
 * plans of machines elsewhere.
 * @throws UsageError saying what differs
 */
export function checkSameMachine({ name, machine }: HardwareProfile, here: MachineIdentity): void {
  const refuse = (what: string, found: string, expected: string): never => {
    throw new UsageError(
      `hardware profile ${JSON.stringify(name)} is of another machine: its ${what} is ${found}, this machine's ${expected}; measure again with profile`,
    );
  };
  if (machine.processorName === undefined) refuse('processor', 'not stated', here.processorName);
  else if (machine.processorName !== here.processorName) refuse('processor', machine.processorName, here.processorName);
  if (machine.processors !== undefined && machine.processors !== here.processors)
    refuse('number of processors', String(machine.processors), String(here.processors));
  const { memoryBytes } = machine;
  if (here.gpuName !== undefined && machine.gpuName !== undefined && machine.gpuName !== here.gpuName)
    refuse('GPU', machine.gpuName, here.gpuName);
  // A cgroup or a kernel may take a little of the memory from one boot to the next.
  if (memoryBytes !== undefined && Math.abs(memoryBytes - here.memoryBytes) > 0.1 * here.memoryBytes)
    refuse('memory', formatBytes(memoryBytes), formatBytes(here.memoryBytes));
}
