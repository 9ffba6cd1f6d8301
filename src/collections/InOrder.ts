/**
 * Values that come ahead of their turn, until it is there. Places start at 0 and leave nothing out. It holds every
 * value that is ahead, so whoever gives places has to bound how far ahead one can be.
 */
export class InOrder<T> {
  private readonly early = new Map<number, T>();
  private next = 0;

  /** How many values wait. */
  get waiting(): number {
    return this.early.size;
  }

  /** Tells whether it is this place's turn. */
  isNext(place: number): boolean {
    return place === this.next;
  }

  /** Gives the values whose turn it is with this one. */
  *add(place: number, value: T): Generator<T, void, undefined> {
    this.early.set(place, value);
    for (; this.early.has(this.next); this.next++) {
      const due = this.early.get(this.next) as T;
      this.early.delete(this.next);
      yield due;
    }
  }

  /** Gives what waits, in order, with gaps: nobody it waits for will come any more. */
  rest(): readonly T[] {
    const rest = [...this.early].sort(([a], [b]) => a - b).map(([, value]) => value);
    this.early.clear();
    return rest;
  }
}
