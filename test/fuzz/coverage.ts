import type { Addon } from '../../src/bindings/Addon.js';

/** What instrumented sources write to; see scripts/nightly/instrumentedCopy.mjs. */
interface JavaScriptCoverage {
  readonly seen: Uint8Array;
  readonly reached: (block: number) => void;
}

const BLOCKS = 2 ** 20;
/** Blocks of JavaScript that have run for the first time, since this was looked at. */
const fresh: number[] = [];

/** Has to run before the instrumented sources are imported. */
export function prepareCoverage(): void {
  const seen = new Uint8Array(BLOCKS);
  const coverage: JavaScriptCoverage = {
    seen,
    reached: (block) => {
      seen[block] = 1;
      fresh.push(block);
    },
  };
  Object.assign(globalThis, { spillwayCoverage: coverage });
}

/**
 * Blocks that have run, of JavaScript and of an addon that was built with SPILLWAY_FUZZ. Numbers mean the same in every
 * process of a run.
 */
export class Coverage {
  readonly #native: Uint8Array | undefined;
  readonly #known: Uint8Array | undefined;

  constructor(addon: Addon) {
    this.#native = (addon as Addon & { coverage?: Uint8Array }).coverage;
    this.#known = this.#native && new Uint8Array(this.#native.length);
  }

  get native(): boolean {
    return this.#native !== undefined;
  }

  /** Blocks that other processes of the run have reached: they are not new. */
  restore(blocks: readonly number[]): void {
    const { spillwayCoverage } = globalThis as unknown as { spillwayCoverage: JavaScriptCoverage };
    for (const block of blocks) {
      if (block < BLOCKS) spillwayCoverage.seen[block] = 1;
      else if (this.#known && this.#native) this.#known[block - BLOCKS] = this.#native[block - BLOCKS] = 1;
    }
  }

  /** Blocks that have run for the first time since this was called last; those of the addon are above 2^20. */
  take(): number[] {
    const blocks = fresh.splice(0);
    if (!this.#native || !this.#known || Buffer.compare(this.#native, this.#known) === 0) return blocks;
    for (let block = 0; block < this.#native.length; block++) {
      if (this.#native[block] === 1 && this.#known[block] === 0) {
        this.#known[block] = 1;
        blocks.push(BLOCKS + block);
      }
    }
    return blocks;
  }
}
