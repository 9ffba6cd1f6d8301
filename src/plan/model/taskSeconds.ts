import type { BlockSetting } from '../CostModel.js';
import { computeFactor } from '../corrections.js';
import { mayBeSampled } from '../../engine/grid/Square.js';
import type { PlacementShares } from '../Placement.js';
import { hostShare, slotsOf } from '../Policy.js';
import { PAGE_TOKENS } from '../reserves.js';
import {
  choosingSeconds,
  decodeAttentionSeconds,
  dequantiseSeconds,
  finishSeconds,
  headSeconds,
  hostAttentionSeconds,
  partSeconds,
  prefillAttentionSeconds,
  projectSeconds,
  sharedAttentionSeconds,
} from './computeSeconds.js';
import { valuesRead } from './chosenValues.js';
import { matmulKind } from './matmulKinds.js';
import { diskRates, linkRates } from './transferRates.js';
import { computeSettings } from './queues.js';
import { sizesOf } from './sizes.js';

/** The facts of a task that decide how long it takes (engine/grid/Task has more). */
export interface TimedTask {
  readonly name: string;
  readonly part?: string;
  readonly queue: string;
  readonly bytes: number;
  readonly batch: {
    readonly rows: readonly {
      readonly firstPosition: number;
      readonly tokens: number;
      readonly head: string;
      readonly sharedTokens?: number | undefined;
    }[];
  };
}

/** Seconds of one task under a policy: the same terms that the closed form sums up. For the simulated device. */
export function taskSeconds(setting: BlockSetting, placement: PlacementShares): (task: TimedTask) => number {
  const of = taskParts(setting, placement);
  return (task) => {
    const { on, host } = of(task);
    // The GPU has its own part of attention while the processor has the other.
    return Math.max(on, host);
  };
}

/** Gives the GPU's seconds of attention of which the processor has a part beside a GPU. */
export function attentionOnGpu(setting: BlockSetting, placement: PlacementShares): (task: TimedTask) => number {
  const of = taskParts(setting, placement);
  return (task) => of(task).on;
}

/** Seconds where tasks are computed or moved, and of attention those of the processor beside a GPU. */
function taskParts(
  setting: BlockSetting,
  placement: PlacementShares,
): (task: TimedTask) => { readonly on: number; readonly host: number } {
  const { gpu, cpu } = computeSettings(setting);
  const { links, corrections } = setting.hardware;
  const weights = matmulKind(setting.shape, setting.block.compressWeights);
  const { layerWeightBytes, tokenCacheBytes } = sizesOf(setting);
  const values = valuesRead(setting);
  const disk = diskRates(setting.hardware, {
    layerBytes: layerWeightBytes,
    pageBytes: tokenCacheBytes * PAGE_TOKENS,
    valueBytes: values.requestBytes,
    streams: placement.weights.disk > 0,
  });
  // A byte of the pages on disk, some of which come in the requests of values that have been chosen.
  const chosen = values.valueShare / (values.keyShare + values.valueShare);
  const pageSecondsOf = (rows: TimedTask['batch']['rows']): number =>
    rows.every(mayBeSampled) ? (1 - chosen) / disk.readPages + chosen / disk.readValues : 1 / disk.readPages;
  const link = linkRates(setting.hardware);
  const rates: Readonly<Record<string, number | undefined>> = {
    'host-to-device': link.up,
    'device-to-host': link.down,
    'disk-read': disk.read,
    'disk-write': disk.write,
  };
  const on = gpu ?? cpu;
  const slots = slotsOf(setting.block);
  const onCpu = gpu ? hostShare(setting.block) * (1 - placement.cache.gpu) : 0;
  const alone = (seconds: number): { readonly on: number; readonly host: number } => ({ on: seconds, host: 0 });
  return ({ name, part, queue, bytes, batch }) => {
    if (name === 'load_cache' && queue === 'disk-read') return alone(bytes * pageSecondsOf(batch.rows));
    if (name === 'store_cache' && queue === 'disk-write') return alone(bytes / disk.writePages);
    if (name === 'load_weight' && queue === 'disk-read')
      return alone(bytes > 0 ? disk.readOnceSeconds + bytes / disk.read : 0);
    if (name !== 'compute') return alone(bytes / (rates[queue] ?? Infinity));
    let [tokens, decodeRows, decodeKeys, contextKeys, promptKeys, sharedKeys, promptTokens, sampled] = [
      0, 0, 0, 0, 0, 0, 0, 0,
    ];
    for (const range of batch.rows) {
      const { sharedTokens = 0 } = range;
      tokens += range.tokens;
      sharedKeys += range.tokens * sharedTokens;
      if (mayBeSampled(range)) {
        decodeRows++;
        contextKeys += range.firstPosition + 1;
        decodeKeys += range.firstPosition + 1 - sharedTokens;
      } else {
        promptKeys += range.tokens * (range.firstPosition - sharedTokens) + (range.tokens * (range.tokens + 1)) / 2;
        promptTokens += range.tokens;
      }
      if (range.head !== 'none') sampled++;
    }
    const corrected = computeFactor(corrections, weights, { promptTokens, decodeRows });
    // A GPU's tasks are started while those before them run.
    const task = (name: Parameters<typeof partSeconds>[1], work: number): number =>
      corrected * (gpu ? Math.max(partSeconds(on, name), work) : partSeconds(on, name) + work);
    // Once for all batches of a sweep.
    const floats = gpu ? dequantiseSeconds(gpu, slots * tokens) : { project: 0, finish: 0 };
    const project = (): number => task('project', projectSeconds(on, tokens)) + floats.project / slots;
    const finish = (): number => task('finish', finishSeconds(on, tokens)) + floats.finish / slots;
    if (part === 'project') return alone(project());
    if (part === 'finish') return alone(finish());
    if (part === 'head') return alone(task('head', headSeconds(on, sampled)));
    if (part !== 'attend' && part !== 'layer') return alone(task('embed', 0));
    const host = onCpu > 0 ? onCpu * hostAttentionSeconds(cpu, links, contextKeys, decodeRows) : 0;
    const attention =
      prefillAttentionSeconds(on, promptKeys, promptTokens) +
      sharedAttentionSeconds(on, sharedKeys) +
      (1 - onCpu) * decodeAttentionSeconds(on, decodeKeys, decodeRows) +
      (gpu ? 0 : placement.cache.disk * choosingSeconds(on, decodeKeys, decodeRows));
    const attend = task('attend', attention);
    return part === 'layer' ? alone(project() + attend + finish()) : { on: attend, host };
  };
}
