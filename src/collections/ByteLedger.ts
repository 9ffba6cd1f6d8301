/** The bytes that may be held of one kind of thing, by all who hold some: each of them by an account of its own. */
export class ByteLedger {
  #held = 0;
  readonly #waiting = new Set<() => void>();

  /** @param bytes that all accounts may hold together, beyond one entry of each */
  constructor(readonly bytes: number) {}

  get held(): number {
    return this.#held;
  }

  /** @param most bytes that it may hold by itself */
  account(most = this.bytes): LedgerAccount {
    return new LedgerAccount(this, Math.min(most, this.bytes));
  }

  /** For accounts alone. */
  add(bytes: number): void {
    this.#held += bytes;
    if (bytes <= 0) this.wake();
  }

  /** Resolves when something has been given back, or somebody is to look again. */
  changed(): Promise<void> {
    return new Promise((resolve) => this.#waiting.add(resolve));
  }

  wake(): void {
    const waiting = [...this.#waiting];
    this.#waiting.clear();
    for (const resolve of waiting) resolve();
  }
}

/** Who takes bytes of a ledger and gives them back. */
export class LedgerAccount {
  #held = 0;

  constructor(
    private readonly ledger: ByteLedger,
    readonly most: number,
  ) {}

  get held(): number {
    return this.#held;
  }

  /** Tells whether so many more bytes have room. What is alone always has: it would wait for nobody. */
  fits(bytes: number): boolean {
    return this.#held <= 0 || (this.#held + bytes <= this.most && this.ledger.held + bytes <= this.ledger.bytes);
  }

  /** Takes them, whether or not there is room. */
  take(bytes: number): void {
    this.#held += bytes;
    this.ledger.add(bytes);
  }

  give(bytes: number): void {
    this.take(-bytes);
  }

  /** Gives back all that is left: whoever held it is gone. */
  close(): void {
    this.give(this.#held);
  }

  changed(): Promise<void> {
    return this.ledger.changed();
  }

  wake(): void {
    this.ledger.wake();
  }
}
