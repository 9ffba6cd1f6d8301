import { RowError, type RowErrorCode } from '../../errors/RowError.js';
import type { TokenLogprob } from '../../KeptAnswer.js';
import { StopMatcher } from '../../model/StopMatcher.js';
import type { StopStrings } from '../../model/StopStrings.js';
import { ROW_LIMITS } from '../../model/files/limits.js';
import type { Tokenizer } from '../../model/Tokenizer.js';
import type { FinishReason, Reasoning, RowDelta, RowResult } from '../../Row.js';
import { withValue, type AnswerFormat } from '../grammar/AnswerFormat.js';
import { parsedAnswer } from '../tools/AnswerReader.js';
import { CallStream } from '../tools/CallStream.js';
import type { DeviceRow } from '../grid/Device.js';
import type { RunRow } from '../execution/RunRow.js';
import type { HeadOutput, SampledToken } from '../grid/Task.js';
import { byLimit, cutOff } from '../../rows/cutOff.js';
import { failedResult } from '../../rows/failedResult.js';
import type { RowId } from '../grid/Square.js';
import { certaintyOf, fieldCertainties } from './certainty.js';
import { notFinite } from './notFinite.js';
import { tooManyLogprobs } from './logprobLimit.js';
import type { PreparedRow } from './prepareRow.js';
import { endsReasoning, splitReasoning } from './reasoning.js';
import { ReasoningStream, type TextParts } from './ReasoningStream.js';
import { RowDeltas } from './RowDeltas.js';

/** The facts that a row carries from input to output. */
export interface RowIdentity {
  readonly id: string | number;
  readonly index: number;
  readonly sample?: number;
  /** Tokens that were cut of its prompt. */
  readonly truncated?: number;
  /** Order of arrival within the run. */
  readonly sequence: number;
  readonly carry?: Readonly<Record<string, unknown>>;
}

export interface TextRules {
  readonly ignoreEos: boolean;
  /** Alternatives to report with each token; undefined for no log-probabilities. */
  readonly logprobs: number | undefined;
  /** Default: it stays in the text. */
  readonly reasoning?: Reasoning | undefined;
  /** Seconds that a row may take from when it has a place; undefined for any. Looked at with each token. */
  readonly timeout?: number | undefined;
  /** True where the result says how sure the model was. Default false. */
  readonly confidence?: boolean;
}

/** A result, and its place in the order of input. */
export interface Ordered<Result> {
  readonly sequence: number;
  readonly result: Result;
}

export type OrderedResult = Ordered<RowResult>;

/** An answer that was not sampled token by token. */
export interface DecidedAnswer {
  readonly text: string;
  readonly tokens: readonly Pick<SampledToken, 'token' | 'logprob' | 'top'>[];
  /** How likely it is among all that it was taken from, if the row asks. */
  readonly confidence?: number;
}

/** Who counts tokens and rows. */
export interface RowCounter {
  token(): void;
  row(failed: boolean, newTokens: number, cut: boolean): void;
}

/** A row in the engine: its answer so far, and when it ends. */
export class ActiveRow implements RunRow<OrderedResult> {
  readonly sequence: DeviceRow;
  private readonly tokens: number[] = [];
  private readonly logprobs: (TokenLogprob & { top: readonly TokenLogprob[] })[] = [];
  private readonly stream: ReturnType<Tokenizer['stream']>;
  private readonly matcher: StopMatcher | undefined;
  /** The likelihood of each token among those that might come; undefined where there was no other. */
  private readonly certainties: (number | undefined)[] = [];
  /** The confidence of a choice that was taken as a whole. */
  private confidence: number | undefined;
  private logprobCount = 0;
  private text = '';
  /** After how many tokens the answer was a whole one: kept where a stop string may cut it there. */
  private readonly wholeAt: number[] = [];
  private began = Infinity;
  private readonly deltas: RowDeltas | undefined;

