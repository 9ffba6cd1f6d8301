/** Work that stops now and then on its way to what it makes, so that others have their turn. */
export type Work<T> = Generator<void, T, void>;

/** Does work that may stop between two of its steps, without stopping. */
export function drained<T>(work: Work<T>): T {
  for (;;) {
    const step = work.next();
    if (step.done === true) return step.value;
  }
}

/** A value that is there, or is made without stopping. */
export function valueOf<T extends string | readonly unknown[]>(made: T | Work<T>): T {
  return typeof made === 'object' && 'next' in made ? drained(made) : made;
}
