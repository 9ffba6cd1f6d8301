import { Fifo, type Queue } from '../collections/Channel.js';
import type { RowEvent } from '../engine/rows/Generation.js';
import type { RowDelta } from '../Row.js';
import { joinedCalls } from '../rows/joinedCalls.js';

/** Events that wait to be taken: deltas of a row are one, however many have come, so that they stay few. */
export class EventQueue<Result> implements Queue<RowEvent<Result>> {
  private readonly events = new Fifo<RowEvent<Result>>();
  /** Deltas that wait, in pieces, by row. */
  private readonly growing = new Map<string, RowDelta[]>();

  get length(): number {
    return this.events.length;
  }

  push(event: RowEvent<Result>): void {
    if (event.type === 'result') {
      this.events.push(event);
      return;
    }
    const key = keyOf(event.delta);
    const pieces = this.growing.get(key);
    if (pieces) {
      pieces.push(event.delta);
      return;
    }
    this.growing.set(key, [event.delta]);
    this.events.push(event);
  }

  shift(): RowEvent<Result> {
    const event = this.events.shift();
    if (event.type === 'result') return event;
    const key = keyOf(event.delta);
    const pieces = this.growing.get(key) ?? [event.delta];
    this.growing.delete(key);
    return pieces.length === 1 ? event : { type: 'delta', delta: together(event.delta, pieces) };
  }

  clear(): void {
    this.events.clear();
    this.growing.clear();
  }
}

function keyOf({ id, index, sample }: RowDelta): string {
  return JSON.stringify([id, index, sample ?? null]);
}

function together(first: RowDelta, pieces: readonly RowDelta[]): RowDelta {
  const reasoning = pieces.map((piece) => piece.reasoning ?? '').join('');
  const toolCalls = joinedCalls(pieces.flatMap((piece) => piece.toolCalls ?? []));
  return {
    ...first,
    text: pieces.map(({ text }) => text).join(''),
    ...(reasoning !== '' && { reasoning }),
    ...(toolCalls.length > 0 && { toolCalls }),
    tokens: pieces.flatMap(({ tokens }) => tokens),
  };
}