  constructor(
    private readonly identity: RowIdentity,
    private readonly prepared: PreparedRow,
    private readonly tokenizer: Tokenizer,
    private readonly rules: TextRules,
    private readonly counter: RowCounter,
    /** Called with the row's answer, or its error, before a value is made of it: that is each row's own. */
    private readonly onAnswer: (result: RowResult) => void = () => undefined,
    /** The format that the row's tokens follow, where it is held to one. */
    private readonly format?: AnswerFormat,
    /** The stop strings of `prepared`, as far as rows share them. */
    stops?: StopStrings,
    /** Told of the answer as it grows. */
    tell?: (delta: RowDelta) => void,
  ) {
    const read = format?.calls ?? prepared.channels;
    this.stream = tokenizer.stream({
      reasoningMarks: this.splits || format?.calls !== undefined,
      ...(read && { markers: read.markers }),
    });
    const { tokens, maxNewTokens, temperature, topP, topK, minP, repetitionPenalty, seed, adjustments } = prepared;
    this.matcher = prepared.stop.length > 0 ? new StopMatcher(stops ?? prepared.stop) : undefined;
    const capacityTokens = tokens.length + maxNewTokens;
    this.sequence = {
      tokens,
      capacityTokens,
      temperature,
      topP,
      topK,
      minP,
      repetitionPenalty,
      seed,
      logprobs: rules.logprobs ?? -1,
      ...(adjustments && { adjustments }),
      ...(format && { grammar: format.grammar }),
      ...(rules.confidence === true && { certainty: true }),
    };
    this.deltas = tell && this.deltasTo(tell);
  }

  /** Reasoning and calls are taken out of the text as it comes, where they are at the end. */
  private deltasTo(tell: (delta: RowDelta) => void): RowDeltas {
    const { identity, tokenizer, prepared, format } = this;
    const { reasoningMarks: marks } = tokenizer;
    const read = format?.calls ?? (prepared.channels && { ...prepared.channels, reasoning: this.reasoning });
    if (read)
      return new RowDeltas(identity, tell, new CallStream(read, { ...identity, promptTokens: prepared.tokens.length }));
    if (!this.splits || !marks || format) return new RowDeltas(identity, tell);
    const stream = new ReasoningStream(marks, endsReasoning(prepared.tokens, marks, tokenizer));
    const told = ({ text, reasoning }: TextParts): Pick<RowDelta, 'text' | 'reasoning'> =>
      this.rules.reasoning === 'separate' ? { text, reasoning } : { text };
    return new RowDeltas(identity, tell, {
      push: (piece) => told(stream.push(piece)),
      end: () => told(stream.end()),
    });
  }

  private get reasoning(): Reasoning {
    return this.rules.reasoning ?? 'keep';
  }

  private get splits(): boolean {
    return this.reasoning !== 'keep';
  }

  /** A choice is one as a whole. */
  private get isToldWhole(): boolean {
    return this.format?.choices !== undefined;
  }

  get newTokens(): number {
    return this.prepared.maxNewTokens;
  }

  /** @param at when it, or an attempt before it, has got its place */
  begin(at = performance.now()): void {
    this.began = at;
  }

  accept(head: HeadOutput, row: RowId): OrderedResult | undefined {
    const sampled = head.sampled.get(row);
    if (!sampled) return undefined;
    const answer = this.answered(() => this.next(sampled));
    if (answer) return this.over(answer);
    this.deltas?.grown(this.tokens);
    return undefined;
  }

  /** Ends the row with what has been found otherwise: the choice that it is answered with, or why there is none. */
  decided(found: DecidedAnswer | RowError): OrderedResult {
    return this.over(
      this.answered(() => {
        if (found instanceof RowError) throw found;
        return this.decide(found);
      }),
    );
  }

  private over(answer: RowResult): OrderedResult {
    const result = withValue(answer, this.format);
    // An error that has no text has no tokens either.
    if (answer.tokens === this.tokens) {
      if (this.isToldWhole) this.deltas?.append(result.text);
      this.deltas?.end(this.tokens);
    }
    this.counter.row(result.error !== undefined, this.tokens.length, result.finishReason === 'length');
    this.onAnswer(answer);
    return { sequence: this.identity.sequence, result };
  }

  /**
   * A row whose tokens make no text that can be held, whose next token would be chosen from what is not finite, or that
   * takes too long, is an error, and no other row's affair.
   */
  private answered<Result extends RowResult | undefined>(answer: () => Result): Result | RowResult {
    try {
      return answer();
    } catch (error) {
      if (!(error instanceof RowError)) throw error;
      return failedResult(this.identity, { code: error.rowCode, message: error.message }, this.identity.carry);
    }
  }

