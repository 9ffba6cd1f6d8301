/**
 * Chunks of a source that are taken piece by piece; what was taken and not used can be given back. Ends the source when
 * it is disposed of.
 */
export class ByteQueue implements AsyncDisposable {
  readonly #chunks: AsyncIterator<Uint8Array | string, unknown>;
  #given: Buffer | undefined;
  #ended = false;

  constructor(chunks: AsyncIterable<Uint8Array | string>) {
    this.#chunks = chunks[Symbol.asyncIterator]();
  }

  /** The next bytes, some at least; undefined at the end. The call after may overwrite them. */
  async next(): Promise<Buffer | undefined> {
    const given = this.#given;
    this.#given = undefined;
    if (given !== undefined) return given;
    while (!this.#ended) {
      const step = await this.#chunks.next();
      if (step.done === true) this.#ended = true;
      else if (step.value.length > 0) return asBuffer(step.value);
    }
    return undefined;
  }

  /** Bytes that come next once more. */
  giveBack(bytes: Buffer): void {
    if (bytes.length > 0) this.#given = this.#given === undefined ? bytes : Buffer.concat([bytes, this.#given]);
  }

  /** So many bytes, of which the call after leaves this copy alone; fewer at the end. */
  async take(length: number): Promise<Buffer> {
    const parts: Buffer[] = [];
    for (let missing = length; missing > 0;) {
      const bytes = await this.next();
      if (bytes === undefined) break;
      parts.push(Buffer.from(bytes.subarray(0, missing)));
      this.giveBack(bytes.subarray(missing));
      missing -= Math.min(missing, bytes.length);
    }
    return Buffer.concat(parts);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#given = undefined;
    if (!this.#ended) await this.#chunks.return?.();
    this.#ended = true;
  }
}

function asBuffer(chunk: Uint8Array | string): Buffer {
  return typeof chunk === 'string' ? Buffer.from(chunk) : Buffer.from(chunk.buffer, chunk.byteOffset, chunk.byteLength);
}
