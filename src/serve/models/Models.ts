import { InterruptedError } from '../../errors/InterruptedError.js';
import { MemoryBudgetError } from '../../errors/MemoryBudgetError.js';
import { ProcessLimitError } from '../../errors/ProcessLimitError.js';
import { SpillwayError } from '../../errors/SpillwayError.js';
import type { EngineActivity } from '../../RunStats.js';
import type { ServedEngine, ServedModel } from '../ServeOptions.js';
import type { Fact } from '../watch/WatchSource.js';

/** A model that is in memory for as long as somebody holds it. */
export interface ModelLease {
  readonly engine: ServedEngine;
  /** Fires when another model needs its place, or the server ends: what can go on later ends now. */
  readonly yielding: AbortSignal;
  /** @param error what a call of it has ended with, if with one: an engine that has failed is opened anew */
  release(error?: unknown): void;
}

/** A model, and who uses it. */
interface Place {
  readonly model: ServedModel;
  engine: ServedEngine | undefined;
  users: number;
  /** Makes room: whoever asks now waits until it has been opened again. */
  leaving: boolean;
  yielding: AbortController;
  /** By when it was last used, in order. */
  used: number;
  /** How many had made room when it had none: until one more has, it need not be tried again. */
  refused: number;
}

interface Waiting {
  readonly place: Place;
  readonly patient: boolean;
  /** Ends the waiting. */
  readonly done: (outcome: { readonly lease: ModelLease } | { readonly error: unknown }) => void;
}

/**
 * The models of a server: those in memory, and who waits for another one. Where a model has no room beside those that
 * are there, the one that was not used for the longest makes room: its batches stop, to go on later, and its requests
 * end first. Requests come before batches, for whose models only those make room that nobody uses.
 */
export class Models {
  readonly #places: Place[];
  readonly #waiting: Waiting[] = [];
  readonly #ending = new AbortController();
  #uses = 0;
  #left = 0;
  #settling = false;
  /** True where there is more to look at than there was when somebody began to. */
  #changed = false;

  /** @param other makes a model of a name that none of these has; without it there are no others */
  constructor(
    models: readonly ServedModel[],
    private readonly most = Infinity,
    private readonly other?: (name: string) => ServedModel,
  ) {
    this.#places = models.map(placeOf);
  }

  get names(): readonly string[] {
    return this.#places.map(({ model }) => model.name);
  }

  /** Names of models in memory. */
  get open(): readonly string[] {
    return this.#places.flatMap(({ engine, model }) => (engine ? [model.name] : []));
  }

