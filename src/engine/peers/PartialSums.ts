import { PeerError } from '../../errors/engineErrors.js';
import { NumberMemory } from '../grid/NumberMemory.js';
import { batchTokens } from '../grid/Square.js';
import type { Task } from '../grid/Task.js';
import type { PartialMessage } from './PeerMessage.js';
import { ringExchange, ringExchangeSteps, type Lengths } from '../grid/rowExchange.js';
import { ringSum, ringSumSteps, type RingEnds, type RingPlace } from '../grid/ringSum.js';

type PartialTask = Pick<Task, 'name' | 'batch' | 'layer'>;

interface SlotSums {
  /** In the order in which they came. */
  readonly arrived: PartialMessage[];
  taken: ((message: PartialMessage) => void) | undefined;
  /** Copies on their way: of sums between two engines, and of exchanges. */
  readonly sums: Copies;
  readonly exchanges: Copies;
}

/** Two places in turn for what is on its way to other engines, and whose turn it is. */
class Copies {
  private readonly places = [new NumberMemory(), new NumberMemory()] as const;
  private turn: 0 | 1 = 0;

  /**
   * The other engines send what comes next of a slot once they have taken what went before: so what went before that
   * may be written over. (What goes may have been sent while the one before it waits there.)
   */
  of(values: Float32Array): Float32Array {
    this.turn = this.turn === 0 ? 1 : 0;
    const copy = this.places[this.turn].take(values.length);
    copy.set(values);
    return copy;
  }
}

/** How partial sums go to the engine after, and who is told that one is waited for, or has been added up. */
export interface PartialEvents {
  send(message: PartialMessage): void;
  awaited(): void;
  added(values: Float32Array): void;
}

/**
 * A run's side of the sums that go round the engines which share each layer. Each slot has one sum under way, and those
 * of all engines follow one another in the same order; so what comes of a slot is what the slot waits for next.
 */
export class PartialSums {
  private readonly slots = new Map<number, SlotSums>();
  /** Sums that wait for what has not come. */
  private waiting = 0;

  /** @param mostSlots of which anything may come */
  constructor(
    private readonly place: RingPlace,
    private readonly mostSlots: number,
    private readonly events: PartialEvents,
  ) {}

  /** Something is waited for. */
  get awaits(): boolean {
    return this.waiting > 0;
  }

  /** @param values [tokens, hiddenSize], which become the sum. @throws PeerError (rejects) */
  reduce(task: PartialTask, values: Float32Array): Promise<Float32Array> {
    return ringSum(values, batchTokens(task.batch), this.place, this.endsOf(task, 0));
  }

  /**
   * @param going what each other engine gets, as they follow in the ring: copied at once
   * @returns what has come from each @throws PeerError (rejects)
   */
  exchange(task: PartialTask, going: Float32Array, lengths: Lengths): Promise<Float32Array[]> {
    const { of } = this.place;
    // Each way has steps of its own, so that what is out of step with this engine is seen to be.
    const first = ringSumSteps(of) + (task.name === 'all_to_all' ? 0 : ringExchangeSteps(of));
    const copy = this.of(task.batch.slot).exchanges.of(going);
    return ringExchange(copy, lengths, this.place, this.endsOf(task, first));
  }

  /** Takes what an exchange resolved to back. The memory of what went on from here is still looked at. */
  giveBack(arrived: readonly Float32Array[]): void {
    const { index, of } = this.place;
    const last = arrived[(index + 1) % of];
    if (last) this.events.added(last);
  }

  /** @param first the number of the first step */
  private endsOf({ batch: { pass, slot }, layer }: PartialTask, first: number): RingEnds {
    return {
      send: (counted, values) => {
        this.events.send({ kind: 'partial', pass, slot, layer, step: first + counted, values });
      },
      receive: async (counted, length) => {
        const step = first + counted;
        const message = await this.next(slot);
        if (
          message.pass !== pass ||
          message.layer !== layer ||
          message.step !== step ||
          message.values.length !== length
        )
          throw new PeerError(
            `partial: found ${words(message, message.values.length)}, expected ${words({ pass, slot, layer, step }, length)}`,
          );
        return message.values;
      },
      copy: (values) => this.of(slot).sums.of(values),
      added: (values) => {
        this.events.added(values);
      },
    };
  }

  /** @throws PeerError for more than engines that keep to the order send */
  arrive(message: PartialMessage): void {
    const { slot } = message;
    if (slot >= this.mostSlots)
      throw new PeerError(`partial.slot: found ${slot}, expected one under ${this.mostSlots}`);
    const { arrived, taken } = this.of(slot);
    if (taken) {
      this.of(slot).taken = undefined;
      this.waiting--;
      taken(message);
      return;
    }
    // The engine before may be a whole sum or exchange ahead, and has begun no other one.
    const most = 2 * ringSumSteps(this.place.of);
    if (arrived.length >= most)
      throw new PeerError(`partial: found more than ${most} of slot ${slot} that nothing waits for, expected fewer`);
    arrived.push(message);
  }

  close(): void {
    this.slots.clear();
  }

  private next(slot: number): Promise<PartialMessage> {
    const slots = this.of(slot);
    const first = slots.arrived.shift();
    if (first) return Promise.resolve(first);
    return new Promise((resolve) => {
      slots.taken = resolve;
      this.waiting++;
      this.events.awaited();
    });
  }

  private of(slot: number): SlotSums {
    let found = this.slots.get(slot);
    if (!found) {
      found = { arrived: [], taken: undefined, sums: new Copies(), exchanges: new Copies() };
      this.slots.set(slot, found);
    }
    return found;
  }
}

function words(
  { pass, slot, layer, step }: Pick<PartialMessage, 'pass' | 'slot' | 'layer' | 'step'>,
  numbers: number,
): string {
  return `${numbers} numbers of pass ${pass}, slot ${slot}, layer ${layer}, step ${step}`;
}
