import type { Square, RowId } from '../grid/Square.js';
import type { MoveName, Moved } from '../grid/Task.js';

/** One task of a path, planned or done: its square, what it did, and when. The events of a run are such records. */
export interface PathRecord {
  readonly task: Square & {
    readonly name: string;
    /** The part of a layer, for compute. */
    readonly part?: string;
    /** The bytes of a move. */
    readonly bytes?: number;
    readonly from?: string;
    readonly to?: string;
    /** The hops that the task moved over other links beside. */
    readonly hops?: readonly PathMove[] | undefined;
  };
  /** In seconds on any one clock; undefined for a task that did not complete. */
  readonly timing: { readonly start: number; readonly end: number } | undefined;
}

/** One hop of a tensor from tier to tier. */
export interface PathMove {
  readonly from: string;
  readonly to: string;
  readonly bytes: number;
}

/** The moves that a placement says a square needs: routes, whose hops follow one another. */
export type RequiredMoves = (name: MoveName, square: Square) => readonly (readonly PathMove[])[];

/** A task that moved something, and when. */
export interface TimedMove extends PathMove {
  readonly square: Square;
  readonly start: number;
  readonly end: number;
}

/** The compute of one square, all parts together. */
export interface ComputeSpan {
  readonly square: Square;
  readonly parts: { readonly part: string | undefined; readonly start: number; readonly end: number }[];
  start: number;
  end: number;
}

/** When a square's rows begin to attend: what was loaded of their cache is there. */
export function attendsAt({ parts, start }: ComputeSpan): number {
  const attending = parts.filter(({ part }) => part === 'attend').map((part) => part.start);
  return attending.length > 0 ? Math.min(...attending) : start;
}

/** When a square's rows have attended: its pages of the cache change no more. */
export function attendedAt({ parts, end }: ComputeSpan): number {
  const attended = parts.filter(({ part }) => part === 'attend').map((part) => part.end);
  return attended.length > 0 ? Math.max(...attended) : end;
}

/** The key of a square's tasks; the weights of a layer serve all slots of a pass. */
export function keyOf({ batch: { pass, slot }, layer }: Square, name?: string): string {
  return name === 'load_weight' ? `${pass} ${layer}` : `${pass} ${layer} ${slot}`;
}

export function whereIs({ batch: { pass, slot }, layer }: Square): string {
  return `pass ${pass}, layer ${layer}, slot ${slot}`;
}

/** From `at` on, this much of a tier is in use. */
export interface TierUsage {
  readonly at: number;
  readonly tier: string;
  readonly usedBytes: number;
}

/**
 * The rules by which a path can be judged beside its own records. Each is left out of the judgement where it is not
 * given.
 */
export interface PathRules {
  /**
   * The moves that the placement says each square needs: they must have been made, loads before compute, those of the
   * cache before it attends, and after the stores of what they load, stores after compute. Without this, the loads that
   * there are must have ended by then.
   */
  readonly moves?: RequiredMoves;
  /** Most bytes of each tier, and what was in use of them over time. */
  readonly capacityBytes?: Readonly<Record<string, number>>;
  readonly usage?: readonly TierUsage[];
  /**
   * Most bytes of each tier that weights, cache and hidden states may take which were loaded, or are on their way
   * elsewhere: the buffers that look-ahead, slots and window ask for.
   */
  readonly stagingBytes?: Readonly<Record<Moved, Readonly<Record<string, number>>>>;
  /** When the memory of each row was taken and given back. */
  readonly lives?: ReadonlyMap<RowId, { readonly from: number; readonly until: number }>;
}
