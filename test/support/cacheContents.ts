import type { Device, DeviceRow } from '../../src/engine/grid/Device.js';
import type { PageTable } from '../../src/engine/grid/PageTable.js';
import type { RowId } from '../../src/engine/grid/Square.js';
import { overriding } from './overriding.js';

/** What a device has been told of a row. */
interface SeenRow {
  readonly sequence: DeviceRow;
  readonly pages: PageTable;
  /** Positions that were computed for the row itself, a count for each layer. */
  readonly computed: Map<number, number>;
}

export interface CacheContents {
  /** Every row that was opened: rows of the run, and prefixes. */
  readonly rows: ReadonlyMap<RowId, SeenRow>;
  /** What a row saw that was not its own: nothing, if all is well. */
  readonly wrong: readonly string[];
}

/**
 * A device that keeps, instead of keys and values, which tokens they follow from: a position's contents are those of
 * all tokens up to it, in its layer. Whatever pages rows share and whatever is copied, each row has to see its own
 * tokens, and no page may be written to that somebody else sees.
 */
export function watchContents(
  device: Device,
  pageTokens: number,
): { readonly device: Device; readonly contents: CacheContents } {
  const rows = new Map<RowId, SeenRow>();
  const memory = new Map<string, string>();
  const wrong: string[] = [];
  const place = (layer: number, page: string, position: number): string => `${layer} ${page} ${position % pageTokens}`;
  const told = (sequence: DeviceRow, row: RowId, position: number): string => {
    const { tokens } = sequence;
    // After its prompt a row's tokens are its own.
    return position < tokens.length ? tokens.slice(0, position + 1).join() : `row ${row} ${position}`;
  };
  const compute = (layer: number, row: RowId, first: number, count: number): void => {
    const seen = rows.get(row);
    if (!seen) return;
    const { entries, copy, keeper } = seen.pages;
    // Engines that keep some rows each name their pages alike.
    const page = (position: number): string => `${keeper ?? 0}-${entries[Math.floor(position / pageTokens)]}`;
    if (copy?.position === first) {
      for (let slot = 0; slot < pageTokens; slot++) {
        const from = memory.get(place(layer, `${keeper ?? 0}-${copy.from}`, slot));
        if (from === undefined) memory.delete(place(layer, page(first), slot));
        else memory.set(place(layer, page(first), slot), from);
      }
    }
    for (let position = first; position < first + count; position++)
      memory.set(place(layer, page(position), position), told(seen.sequence, row, position));
    seen.computed.set(layer, (seen.computed.get(layer) ?? 0) + count);
    for (let position = 0; position < first + count; position++) {
      const found = memory.get(place(layer, page(position), position));
      const expected = told(seen.sequence, row, position);
      if (found !== expected)
        wrong.push(`layer ${layer}, row ${row}, position ${position}: found ${String(found)}, expected ${expected}`);
    }
  };
  return {
    contents: { rows, wrong },
    device: overriding<Device>(device, {
      openRow: (run, row, sequence, pages) => {
        rows.set(row, { sequence, pages, computed: new Map() });
        device.openRow(run, row, sequence, pages);
      },
      // Tasks of one queue are done in the order in which they are submitted.
      submit: (task, after) => {
        if (task.name === 'compute' && task.part === 'project')
          for (const { row, firstPosition, tokens } of task.batch.rows) compute(task.layer, row, firstPosition, tokens);
        return device.submit(task, after);
      },
    }),
  };
}
