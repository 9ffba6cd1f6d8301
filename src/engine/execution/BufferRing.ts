import type { TaskEvent } from '../grid/Task.js';

/** The content of a buffer: a layer's weights, the cache of a batch in a layer, the hidden states of a slot. */
type Content = string | number;

interface Buffer {
  /** The buffer's content, now or once its load has completed; undefined at first. */
  content: Content | undefined;
  load: TaskEvent | undefined;
  /** Tasks that use it and had not completed when last looked at. */
  users: TaskEvent[];
}

/**
 * Which of a device's buffers holds what. Buffers are taken in turn; what is loaded next waits for all that still uses
 * the old contents, so however far ahead a stage may run, it never overwrites what is in use.
 */
export class BufferRing {
  private readonly buffers: Buffer[];
  private next = 0;

  constructor(count: number) {
    this.buffers = Array.from({ length: count }, () => ({ content: undefined, load: undefined, users: [] }));
  }

  /** Takes a buffer: which one, and what has to complete before anything is written to it. */
  take(content: Content): { readonly buffer: number; readonly after: readonly TaskEvent[] } {
    // Everything has one home at a time: an older copy is forgotten.
    for (const each of this.buffers) if (each.content === content) each.content = undefined;
    const buffer = this.next;
    this.next = (this.next + 1) % this.buffers.length;
    const chosen = this.at(buffer);
    const after = [...chosen.users, ...(chosen.load ? [chosen.load] : [])].filter(({ timing }) => timing === undefined);
    this.buffers[buffer] = { content, load: undefined, users: [] };
    return { buffer, after };
  }

  /** Says which task fills the buffer. */
  filledBy(buffer: number, load: TaskEvent): void {
    this.at(buffer).load = load;
  }

  /** The buffer that holds something and the task that fills it; undefined if none does. */
  find(content: Content): { readonly buffer: number; readonly load: TaskEvent | undefined } | undefined {
    const buffer = this.buffers.findIndex((each) => each.content === content);
    return buffer < 0 ? undefined : { buffer, load: this.at(buffer).load };
  }

  /** Says that a task uses the buffer. */
  usedBy(buffer: number, user: TaskEvent): void {
    const chosen = this.at(buffer);
    chosen.users = chosen.users.filter(({ timing }) => timing === undefined);
    chosen.users.push(user);
  }

  private at(buffer: number): Buffer {
    const chosen = this.buffers[buffer];
    if (!chosen) throw new RangeError(`buffer ${buffer} of ${this.buffers.length}`);
    return chosen;
  }
}
