/** Whose turn it is depends on this. */
export interface Claimant {
  readonly priority: number;
  /** Its rows that have a place now. */
  readonly running: number;
}

const NONE: ReadonlySet<number> = new Set();

/**
 * Deals places to calls: the next one goes to the call of the highest priority, of equal ones to the call that has the
 * fewest, and of these to the one that joined first. Whoever takes what comes counts it as running before it asks for
 * more.
 * @param queues of each call, in the order of joining; its own rows are in an order of their own
 * @param owed priorities whose turn it is before that of all others
 */
export function* inTurn<Call extends Claimant, Row>(
  queues: ReadonlyMap<Call, Iterable<Row>>,
  owed: () => ReadonlySet<number> = () => NONE,
): Generator<Row, void, undefined> {
  const left = new Map(Array.from(queues, ([call, rows]) => [call, rows[Symbol.iterator]()]));
  for (;;) {
    let first: Call | undefined;
    const before = owed();
    for (const call of left.keys()) if (!first || precedes(call, first, before)) first = call;
    if (!first) return;
    const step = left.get(first)?.next();
    if (step?.done === false) yield step.value;
    else left.delete(first);
  }
}

function precedes(a: Claimant, b: Claimant, owed: ReadonlySet<number>): boolean {
  const [aIsOwed, bIsOwed] = [owed.has(a.priority), owed.has(b.priority)];
  if (aIsOwed !== bIsOwed) return aIsOwed;
  return a.priority > b.priority || (a.priority === b.priority && a.running < b.running);
}