  /** Says what models in memory do, as far as they tell. */
  activities(): ReadonlyMap<string, EngineActivity> {
    return new Map(
      this.#places.flatMap(({ engine, model: { name } }) => {
        const activity = engine?.activity?.();
        return activity ? [[name, activity] as const] : [];
      }),
    );
  }

  /** Says what there is to say of the plans of the models in memory. */
  plans(): readonly Fact[] {
    return this.#places.flatMap(({ engine, model: { name } }) =>
      (engine?.planFacts?.() ?? []).map(([what, value]): Fact => [
        this.#places.length > 1 ? `${name}: ${what}` : what,
        value,
      ]),
    );
  }

  /** The model that is called so; where there is one alone, also that of who names none. */
  find(name: string | undefined): ServedModel | undefined {
    if (name === undefined) return this.#places.length === 1 ? this.#places[0]?.model : undefined;
    const known = this.#places.find(({ model }) => model.name === name || model.aliases?.includes(name) === true);
    if (known || !this.other) return known?.model;
    const made = placeOf(this.other(name));
    this.#places.push(made);
    return made.model;
  }

  /**
   * Takes a model, which is opened if need be.
   * @param patient for a batch: it waits until no other model is in use that would have to make room
   * @throws what opening it throws; InterruptedError when the signal fires, or the server ends
   */
  async lease(model: ServedModel, signal: AbortSignal, patient = false): Promise<ModelLease> {
    const place = this.#places.find((each) => each.model === model);
    if (!place) throw new RangeError(`no model ${model.name}`);
    if (signal.aborted || this.#ending.signal.aborted) throw new InterruptedError(signal.reason);
    if (place.engine && !place.leaving) return this.#leaseOf(place, place.engine);
    let leave = (): void => undefined;
    const outcome = await new Promise<Parameters<Waiting['done']>[0]>((resolve) => {
      const waiting = { place, patient, done: resolve };
      leave = (): void => {
        this.#drop(waiting);
        resolve({ error: new InterruptedError(signal.reason) });
      };
      signal.addEventListener('abort', leave, { once: true });
      this.#waiting.push(waiting);
      void this.#settle();
    });
    signal.removeEventListener('abort', leave);
    if ('error' in outcome) throw outcome.error;
    return outcome.lease;
  }

  /** Lets nobody in any more, and tells those to end who can go on later. */
  end(): void {
    this.#ending.abort();
    for (const { yielding } of this.#places) yielding.abort();
    for (const { done } of this.#waiting.splice(0))
      done({ error: new InterruptedError('the server is being stopped') });
  }

  /** Frees all models, whoever uses them. */
  async close(): Promise<void> {
    this.end();
    await Promise.all(this.#places.map((place) => this.#closed(place)));
  }

  #leaseOf(place: Place, engine: ServedEngine): ModelLease {
    place.users += 1;
    place.used = ++this.#uses;
    let held = true;
    return {
      engine,
      yielding: place.yielding.signal,
      release: (error) => {
        if (!held) return;
        held = false;
        place.users -= 1;
        // Only where it is still that one: of an engine that has failed all calls say so.
        if (place.engine === engine && isBroken(error)) this.#leave(place);
        void this.#settle();
      },
    };
  }

  #leave(place: Place): void {
    place.leaving = true;
    place.yielding.abort();
  }

  #drop(waiting: Waiting): void {
    const at = this.#waiting.indexOf(waiting);
    if (at >= 0) this.#waiting.splice(at, 1);
  }

  /** Does what can be done for those who wait. What cannot be done yet is tried again when something is released. */
  async #settle(): Promise<void> {
    this.#changed = true;
    if (this.#settling) return;
    this.#settling = true;
    try {
      while (this.#changed) {
        this.#changed = false;
        while (await this.#step());
      }
    } finally {
      this.#settling = false;
    }
  }

  /** @returns whether there may be more to do */
  async #step(): Promise<boolean> {
    const left = this.#places.find(({ engine, leaving, users }) => engine && leaving && users === 0);
    if (left) {
      await this.#closed(left);
      return true;
    }
    const ready = this.#waiting.find(({ place }) => place.engine && !place.leaving);
    if (ready?.place.engine) {
      this.#drop(ready);
      ready.done({ lease: this.#leaseOf(ready.place, ready.place.engine) });
      return true;
    }
    const next = this.#waiting.find(({ patient }) => !patient) ?? this.#waiting[0];
    // One that is leaving opens when it has left; and until one has left there is no more room than before.
    if (!next || this.#places.some(({ leaving }) => leaving)) return false;
    if (this.open.length >= this.most || (next.place.refused === this.#left && this.open.length > 0))
      return this.#makeRoom(next);
    try {
      next.place.engine = await next.place.model.open(this.#ending.signal);
      return true;
    } catch (error) {
      const wantsRoom = error instanceof MemoryBudgetError || error instanceof ProcessLimitError;
      if (wantsRoom && this.open.length > 0) {
        next.place.refused = this.#left;
        return this.#makeRoom(next);
      }
      for (const waiting of this.#waiting.filter(({ place }) => place === next.place)) {
        this.#drop(waiting);
        waiting.done({ error });
      }
      return true;
    }
  }

  /** @returns whether one that is in memory leaves at once */
  #makeRoom({ patient }: Waiting): boolean {
    const candidates = this.#places.filter(({ engine, users }) => engine && !(patient && users > 0));
    const [oldest] = candidates.sort((a, b) => Number(a.users > 0) - Number(b.users > 0) || a.used - b.used);
    if (!oldest) return false;
    this.#leave(oldest);
    return oldest.users === 0;
  }

  async #closed(place: Place): Promise<void> {
    const { engine } = place;
    place.engine = undefined;
    await engine?.close?.();
    this.#left += 1;
    place.leaving = false;
    place.yielding = new AbortController();
    if (this.#ending.signal.aborted) place.yielding.abort();
  }
}

function placeOf(model: ServedModel): Place {
  return {
    model,
    engine: undefined,
    users: 0,
    leaving: false,
    yielding: new AbortController(),
    used: 0,
    refused: -1,
  };
}

/** Errors after which an engine answers nothing any more, or cannot be told to. */
function isBroken(error: unknown): boolean {
  return error instanceof SpillwayError && ['task', 'native', 'peer', 'schedule'].includes(error.code);
}
