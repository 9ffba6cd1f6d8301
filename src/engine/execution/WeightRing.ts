import type { TaskEvent } from './Task.js';

interface Buffer {
  /** The layer that it holds, or will once its load has completed; undefined at first. */
  layer: number | undefined;
  load: TaskEvent | undefined;
  /** Tasks that read it and had not completed when last looked at. */
  readers: TaskEvent[];
}

/**
 * Which of the device's weight buffers holds which layer. Buffers are taken in turn; a new load waits for all that still reads the old
 * contents, so however far ahead a stage may run, it never overwrites what is in use.
 */
export class WeightRing {
  private readonly buffers: Buffer[];
  private next = 0;

  constructor(count: number) {
    this.buffers = Array.from({ length: count }, () => ({ layer: undefined, load: undefined, readers: [] }));
  }

  /** Takes a buffer for a layer: which one, and what a load into it has to wait for. */
  take(layer: number): { readonly buffer: number; readonly after: readonly TaskEvent[] } {
    // A layer has one home at a time: an older copy is forgotten.
    for (const each of this.buffers) if (each.layer === layer) each.layer = undefined;
    const buffer = this.next;
    this.next = (this.next + 1) % this.buffers.length;
    const chosen = this.at(buffer);
    const after = [...chosen.readers, ...(chosen.load ? [chosen.load] : [])].filter(({ timing }) => timing === undefined);
    this.buffers[buffer] = { layer, load: undefined, readers: [] };
    return { buffer, after };
  }

  /** Says which load fills the buffer. */
  filledBy(buffer: number, load: TaskEvent): void {
    this.at(buffer).load = load;
  }

  /** The buffer that holds a layer and the load that fills it; undefined if none does. */
  find(layer: number): { readonly buffer: number; readonly load: TaskEvent | undefined } | undefined {
    const buffer = this.buffers.findIndex((each) => each.layer === layer);
    return buffer < 0 ? undefined : { buffer, load: this.at(buffer).load };
  }

  /** Says that a task reads the buffer. */
  readBy(buffer: number, reader: TaskEvent): void {
    const chosen = this.at(buffer);
    chosen.readers = chosen.readers.filter(({ timing }) => timing === undefined);
    chosen.readers.push(reader);
  }

  private at(buffer: number): Buffer {
    const chosen = this.buffers[buffer];
    if (!chosen) throw new RangeError(`buffer ${buffer} of ${this.buffers.length}`);
    return chosen;
  }
}
