import {
  BATCH_STRIDE,
  COMPUTE_PARTS,
  HEAD_MODES,
  type NativeCompletions,
  type NativeHeadResult,
  type NativeRowOptions,
  type NativeRuntime,
} from '../../../src/bindings/Addon.js';

export interface PassRange {
  readonly row: number;
  readonly first: number;
  readonly tokens: number;
  readonly mode: keyof typeof HEAD_MODES;
  readonly pages: readonly number[];
}

export const greedyRow: NativeRowOptions = {
  tokens: Int32Array.of(1),
  capacityTokens: 1,
  temperature: 0,
  topP: 1,
  topK: 0,
  minP: 0,
  repetitionPenalty: 1,
  seed: 0,
  logprobs: -1,
};

/** Submits whole passes and waits for their heads. Takes the runtime's one `onCompleted`. */
export class PassRunner {
  private readonly waiting = new Map<
    number,
    (completion: { head: NativeHeadResult | undefined; error: string | undefined }) => void
  >();
  readonly seen: NativeCompletions[] = [];

  constructor(
    private readonly runtime: NativeRuntime,
    private readonly layers: number,
    private readonly activations: number,
  ) {
    runtime.onCompleted((completions) => {
      this.seen.push(completions);
      for (let i = 0; i < completions.events.length; i += 4) {
        const event = completions.events[i] ?? 0;
        const head = completions.heads.find((result) => result.event === event);
        const error = completions.errors.find((failure) => failure.event === event)?.message;
        this.waiting.get(event)?.({ head, error });
        this.waiting.delete(event);
      }
    });
  }

  async run(ranges: readonly PassRange[]): Promise<NativeHeadResult> {
    const pages = ranges.flatMap((range) => range.pages);
    const rows = new Int32Array(ranges.length * BATCH_STRIDE);
    let firstPage = 0;
    ranges.forEach((range, index) => {
      rows.set(
        [range.row, range.first, range.tokens, HEAD_MODES[range.mode], firstPage, range.pages.length, -1],
        index * BATCH_STRIDE,
      );
      firstPage += range.pages.length;
    });
    const batch = this.runtime.createBatch(rows, Int32Array.from(pages));
    let last = this.runtime.submitCompute(COMPUTE_PARTS.embed, 0, batch, this.activations, []);
    for (let layer = 0; layer < this.layers; layer++) {
      for (const part of [COMPUTE_PARTS.project, COMPUTE_PARTS.attend, COMPUTE_PARTS.finish]) {
        last = this.runtime.submitCompute(part, layer, batch, this.activations, [last]);
      }
    }
    const event = this.runtime.submitCompute(COMPUTE_PARTS.head, 0, batch, this.activations, [last]);
    this.runtime.freeBatch(batch);
    const { head, error } = await new Promise<{ head: NativeHeadResult | undefined; error: string | undefined }>(
      (resolve) => {
        this.waiting.set(event, resolve);
      },
    );
    if (!head) throw new Error(error ?? 'the head returned nothing');
    return head;
  }
}
