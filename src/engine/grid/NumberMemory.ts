/** Memory for numbers that is written over each time: else each time it would be garbage to collect. */
export class NumberMemory {
  private memory = new Float32Array(0);

  /** So many numbers, whatever they are now: of memory that has as many, and no more than twice. */
  take(length: number): Float32Array {
    const fits = this.memory.length >= length && this.memory.length <= 2 * length;
    if (!fits) this.memory = new Float32Array(length);
    return this.memory.subarray(0, length);
  }
}
