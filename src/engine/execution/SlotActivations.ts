import type { NativeRuntime } from '../../bindings/Addon.js';
import { nativeCall } from '../../bindings/nativeCall.js';
import { TaskError } from '../../errors/engineErrors.js';
import { BufferRing } from './BufferRing.js';
import { describeTask, type Task, type TaskEvent } from '../grid/Task.js';

/** Hidden states that do not all stay where they are computed between two layers. */
export interface SpilledActivations {
  /** Slots, the first ones, whose hidden states stay: on a GPU. */
  readonly stayingSlots: number;
  /** Tokens of each other slot's largest square that stay in memory; of smaller ones it is the same share. */
  readonly residentTokens: number;
  /** Working buffers that those slots of a run share. */
  readonly buffers: number;
}

/** Where a task finds the hidden states of its slot. */
export interface ActivationPlace {
  /** The native buffer. */
  readonly handle: number;
  /** The events that the task waits for before it touches the buffer. */
  readonly after: readonly TaskEvent[];
  /** To be called with the task's event. */
  readonly used: (event: TaskEvent) => void;
}

/**
 * The hidden states of a run's slots. Each slot has a buffer of its own; or, where its hidden states live elsewhere
 * between layers, a store of its own, and working buffers that such slots take in turn.
 */
export class SlotActivations {
  /** One for each slot whose hidden states stay, then those of the ring. */
  private readonly buffers: readonly number[];
  /** One for each slot after those. */
  private readonly stores: readonly number[];
  private readonly staying: number;
  private readonly ring: BufferRing | undefined;

  /** @throws NativeError where memory or the spill file has no room; nothing is held then */
  constructor(
    private readonly runtime: NativeRuntime,
    private readonly slots: number,
    tokens: number,
    spilled: SpilledActivations | undefined,
  ) {
    const buffers: number[] = [];
    const stores: number[] = [];
    this.buffers = buffers;
    this.stores = stores;
    this.staying = spilled ? Math.min(slots, spilled.stayingSlots) : slots;
    this.ring = spilled && new BufferRing(spilled.buffers);
    try {
      for (let i = 0; i < this.staying + (spilled?.buffers ?? 0); i++)
        buffers.push(nativeCall(() => runtime.createActivations(tokens)));
      if (spilled)
        for (let slot = this.staying; slot < slots; slot++)
          stores.push(nativeCall(() => runtime.createHiddenStore(tokens, Math.min(tokens, spilled.residentTokens))));
    } catch (error) {
      this.free();
      throw error;
    }
  }

  /** For a part of compute. The first layer's embedding needs no load: it takes a buffer. */
  forCompute(task: Task): ActivationPlace {
    const { ring } = this;
    const { slot } = task.batch;
    if (!ring || slot < this.staying) return this.place(task, slot, []);
    return task.part === 'embed' ? this.taken(task, ring) : this.held(task, ring);
  }

  /** For hidden states that come from a peer: like the first layer's embedding, they take a buffer. */
  forReceive(task: Task): ActivationPlace {
    return this.forCompute({ ...task, part: 'embed' });
  }

  forLoad(task: Task): ActivationPlace & { readonly store: number } {
    const { ring, store } = this.spilled(task);
    return { ...this.taken(task, ring), store };
  }

  forStore(task: Task): ActivationPlace & { readonly store: number } {
    const { ring, store } = this.spilled(task);
    return { ...this.held(task, ring), store };
  }

  free(): void {
    for (const buffer of this.buffers) nativeCall(() => this.runtime.freeActivations(buffer));
    for (const store of this.stores) nativeCall(() => this.runtime.freeHiddenStore(store));
  }

  private taken(task: Task, ring: BufferRing): ActivationPlace {
    const { buffer, after } = ring.take(task.batch.slot);
    return this.place(task, this.staying + buffer, after, (event) => {
      ring.filledBy(buffer, event);
    });
  }

  private held(task: Task, ring: BufferRing): ActivationPlace {
    const found = ring.find(task.batch.slot);
    if (!found)
      throw new TaskError(
        describeTask(task),
        'the hidden states of the slot were not loaded: the pipeline lacks loadActivation before compute',
      );
    return this.place(task, this.staying + found.buffer, found.load ? [found.load] : [], (event) => {
      ring.usedBy(found.buffer, event);
    });
  }

  private spilled(task: Task): { readonly ring: BufferRing; readonly store: number } {
    const store = this.stores[task.batch.slot - this.staying];
    if (!this.ring || store === undefined)
      throw new TaskError(
        describeTask(task),
        'the hidden states of the slot stay where they are computed: nothing is to be moved',
      );
    return { ring: this.ring, store };
  }

  private place(
    task: Task,
    buffer: number,
    after: readonly TaskEvent[],
    used: (event: TaskEvent) => void = () => undefined,
  ): ActivationPlace {
    const handle = this.buffers[buffer];
    if (handle === undefined) throw new TaskError(describeTask(task), `the run has ${this.slots} slots`);
    return { handle, after, used };
  }
}
