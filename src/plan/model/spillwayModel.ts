import { BLOCK_SCHEDULES, SCHEDULE_NAMES } from '../../engine/schedules/blockSchedules.js';
import type { BlockCost, BlockSetting, CostModel, PhaseCost } from '../CostModel.js';
import type { PlacementVariable, PlacementVector } from '../Placement.js';
import { memoryTerms, overlapBytes, type Charges } from './memory.js';
import { layerQueues } from './queues.js';
import { sizesOf } from './sizes.js';
import { hostShare, slotsOf } from '../Policy.js';
import { mergeClasses, rowsOf, countSweeps, type SweepClass } from './countSweeps.js';

/**
 * Our own cost model: the sweeps that the schedule really makes, prompts in chunks riding with decoding rows; times
 * from measured curves; (de)quantisation where it is spent; memory as the pools reserve it; machines with and without a
 * GPU.
 */
export const spillwayModel: CostModel = {
  name: 'spillway',
  blocks(setting) {
    const { diskBytes } = setting.hardware.memory;
    const choices = diskBytes > 0 ? [false, true] : [false];
    return choices.flatMap((spills) => choices.map((streams) => blockCost(setting, { streams, spills }, 'coarse')));
  },
  blockAt: (setting, at) => blockCost(setting, { streams: at.wn > 0, spills: at.cn > 0 || at.hn > 0 }, 'fine', at),
  // Where a sweep serves one batch alone, nothing is gained.
  schedules: SCHEDULE_NAMES.filter((name) => BLOCK_SCHEDULES[name].sweep === 'interleaved'),
  shareStep: (setting) => ({ weights: 0.001, cache: 1 / sizesOf(setting).rowPages, activations: 0.001 }),
};

/** The parts of a setting's cost that do not depend on the placement. */
interface Phases {
  /**
   * The costs of every class of sweeps; and of two classes, those with and those without prompts, which is enough to
   * place by.
   */
  readonly fine: readonly PhaseCost[];
  readonly coarse: readonly PhaseCost[];
}

/**
 * A setting is costed several times (with and without disk, before and after rounding), its sweeps are counted once.
 */
const classes = new WeakMap<BlockSetting, readonly SweepClass[]>();
const phases = { streaming: new WeakMap<BlockSetting, Phases>(), resident: new WeakMap<BlockSetting, Phases>() };

function classesOf(setting: BlockSetting): readonly SweepClass[] {
  let known = classes.get(setting);
  if (known === undefined) classes.set(setting, (known = countSweeps(setting.workload, setting.block)));
  return known;
}

function phasesOf(setting: BlockSetting, streams: boolean): Phases {
  const of = streams ? phases.streaming : phases.resident;
  const known = of.get(setting);
  if (known !== undefined) return known;
  const { shape } = setting;
  const sizes = sizesOf(setting);
  const phaseOf = (each: SweepClass): PhaseCost => {
    const { promptTokens, decodeRows } = each.load;
    return {
      name:
        promptTokens > 0
          ? `prompts, ${Math.round(promptTokens + decodeRows)} tokens a square`
          : `decoding, ${Math.round(decodeRows)} rows a square`,
      times: each.sweeps * shape.layers,
      ...layerQueues(setting, sizes, each, streams),
      promptShare: promptTokens / (promptTokens + decodeRows),
    };
  };
  const result = { fine: classesOf(setting).map(phaseOf), coarse: mergeClasses(classesOf(setting)).map(phaseOf) };
  of.set(setting, result);
  return result;
}

/**
 * The same where rows share nothing: on a GPU beside a disk every prompt is computed whole, where the processor attends
 * to what is on disk.
 */
const plain = new WeakMap<BlockSetting, BlockSetting>();

function asShared(setting: BlockSetting, { spills }: Charges): BlockSetting {
  const { sharedPrefixTokens = 0 } = setting.workload;
  if (sharedPrefixTokens === 0 || setting.hardware.memory.gpuBytes === 0 || !spills || hostShare(setting.block) === 0)
    return setting;
  let without = plain.get(setting);
  if (!without)
    plain.set(setting, (without = { ...setting, workload: { ...setting.workload, sharedPrefixTokens: 0 } }));
  return without;
}

function blockCost(given: BlockSetting, charges: Charges, detail: 'fine' | 'coarse', at?: PlacementVector): BlockCost {
  const setting = asShared(given, charges);
  const { hardware, workload, block } = setting;
  const rows = rowsOf(workload, block);
  const live = Math.min(rows, slotsOf(block) * block.batchSize);
  return {
    // Counted when asked for: most blocks that a search looks at don't fit.
    get phases() {
      return phasesOf(setting, charges.streams)[detail];
    },
    memory: memoryTerms(setting, sizesOf(setting), live, charges, at),
    ...(at && { spareBytes: { cpu: overlapBytes(setting, sizesOf(setting), live, rows, at) } }),
    fixed: {
      ...(hardware.memory.gpuBytes > 0 ? ON_GPU : NO_GPU),
      ...(charges.streams ? {} : { wn: 0 }),
      ...(charges.spills ? {} : { cn: 0, hn: 0 }),
    },
    newTokens: rows * workload.newTokens,
    rows,
    onceSeconds: 0,
  };
}

/**
 * On a GPU hidden states stay there where nobody says otherwise: a square's are less than a thousandth of its memory,
 * and on their way through the host one thread copies them four times a layer. On an H200 a plan that had most of them
 * in memory, for two hundredths more of the weights, made a quarter of the tokens that it had promised.
 */
const ON_GPU: Partial<Record<PlacementVariable, number>> = { hc: 0, hn: 0 };
/** Without a GPU, hidden states are where they are computed: on disk they would free next to nothing. */
const NO_GPU: Partial<Record<PlacementVariable, number>> = { wg: 0, cg: 0, hg: 0, hn: 0 };
