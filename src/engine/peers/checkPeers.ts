import { found } from '../../arguments/found.js';
import { PeerError } from '../../errors/engineErrors.js';
import { UsageError } from '../../errors/UsageError.js';
import type { Peers } from './PeerConnection.js';
import type { GenerateOptions } from '../../Row.js';
import { ALL_POSITIONS } from '../grid/CacheLaw.js';
import { layerBounds, type Grid } from '../grid/Square.js';
import type { Opened } from '../open/Opened.js';
import { BLOCK_SCHEDULES, SCHEDULE_NAMES, scheduleNamed } from '../schedules/blockSchedules.js';

/** @throws UsageError unless they are the two ends that an engine needs, to those of the layers before and after */
export function checkPeers(peers: unknown): asserts peers is Peers {
  const { source, sink } = (peers ?? {}) as Partial<Record<keyof Peers, unknown>>;
  if (typeof (source as Partial<Peers['source']> | undefined)?.[Symbol.asyncIterator] !== 'function')
    throw wrong('source', source, 'what engines send, as an async iterable');
  const { send, close } = (sink ?? {}) as Partial<Peers['sink']>;
  if (typeof send !== 'function' || typeof close !== 'function')
    throw wrong('sink', sink, 'an object with send and close');
}

function wrong(end: keyof Peers, value: unknown, expected: string): UsageError {
  return new UsageError(`peers.${end}: found ${found(value)}, expected ${expected}: see activationLink`);
}

/**
 * @throws UsageError unless a run of an engine with these layers has engines for all of the model's, and keeps no
 * answers that depend on others than itself
 *
 * @param schedule its name
 */
export function checkLayers(
  { part, share, slots }: Pick<Grid, 'part' | 'share' | 'slots'>,
  {
    peers,
    microBatches,
    reuse,
    confidence,
  }: { readonly peers?: Peers; readonly microBatches?: number } & Pick<GenerateOptions, 'reuse' | 'confidence'> = {},
  schedule = '',
): void {
  if (!part && !share && peers) {
    // They compute prompts, to the bits of this engine.
    if (microBatches === undefined) return;
    throw new UsageError(
      `microBatches: found ${microBatches} in an engine of all layers, expected none: its peer computes prompts`,
    );
  }
  if (share && share.index > 0)
    throw new UsageError(
      `tensorParallel: found an engine of share ${share.index}, expected that of share 0: only there rows come in; this one can follow`,
    );
  if (share && !peers)
    throw new UsageError('peers: found none, expected a source and a sink: this engine has a share of each layer only');
  if (share && microBatches !== undefined && microBatches > 1)
    throw new UsageError(
      `microBatches: found ${microBatches} beside shares of each layer, expected 1: all engines compute the same batch at once`,
    );
  if (part && part.first > 0)
    throw new UsageError(
      'layers: found an engine of later layers, expected one that has the first: only there rows come in; this one can follow',
    );
  if (part && !peers)
    throw new UsageError('peers: found none, expected a source and a sink: this engine has a part of the layers only');
  if (microBatches !== undefined && !(peers && microBatches <= slots))
    throw new UsageError(
      `microBatches: found ${microBatches}${peers ? '' : ' without peers'}, expected at most ${slots}, the engine's batches, beside peers`,
    );
  if (microBatches !== undefined && microBatches > 1 && hasOneSlot(schedule)) {
    const others = SCHEDULE_NAMES.filter((name) => !hasOneSlot(name)).join(' or ');
    throw new UsageError(
      `microBatches: found ${microBatches} beside the schedule ${schedule}, which has one batch under way, expected 1, or the schedule ${others}`,
    );
  }
  if (peers && confidence === true)
    throw new UsageError(
      'confidence: found true, expected false where peers have layers of the model: they do not tell how likely tokens were',
    );
  if (peers && reuse)
    throw new UsageError(
      'reuse: found a store, expected none where peers have layers of the model: what they compute with is no part of what answers are kept under',
    );
}

/** False for schedules of the user's, which may have what they like under way. */
function hasOneSlot(schedule: string): boolean {
  const name = scheduleNamed(schedule);
  return name !== undefined && BLOCK_SCHEDULES[name].sweep === 'one-slot';
}

/** Tells whether other engines have the part of the model that is not here. */
export function sharesModel({ part, share }: Pick<Grid, 'part' | 'share'>): boolean {
  return part !== undefined || share !== undefined;
}

/**
 * @throws UsageError unless the engine has the model's first layers, or has not, as is wanted; one of all layers is
 * either
 */
export function checkEmbeds(what: string, grid: Grid, wanted: boolean): void {
  const { embeds } = layerBounds(grid);
  if (embeds === wanted || !sharesModel(grid)) return;
  if (grid.share)
    throw new UsageError(
      embeds
        ? `${what}: found the engine of share 0, expected one of another share; the first one generates`
        : `${what}: found an engine of share ${grid.share.index}, expected that of share 0; this one can follow`,
    );
  throw new UsageError(
    embeds
      ? `${what}: found an engine of the first layers, expected one of later layers; the first one generates`
      : `${what}: found an engine of later layers, expected the one of the first layers; this one can follow`,
  );
}

/**
 * Prompts are computed by one engine of all layers for another: their pages go over as they are.
 * @throws UsageError unless the engine keeps all positions of rows in memory, as pages of its own
 */
export function checkMovesPages({ cache, gpu }: Pick<Opened, 'cache' | 'gpu'>): void {
  const refuse = (found: string, expected: string): never => {
    throw new UsageError(`peers: found ${found}, expected ${expected} where prompts are computed by another engine`);
  };
  if (gpu) refuse('an engine with a GPU', 'processors alone');
  if (cache.disk.share > 0) refuse('a cache of which a part is on disk', 'one in memory');
  if (cache.states !== undefined || cache.groups.laws.some((law) => law !== ALL_POSITIONS))
    refuse('a model some of whose layers do not keep keys and values of all positions', 'one whose layers do');
}

/**
 * Two runs that begin here cannot share engines: each one's consumer decides when it ends, and may wait for the other
 * run's results.
 * @param before the last one that began here
 * @throws PeerError while that one is under way; the engines that wait for this one hear of it
 */
export function checkAlone({ source, sink }: Peers, before: { readonly closed: boolean } | undefined): void {
  if (!before || before.closed) return;
  const error = new PeerError(
    'peers: found another run over engines of other layers under way on this engine, expected none: begin this one when that one is over',
  );
  sink.close(error);
  source[Symbol.asyncIterator]()
    .return?.()
    .catch(() => undefined);
  throw error;
}
