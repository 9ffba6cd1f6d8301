/**
 * Work that stops now and then on its way to what it makes, so that others have their turn. With a promise, which never
 * rejects, it waits for what is done elsewhere.
 */
export type Work<T> = Generator<void | Promise<void>, T, void>;

/** Does work that may stop between two of its steps, and waits for nothing, without stopping. */
export function drained<T>(work: Work<T>): T {
  for (;;) {
    const step = work.next();
    if (step.done === true) return step.value;
    if (step.value) throw new Error('found work that waits, expected such as can be done at once');
  }
}

/** A value that is there, or is made without stopping. */
export function valueOf<T extends string | readonly unknown[]>(made: T | Work<T>): T {
  return typeof made === 'object' && 'next' in made ? drained(made) : made;
}
