import { ROW_LIMITS } from '../files/limits.js';
import type { AddedToken } from './AddedTokens.js';
import type { Decoder, DecodeStage } from './decoders.js';
import { LimitError } from './growth.js';
import type { Guard } from './Guard.js';
import type { Part } from './TokenBytes.js';

/** Steps that real decoders have at most: so many times may an answer as long as it may be go through one. */
const USUAL_STEPS = 8;

/** The parts of a tokenizer that make text of tokens. */
export interface StreamParts {
  readonly guard: Guard;
  /** Id to token; ids may have gaps. */
  readonly tokens: readonly (string | undefined)[];
  readonly decoder: Decoder;
}

/** Text of a stream of tokens; the stages hold back what is not final. */
export class TokenStream {
  readonly #parts: StreamParts;
  readonly #added: ReadonlyMap<number, AddedToken>;
  readonly #isText: (token: AddedToken) => boolean;
  readonly #stages: readonly DecodeStage[];
  #text = '';
  /**
   * UTF-16 units that have gone into each stage, and that came out of the last one; and the most that each of them may
   * be.
   */
  readonly #units: number[];
  #most: number = ROW_LIMITS.answerUnits;
  /** The sum of all of them. */
  #all = 0;

  /** @param isText which added tokens are text; the others are left out */
  constructor(parts: StreamParts, added: ReadonlyMap<number, AddedToken>, isText: (token: AddedToken) => boolean) {
    this.#parts = parts;
    this.#added = added;
    this.#isText = isText;
    this.#stages = parts.decoder.stages();
    this.#units = Array.from({ length: this.#stages.length + 1 }, () => 0);
  }

  /** @throws RowError 'limit', also `end` */
  push(token: number): string {
    const added = this.#added.get(token);
    const text = added?.content ?? this.#parts.tokens[token];
    // An id without a token, as padded vocabularies have them, has no text.
    if (text === undefined || (added !== undefined && !this.#isText(added))) return '';
    this.#most += ROW_LIMITS.answerUnitsPerToken;
    const { guard } = this.#parts;
    const part = { text, verbatim: added !== undefined };
    guard.field = 'decoder';
    return guard.row(text.length, () => {
      this.#emit(0, part);
      return this.#take();
    });
  }

  end(): string {
    const { guard } = this.#parts;
    guard.field = 'decoder';
    const finish = (): string => {
      this.#stages.forEach((stage, i) => stage.end((part) => this.#emit(i + 1, part)));
      return this.#take();
    };
    return guard.row(this.#units[0] ?? 0, finish);
  }

  #take(): string {
    const text = this.#text;
    this.#text = '';
    return text;
  }

  /**
   * Judged at each stage: what grows from one to the next is ended before the chain is through, also where it would
   * shrink again.
   */
  #emit(stage: number, part: Part): void {
    const units = (this.#units[stage] ?? 0) + part.text.length;
    if (units > this.#most)
      throw new LimitError('decoder', `an answer of ${units} UTF-16 units`, `at most ${this.#most} for its tokens`);
    this.#units[stage] = units;
    this.#all += part.text.length;
    const most = USUAL_STEPS * this.#most;
    if (this.#all > most)
      throw new LimitError(
        'decoder',
        `${this.#all} UTF-16 units in all that its steps make of one answer`,
        `at most ${most} for its tokens`,
      );
    const next = this.#stages[stage];
    if (next === undefined) this.#text += part.text;
    else next.push(part, (emitted) => this.#emit(stage + 1, emitted));
  }
}
