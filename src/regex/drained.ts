/** Does work that may stop between two of its steps, without stopping. */
export function drained<T>(work: Generator<void, T>): T {
  for (;;) {
    const step = work.next();
    if (step.done === true) return step.value;
  }
}
