import type { StageContext } from '../engine/execution/Run.js';
import { layerBounds, type LayerBounds } from '../engine/grid/Square.js';
import type { ComputePart, QueueName, TaskEvent } from '../engine/grid/Task.js';
import { beginsBehindOthers, stage, type Stage } from './stageInternals.js';

/** The parts of a layer, in order. The model's first layer embeds before them, its last one samples after them. */
const PARTS = ['project', 'attend', 'finish'] as const;
const FIRST: readonly ComputePart[] = ['embed', ...PARTS];
const LAST: readonly ComputePart[] = [...PARTS, 'head'];
const ONLY: readonly ComputePart[] = ['embed', ...PARTS, 'head'];

/**
 * Issues `compute`, as a small graph of tasks: project (norm, q k v, rotation, keys and values into their pages),
 * attend, finish (output projection, feed-forward). It waits for the square's loads, and for its left neighbour: the
 * same slot's previous compute; where a row begins behind what others have computed, for that of all slots.
 */
export function compute(run: StageContext): Stage {
  const bounds = layerBounds(run.grid);
  return stage(() => {
    const left = new Map<number, TaskEvent>();
    return (square) => {
      const { batch, layer, events } = square;
      const parts = partsOf(layer, bounds);
      const begins = batch.rows.some(beginsBehindOthers);
      const neighbour = left.get(batch.slot);
      let after: readonly TaskEvent[] = begins
        ? [...left.values(), ...events.inputs]
        : neighbour
          ? [neighbour, ...events.inputs]
          : events.inputs;
      for (const part of parts) {
        const queue = queueOf(run.device, part);
        const event = run.issue(square, { name: 'compute', part, queue }, after);
        after = [event];
        events.compute = event;
      }
      if (events.compute) left.set(batch.slot, events.compute);
    };
  });
}

/** The queue of a part. */
export function queueOf({ computeQueue, attendQueue }: StageContext['device'], part: ComputePart): QueueName {
  return part === 'attend' ? (attendQueue ?? computeQueue) : computeQueue;
}

/** The parts of a layer's compute, each a task. */
export function partsOf(layer: number, { first, last, embeds, samples }: LayerBounds): readonly ComputePart[] {
  const ends = samples && layer === last;
  if (embeds && layer === first) return ends ? ONLY : FIRST;
  return ends ? LAST : PARTS;
}