  private next(sampled: SampledToken): RowResult | undefined {
    const { notFinite: place, failure } = sampled;
    if (failure !== undefined) {
      this.release();
      return this.failed(
        'limit',
        `the answer's ${this.format?.calls ? 'calls of tools' : 'responseFormat'}, after ${this.tokens.length} tokens: ${failure}`,
      );
    }
    if (place)
      throw new RowError('numeric', notFinite(this.sequence.tokens.length + this.tokens.length - 1, place.layer));
    const result = this.push(sampled);
    const late = result === undefined ? this.lateness() : undefined;
    if (late) throw late;
    return result;
  }

  /** That the row has taken too long, if it has. */
  lateness(): RowError | undefined {
    const { timeout = Infinity } = this.rules;
    return performance.now() - this.began > timeout * 1000
      ? new RowError(
          'timeout',
          `the row has taken more than ${timeout} seconds, and has ${this.tokens.length} of at most ${this.prepared.maxNewTokens} tokens`,
        )
      : undefined;
  }

  private decide({ text, tokens, confidence }: DecidedAnswer): RowResult {
    this.confidence = confidence;
    let result: RowResult | undefined;
    for (const [at, token] of tokens.entries())
      result ??= this.pushOne(token, at === tokens.length - 1 ? 'ended' : 'open');
    result ??= this.ended('stop');
    // Decoders leave out a blank at an answer's beginning that a choice may have.
    const isAll = result.error === undefined && result.tokens.length === tokens.length;
    return isAll && !this.matcher ? { ...result, text } : result;
  }

  /** Takes the next token, and those that are known with it; a result when one of them was the row's last. */
  private push({ forced = [], ...sampled }: SampledToken): RowResult | undefined {
    let result: RowResult | undefined;
    for (let at = 0; at <= forced.length && result === undefined; at++) {
      const token = forced[at - 1];
      // Where tokens are forced, the answer is not a whole one before the last of them.
      const place = at < forced.length ? ('open' as const) : sampled.place;
      result = this.pushOne(token === undefined ? sampled : { token, logprob: NaN, top: [] }, place);
    }
    return result;
  }

  private pushOne(
    sampled: Pick<SampledToken, 'token' | 'logprob' | 'top' | 'certainty'>,
    place: SampledToken['place'],
  ): RowResult | undefined {
    // A grammar offers the end token where the answer is whole, and has no place for what would come after it.
    if ((!this.rules.ignoreEos || place) && this.tokenizer.endTokens.has(sampled.token)) return this.ended('stop');
    if (this.prepared.stopTokens.has(sampled.token)) {
      this.release();
      return this.stopped();
    }
    const { logprobs } = this.rules;
    if (logprobs !== undefined) {
      this.logprobCount += 1 + sampled.top.length;
      if (this.logprobCount > ROW_LIMITS.logprobs) {
        this.release();
        return this.failed('limit', tooManyLogprobs(logprobs, this.tokens.length));
      }
      this.logprobs.push({ token: sampled.token, logprob: sampled.logprob, top: sampled.top });
    }
    this.tokens.push(sampled.token);
    if (this.rules.confidence === true) this.certainties.push(sampled.certainty);
    this.counter.token();
    if ((place === 'accepting' || place === 'ended') && this.matcher) this.wholeAt.push(this.tokens.length);
    if (this.append(this.stream.push(sampled.token))) return this.stopped();
    if (place === 'ended') return this.ended('stop');
    return this.tokens.length < this.prepared.maxNewTokens ? undefined : this.ended('length', place);
  }

  /** The row's tokens are all there. @param place of an answer that its limit has ended */
  private ended(reason: FinishReason, place?: SampledToken['place']): RowResult {
    if (this.release()) return this.stopped();
    // Also where what is there would be a whole answer: of a number, say, more digits may be missing.
    // Of calls it is found out when they are read.
    return place === undefined || reason === 'stop' || this.format?.calls
      ? this.result(reason)
      : this.cutOff(byLimit(this.prepared.maxNewTokens));
  }

  /**
   * A stop string or token has been found. The text from there on is no part of the answer, which may be none without
   * it.
   */
  private stopped(): RowResult {
    return this.isWhole() ? this.result('stop') : this.cutOff('one of its stop strings');
  }

