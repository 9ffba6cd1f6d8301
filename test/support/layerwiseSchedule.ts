import type { AdmittedRow, Schedule } from '../../src/engine/schedules/Schedule.js';
import type { Grid, RowId, RowRange, Square } from '../../src/engine/grid/Square.js';
import { randomNumbers } from './randomSchedule.js';

interface Place {
  readonly row: AdmittedRow;
  readonly next: number;
  /** What of it is under way, and the layer that comes next. */
  readonly batch: { readonly pass: number; readonly rows: readonly RowRange[]; readonly layer: number } | undefined;
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
      (place.batch || place.next < place.row.promptTokens + place.row.newTokens - 1) &&
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
      for (const row of admitted) places[places.indexOf(undefined)] = { row, next: 0, batch: undefined };
      const taken = places.flatMap((place, slot) => (place ? [slot] : [])).sort(() => random() - 0.5);
      const squares: Square[] = [];
      for (const slot of taken.slice(0, 1 + Math.floor(random() * taken.length))) {
        const place = places[slot];
        if (place)
          places[slot] = advanced(place, grid, sweep, 1 + Math.floor(random() * grid.layers), (square) =>
            squares.push({ ...square, slot }),
          );
      }
      return { state: { ...state, sweep: sweep + 1, places }, squares };
    },
  };
}

/** Takes a place on by so many layers at most. */
function advanced(
  { row, next, batch }: Place,
  { layers, tokensPerSquare }: Grid,
  pass: number,
  most: number,
  issue: (square: Omit<Square, 'slot'>) => void,
): Place {
  const left = Math.min(row.promptTokens, row.promptTokens + row.newTokens - 1) - next;
  const tokens = left > 0 ? Math.min(left, tokensPerSquare) : 1;
  const head = row.newTokens === 0 ? 'score' : next + tokens >= row.promptTokens ? 'sample' : 'none';
  const {
    rows,
    layer,
    pass: began,
  } = batch ?? { rows: [{ row: row.row, firstPosition: next, tokens, head } as const], layer: 0, pass };
  const end = Math.min(layers, layer + most);
  for (let each = layer; each < end; each++) issue({ pass: began, layer: each, rows });
  return end < layers
    ? { row, next, batch: { pass: began, rows, layer: end } }
    : { row, next: next + (rows[0]?.tokens ?? 0), batch: undefined };
}
