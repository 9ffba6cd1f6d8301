import { AXES, chipsAlong, type AxisName, type AxisSizes } from '../../../src/plan/partitioning/Mesh.js';

/** Rows of numbers. */
export type Matrix = readonly (readonly number[])[];
/** Along which a tensor is split: its rows or its columns. */
export type Side = 'rows' | 'columns';

/**
 * Chips of a torus that hold numbers and exchange them with their neighbours alone, block by block around a ring:
 * counts what each of them sends.
 */
export class SimulatedMesh {
  /** Numbers that each chip has sent, by what they belong to. */
  readonly sent = new Map<string, number[]>();
  readonly chips: readonly AxisSizes[];

  constructor(private readonly sizes: AxisSizes) {
    this.chips = range(sizes.x).flatMap((x) => range(sizes.y).flatMap((y) => range(sizes.z).map((z) => ({ x, y, z }))));
  }

  /** A matrix in parts: split along a side over some axes, the first of them the coarsest. */
  split(whole: Matrix, rows: readonly AxisName[], columns: readonly AxisName[]): Matrix[] {
    return this.chips.map((chip) => {
      const part = (length: number, axes: readonly AxisName[]): [number, number] => {
        const size = length / chipsAlong(this.sizes, axes);
        const at = axes.reduce((sum, axis) => sum * this.sizes[axis] + chip[axis], 0);
        return [at * size, (at + 1) * size];
      };
      const [width = 0] = whole.map((row) => row.length);
      return whole.slice(...part(whole.length, rows)).map((row) => row.slice(...part(width, columns)));
    });
  }

  /** Every chip gets the parts of all chips along the axes, the last of which is the finest. */
  allGather(what: string, parts: readonly Matrix[], axes: readonly AxisName[], side: Side): Matrix[] {
    let all = [...parts];
    for (const axis of [...axes].reverse()) {
      const size = this.sizes[axis];
      const known = all.map((part, chip) => {
        const blocks: Matrix[] = Array.from({ length: size }, () => []);
        blocks[this.at(chip, axis)] = part;
        return blocks;
      });
      for (let step = 0; step < size - 1; step++)
        this.pass(what, axis, (chip) => {
          const index = mod(this.at(chip, axis) - step, size);
          const block = known[chip]?.[index] ?? [];
          return {
            block,
            arrive: (next) => {
              const blocks = known[next];
              if (blocks) blocks[index] = block;
            },
          };
        });
      all = known.map((blocks) => joined(blocks, side));
    }
    return all;
  }

  /** Sums what chips along the axes hold; each is left with its part of the sum. */
  reduceScatter(what: string, partial: readonly Matrix[], axes: readonly AxisName[], side: Side): Matrix[] {
    let all = [...partial];
    for (const axis of axes) {
      const size = this.sizes[axis];
      const sums = all.map((part) => blocksOf(part, size, side));
      for (let step = 0; step < size - 1; step++)
        this.pass(what, axis, (chip) => {
          const index = mod(this.at(chip, axis) - step - 1, size);
          const block = sums[chip]?.[index] ?? [];
          return {
            block,
            arrive: (next) => {
              const blocks = sums[next];
              if (blocks) blocks[index] = plus(blocks[index] ?? [], block);
            },
          };
        });
      all = sums.map((blocks, chip) => blocks[this.at(chip, axis)] ?? []);
    }
    return all;
  }

  /** Each chip gives every other one along the axes a block of its columns, and gets its rows of theirs. */
  allToAll(what: string, parts: readonly Matrix[], axes: readonly AxisName[]): Matrix[] {
    const size = chipsAlong(this.sizes, axes);
    const place = (chip: number): number => axes.reduce((sum, axis) => sum * this.sizes[axis] + this.at(chip, axis), 0);
    const others = AXES.filter((axis) => !axes.includes(axis));
    return parts.map((_, to) => {
      const from = this.chips
        .map((__, chip) => chip)
        .filter((chip) => others.every((axis) => this.at(chip, axis) === this.at(to, axis)))
        .sort((a, b) => place(a) - place(b));
      return joined(
        from.map((chip) => {
          const block = blocksOf(parts[chip] ?? [], size, 'rows')[place(to)] ?? [];
          if (chip !== to) this.count(what, chip, block);
          return block;
        }),
        'columns',
      );
    });
  }

  private at(chip: number, axis: AxisName): number {
    return this.chips[chip]?.[axis] ?? 0;
  }

  /** Every chip sends a block to the next one along an axis, all at once. */
  private pass(
    what: string,
    axis: AxisName,
    send: (chip: number) => { readonly block: Matrix; readonly arrive: (next: number) => void },
  ): void {
    const messages = this.chips.map((_, chip) => send(chip));
    messages.forEach(({ block, arrive }, chip) => {
      this.count(what, chip, block);
      arrive(this.next(chip, axis));
    });
  }

  private next(chip: number, axis: AxisName): number {
    const to = { ...this.chips[chip], [axis]: (this.at(chip, axis) + 1) % this.sizes[axis] };
    return this.chips.findIndex((each) => AXES.every((name) => each[name] === to[name]));
  }

  private count(what: string, chip: number, block: Matrix): void {
    let counts = this.sent.get(what);
    if (!counts) this.sent.set(what, (counts = this.chips.map(() => 0)));
    counts[chip] = (counts[chip] ?? 0) + block.reduce((sum, row) => sum + row.length, 0);
  }
}

export function multiply(a: Matrix, b: Matrix): number[][] {
  const [width = 0] = b.map((row) => row.length);
  return a.map((row) =>
    range(width).map((column) => row.reduce((sum, value, inner) => sum + value * (b[inner]?.[column] ?? NaN), 0)),
  );
}

function joined(blocks: readonly Matrix[], side: Side): Matrix {
  if (side === 'rows') return blocks.flat();
  const [first = []] = blocks;
  return first.map((_, row) => blocks.flatMap((block) => block[row] ?? []));
}

function blocksOf(whole: Matrix, count: number, side: Side): Matrix[] {
  const [width = 0] = whole.map((row) => row.length);
  const size = (side === 'rows' ? whole.length : width) / count;
  return range(count).map((at) =>
    side === 'rows'
      ? whole.slice(at * size, (at + 1) * size)
      : whole.map((row) => row.slice(at * size, (at + 1) * size)),
  );
}

function plus(a: Matrix, b: Matrix): Matrix {
  return a.map((row, i) => row.map((value, j) => value + (b[i]?.[j] ?? NaN)));
}

function mod(value: number, by: number): number {
  return ((value % by) + by) % by;
}

export function range(length: number): number[] {
  return Array.from({ length }, (_, at) => at);
}