  /** Tells whether the text that a stop string has left is all that the row's format asks for. */
  private isWhole(): boolean {
    const { format, wholeAt, text, tokens } = this;
    if (!format || format.calls) return format?.calls?.held?.stops ?? true;
    if (format.isWhole) return format.isWhole(text);
    // The grammar has said where tokens made a whole answer; a text that ends within a token counts as none. Texts
    // grow with their tokens: the places are searched by halves.
    let low = 0;
    for (let high = wholeAt.length; low < high;) {
      const middle = (low + high) >>> 1;
      const before = this.tokenizer.decode(tokens.slice(0, wholeAt[middle]));
      if (before.length < text.length) low = middle + 1;
      else if (before.length === text.length) return before === text;
      else high = middle;
    }
    return false;
  }

  /** An answer that has not become a whole one. */
  private cutOff(by: string): RowResult {
    return { ...this.result('error'), error: cutOff(by) };
  }

  /** The row as an error, with what there is of its answer. */
  private failed(code: RowErrorCode, message: string): RowResult {
    return { ...this.result('error'), error: { code, message } };
  }

  /** The answer, and the reasoning before it where that was asked for. */
  private parts(): Pick<RowResult, 'text' | 'reasoning'> {
    const { reasoningMarks: marks } = this.tokenizer;
    const { channels } = this.prepared;
    if (channels) {
      const { reasoning, content, kept } = parsedAnswer(channels.form, this.text, channels.tools, channels.reasoned);
      const separate = this.reasoning === 'separate' && reasoning !== undefined;
      return { text: this.reasoning === 'keep' ? kept : content, ...(separate && { reasoning }) };
    }
    // What is held to a format has no reasoning in it.
    if (!this.splits || !marks || this.format) return { text: this.text };
    const { reasoning, text } = splitReasoning(
      this.text,
      marks,
      endsReasoning(this.prepared.tokens, marks, this.tokenizer),
    );
    return { text, ...(reasoning !== undefined && this.rules.reasoning === 'separate' && { reasoning }) };
  }

  /** Adds text; true if a stop string has been found in it. */
  private append(piece: string): boolean {
    if (!this.matcher) {
      this.certain(piece);
      return false;
    }
    const { text, stopped } = this.matcher.push(piece);
    this.certain(text);
    return stopped;
  }

  /** Text that was held back, for it might have become a character or a stop string: true where it is one after all. */
  private release(): boolean {
    if (this.append(this.stream.end())) return true;
    const rest = this.matcher?.end();
    this.certain(rest?.text ?? '');
    return rest?.stopped ?? false;
  }

  /** Text that can no longer be part of a stop string. */
  private certain(text: string): void {
    this.text += text;
    if (!this.isToldWhole) this.deltas?.append(text);
  }

  /** @param reason `error` where another error is to be added */
  private result(reason: FinishReason): RowResult {
    const parts = this.parts();
    const { id, index, sample, truncated, carry } = this.identity;
    return {
      id,
      index,
      ...(sample !== undefined && { sample }),
      ...parts,
      tokens: this.tokens,
      finishReason: reason,
      usage: { promptTokens: this.prepared.tokens.length, completionTokens: this.tokens.length },
      ...(truncated !== undefined && { truncated }),
      ...(reason !== 'error' && this.certainty()),
      ...(this.rules.logprobs !== undefined && { logprobs: this.logprobs }),
      ...(carry && { carry }),
    };
  }

  /** How sure the model was of its answer, if that is asked for. */
  private certainty(): Pick<RowResult, 'confidence' | 'leastConfidence' | 'fieldConfidence'> {
    if (this.rules.confidence !== true) return {};
    const { confidence, certainties, tokens, text, tokenizer } = this;
    if (confidence !== undefined) return { confidence, leastConfidence: confidence };
    const { mean, least } = certaintyOf(certainties);
    const isJson = this.prepared.responseFormat?.type === 'json_schema';
    const fields = isJson ? fieldCertainties(text, tokens, certainties, tokenizer) : undefined;
    return { confidence: mean, leastConfidence: least, ...(fields && { fieldConfidence: fields }) };
  }
}
