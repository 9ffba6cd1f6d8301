import type { AdmittedRow, Schedule } from '../../src/engine/schedules/Schedule.js';
import type { Batch, Grid, RowId, Square } from '../../src/engine/grid/Square.js';
import { randomNumbers } from './randomSchedule.js';

interface Place {
  readonly row: AdmittedRow;
  readonly next: number;
  /** What of it is under way, and the layer that comes next. */
  readonly under: { readonly batch: Batch; readonly layer: number } | undefined;
}

interface LayerwiseState {
  readonly grid: Grid;
  readonly seed: number;
  readonly sweep: number;
  readonly places: readonly (Place | undefined)[];
}

/**
 * A schedule whose sweeps end in the middle of a batch: a row a slot, and each sweep takes some of the slots on by some
 * layers. What a batch has left comes in a later sweep, in which other rows may have come in.
 */
export function layerwiseSchedule(seed: number): Schedule<LayerwiseState> {
  const alive = ({ places }: LayerwiseState, ended: ReadonlySet<RowId>): (Place | undefined)[] =>
    places.map((place) =>
      place &&
      (place.under || place.next < place.row.promptTokens + place.row.newTokens - 1) &&
      !ended.has(place.row.row)
        ? place
        : undefined,
    );
  return {
    name: `layerwise ${seed}`,
    start: (grid) => ({ grid, seed, sweep: 0, places: new Array<Place | undefined>(grid.slots).fill(undefined) }),
    free: (state, ended) => alive(state, ended).filter((place) => !place).length,
    next: (state, { admitted, ended }) => {
      const { grid, sweep } = state;
      const random = randomNumbers(state.seed + sweep);
      const places = alive(state, ended);
      for (const row of admitted) places[places.indexOf(undefined)] = { row, next: 0, under: undefined };
      const taken = places.flatMap((place, slot) => (place ? [slot] : [])).sort(() => random() - 0.5);
      const squares: Square[] = [];
      for (const slot of taken.slice(0, 1 + Math.floor(random() * taken.length))) {
        const place = places[slot];
        if (place)
          places[slot] = advanced(
            place,
            grid,
            { pass: sweep, slot },
            1 + Math.floor(random() * grid.layers),
            (square) => squares.push(square),
          );
      }
      return { state: { ...state, sweep: sweep + 1, places }, squares };
    },
  };
}

/** Takes a place on by so many layers at most. */
function advanced(
  { row, next, under }: Place,
  { layers, tokensPerSquare }: Grid,
  begins: Pick<Batch, 'pass' | 'slot'>,
  most: number,
  issue: (square: Square) => void,
): Place {
  const left = Math.min(row.promptTokens, row.promptTokens + row.newTokens - 1) - next;
  const tokens = left > 0 ? Math.min(left, tokensPerSquare) : 1;
  const head = row.newTokens === 0 ? 'score' : next + tokens >= row.promptTokens ? 'sample' : 'none';
  const { batch, layer } = under ?? {
    batch: { ...begins, rows: [{ row: row.row, firstPosition: next, tokens, head }] },
    layer: 0,
  };
  const end = Math.min(layers, layer + most);
  for (let each = layer; each < end; each++) issue({ batch, layer: each });
  return end < layers
    ? { row, next, under: { batch, layer: end } }
    : { row, next: next + (batch.rows[0]?.tokens ?? 0), under: undefined };
}
