import type { IssuedSquare } from '../engine/execution/IssuedSquare.js';
import type { StageContext } from '../engine/execution/Run.js';
import { layerBounds } from '../engine/grid/Square.js';
import type { ComputePart, QueueName, TaskEvent } from '../engine/grid/Task.js';
import { allReduce } from './allReduce.js';
import { allToAll } from './allToAll.js';
import { broadcast } from './broadcast.js';
import { overlap } from './overlap.js';
import { startsAfterPrefix, stage, type Stage } from './stageInternals.js';

/** The parts of a layer, in order. The model's first layer embeds before them, its last one samples after them. */
const WHOLE: readonly ComputePart[] = ['embed', 'project', 'attend', 'finish', 'head'];
/** The same where nothing comes or goes between them (`Device.joinsParts`). */
const JOINED: readonly ComputePart[] = ['embed', 'layer', 'head'];
/** The parts of a share of a layer: the sum of all engines' shares is made between two lists. */
const SHARED: readonly (readonly ComputePart[])[] = [['project', 'attend', 'output'], ['feedForward'], ['add', 'head']];
/** Where each engine attends to some rows, what is projected goes to them before attention, and comes back after it. */
const SHARED_BY_ROWS = [['project'], ['attend'], ['output']] as const;
/** Branches that are added together go round together. */
const SHARED_PARALLEL = SHARED.filter((parts) => !parts.includes('feedForward'));

/**
 * Issues `compute`, as a small graph of tasks: project (norm, q k v, rotation, keys and values into their pages),
 * attend, finish (output projection, feed-forward); or, where no keys and values move, as one. It waits for the
 * square's loads, attend alone for those of its cache, and for its left neighbour: the same slot's previous compute;
 * where a row begins after what others have computed, for that of all slots. Where engines share each layer finish is
 * in parts, with `allReduce` between them; where each attends to some rows, `allToAll` before and after that.
 */
export function compute(run: StageContext): Stage {
  const { share } = run.grid;
  if (!share) return computing(run, wholeOf(run));
  const [first = [], ...others] = share.sums === 2 ? SHARED : SHARED_PARALLEL;
  const [project, attend, output] = SHARED_BY_ROWS;
  return overlap(
    computing(run, ['embed']),
    broadcast(run),
    ...(share.attention
      ? [
          computing(run, project),
          allToAll(run, 'rows'),
          computing(run, attend),
          allToAll(run, 'heads'),
          computing(run, output),
        ]
      : [computing(run, first)]),
    ...others.flatMap((parts) => [allReduce(run), computing(run, parts)]),
  );
}

/** Issues some parts, as far as the square's layer has them. */
function computing(run: StageContext, parts: readonly ComputePart[]): Stage {
  return stage(() => {
    const left = new Map<number, IssuedSquare>();
    const partsOfLayers = new Map<number, readonly ComputePart[]>();
    const here = (layer: number): readonly ComputePart[] => {
      let known = partsOfLayers.get(layer);
      if (!known) partsOfLayers.set(layer, (known = partsOf(layer, run).filter((part) => parts.includes(part))));
      return known;
    };
    return (square) => {
      const { batch, layer, events } = square;
      let after = events.compute ? [events.compute] : [...before(square, left), ...events.inputs];
      for (const part of here(layer)) {
        if (part === 'attend') after = [...after, ...events.cache];
        const event = run.issue(square, { name: 'compute', part, queue: queueOf(run.device, part) }, after);
        after = [event];
        events.compute = event;
        if (part === 'attend') events.attend = event;
      }
      left.set(batch.slot, square);
    };
  });
}

/** The computes that a square's first part comes after. */
function before({ batch }: IssuedSquare, left: ReadonlyMap<number, IssuedSquare>): readonly TaskEvent[] {
  const neighbour = left.get(batch.slot);
  const squares = startsAfterPrefix(batch) ? [...left.values()] : neighbour ? [neighbour] : [];
  return squares.flatMap(({ events }) => events.compute ?? []);
}

/** The queue of a part. */
export function queueOf({ computeQueue, attendQueue }: StageContext['device'], part: ComputePart): QueueName {
  return part === 'attend' ? (attendQueue ?? computeQueue) : computeQueue;
}

/** The parts of a layer that is computed here as a whole. */
function wholeOf({ device }: Pick<StageContext, 'device'>): readonly ComputePart[] {
  return device.joinsParts === true ? JOINED : WHOLE;
}

/** The parts of a layer's compute, each a task. */
export function partsOf(layer: number, run: Pick<StageContext, 'grid' | 'device'>): readonly ComputePart[] {
  const { first, last, embeds, samples } = layerBounds(run.grid);
  const here = (part: ComputePart): boolean =>
    part === 'embed' ? embeds && layer === first : part === 'head' ? samples && layer === last : true;
  const { share } = run.grid;
  const parts = share ? ['embed' as const, ...(share.sums === 2 ? SHARED : SHARED_PARALLEL).flat()] : wholeOf(run);
  return parts.filter(here);
}
