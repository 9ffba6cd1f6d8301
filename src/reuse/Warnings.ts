/**
 * What can go wrong with a store without ending anything: its header, a part of its contents, writing, reading, keeping
 * up.
 */
export type WarningKind = 'header' | 'damage' | 'write' | 'read' | 'late';

/** Says each kind of thing once, however often it happens. */
export class Warnings {
  readonly #said = new Set<WarningKind>();

  constructor(private readonly onWarning: ((message: string) => void) | undefined) {}

  /** Never throws: it is called where nobody could catch it, and what a store has to say ends no run. */
  say(kind: WarningKind, message: string): void {
    if (this.#said.has(kind)) return;
    this.#said.add(kind);
    try {
      this.onWarning?.(message);
    } catch {
      // What the callback throws has nowhere to go.
    }
  }
}
