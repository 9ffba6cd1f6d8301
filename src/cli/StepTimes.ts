import type { TraceEvent } from './library.js';

/** How long prompts and steps took, by the clock: what the queues waited for counts as well. */
export interface StepFigures {
  /** From the first square to the end of the last pass with a part of a prompt. */
  readonly prefillSeconds: number;
  /** Prompt tokens that were computed. */
  readonly prefilledTokens: number;
  /** From then to the end. 0 where no pass came after the prompts. */
  readonly decodeSeconds: number;
  /** Tokens of rows that were computed then; each gives one more. */
  readonly decodedTokens: number;
  /** Passes of tokens alone. */
  readonly steps: number;
  /** The share of `decodeSeconds` in which weights were read from disk. */
  readonly diskBusyShare: number;
}

interface Pass {
  end: number;
  prompt: number;
  decoded: number;
}

/**
 * Times of prefill and decode from a trace, for rows whose prompts have one length and that were all admitted at once.
 */
export class StepTimes {
  /** Passes that came to their head, in one slot at least: what was cut off before counts for nothing. */
  readonly #passes = new Map<number, Pass>();
  readonly #reads: { readonly start: number; readonly end: number }[] = [];
  #start = Infinity;

  /** @param promptTokens of every row */
  constructor(private readonly promptTokens: number) {}

  add({ ph, name, ts, dur, args }: TraceEvent): void {
    if (ph !== 'X') return;
    const [start, end] = [ts / 1e6, (ts + (dur ?? 0)) / 1e6];
    const [task] = name.split(' ', 1);
    if (task === 'load_weight' && args['from'] === 'disk') this.#reads.push({ start, end });
    if (task !== 'compute') return;
    this.#start = Math.min(this.#start, start);
    // The head is the last part of the last layer.
    if (args['part'] !== 'head') return;
    const number = Number(args['pass']);
    let pass = this.#passes.get(number);
    if (pass === undefined) this.#passes.set(number, (pass = { end, prompt: 0, decoded: 0 }));
    pass.end = Math.max(pass.end, end);
    for (const [, firstPosition, tokens] of args['rows'] as readonly (readonly [unknown, number, number])[]) {
      if (firstPosition < this.promptTokens) pass.prompt += tokens;
      else pass.decoded += tokens;
    }
  }

  figures(): StepFigures {
    const passes = [...this.#passes.values()];
    const prefill = passes.filter(({ prompt }) => prompt > 0);
    const prefillEnd = prefill.reduce(
      (latest, { end }) => Math.max(latest, end),
      passes.length === 0 ? 0 : this.#start,
    );
    const steps = passes.filter(({ prompt, end }) => prompt === 0 && end > prefillEnd);
    const end = steps.reduce((latest, pass) => Math.max(latest, pass.end), prefillEnd);
    const decodeSeconds = end - prefillEnd;
    return {
      prefillSeconds: passes.length === 0 ? 0 : prefillEnd - this.#start,
      prefilledTokens: prefill.reduce((sum, { prompt }) => sum + prompt, 0),
      decodeSeconds,
      decodedTokens: steps.reduce((sum, { decoded }) => sum + decoded, 0),
      steps: steps.length,
      diskBusyShare: decodeSeconds > 0 ? this.#busySeconds(prefillEnd, end) / decodeSeconds : 0,
    };
  }

  /** Seconds between two times during which at least one read was under way. */
  #busySeconds(from: number, to: number): number {
    let busy = 0;
    let reached = from;
    for (const { start, end } of [...this.#reads].sort((a, b) => a.start - b.start)) {
      const [begin, stop] = [Math.max(start, reached), Math.min(end, to)];
      if (stop <= begin) continue;
      busy += stop - begin;
      reached = stop;
    }
    return busy;
  }
}
