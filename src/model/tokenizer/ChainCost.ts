/**
 * What a chain of steps may cost, in proportion to the text that goes into it, whatever the text is. It is added up
 * while the chain is read, step by step, and says beforehand which work is so short that it needs no clock.
 */
export class ChainCost {
  /** Units that come out for each one that goes in, at most. Infinity where nobody knows. */
  growth = 1;
  /**
   * Units that all steps together go through for each one that goes in, at most. Infinity where time is not known to be
   * in proportion to the text.
   */
  work = 0;

  /**
   * One more step behind the others.
   * @param growth units that it makes of one, at most; Infinity of what may take any time
   * @param times what a unit takes, in units of an ordinary step: one replacement, one split
   */
  step(growth = 1, times = 1): void {
    this.growth *= Math.max(1, growth);
    this.work += this.growth * times;
  }

  /** Another chain behind this one. */
  chain(next: ChainCost): void {
    this.work += this.growth * next.work;
    this.growth *= next.growth;
  }
}
