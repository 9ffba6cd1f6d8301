import { IdSet } from '../../collections/IdSet.js';
import type { RowInput } from '../../Row.js';
import { readableRow } from '../../rows/readableRow.js';
import { Turns } from '../../collections/Turns.js';
import type { RunRecorder } from '../execution/RunRecorder.js';
import type { RowIdentity } from './ActiveRow.js';
import { heldBytes } from '../../rows/heldBytes.js';
import { identified } from '../../rows/identified.js';
import type { InFlight, RowHold } from './InFlight.js';

/** A row of input that has been taken in: it counts as in flight. */
export interface AcceptedRow {
  readonly input: RowInput;
  readonly identity: Omit<RowIdentity, 'sequence'>;
  /** The memory that the row takes, until its results are handed on. */
  readonly hold: RowHold;
  /** An earlier row has its id. */
  readonly duplicate: boolean;
}

/**
 * The rows of an input one at a time as they are pulled, safe to read, numbered, with who they are. Waits while too
 * many are in flight.
 */
export async function* acceptedRows(
  rows: AsyncIterable<RowInput> | Iterable<RowInput>,
  { inFlight, recorder }: { readonly inFlight: InFlight; readonly recorder: RunRecorder },
): AsyncGenerator<AcceptedRow, void, undefined> {
  const ids = new IdSet();
  const turns = new Turns();
  let number = 0;
  for await (const given of rows) {
    // While no row is computed nobody else looks whether a callback has thrown.
    if (recorder.failure) throw recorder.failure.error;
    const input = readableRow(given);
    const carried = input.carry === undefined ? 0 : heldBytes(input.carry, inFlight.mostBytes);
    const hold = await inFlight.enter(heldBytes(input, inFlight.mostBytes, input.carry), carried);
    if (turns.due) await turns.give();
    const { identity, duplicate } = identified(input, number++, ids);
    yield { input, identity: { ...identity, ...(input.carry && { carry: input.carry }) }, hold, duplicate };
  }
}
