import type { RowDelta } from '../../Row.js';
import { joinedCalls } from '../../rows/joinedCalls.js';
import type { ToolCallDelta } from '../../rows/toolCalls.js';

/** The parts that a row's text turns out to be, as it comes. */
export interface DeltaStream {
  push(piece: string): Grown;
  /** The text is over. */
  end(): Grown;
}

type Grown = Pick<RowDelta, 'text' | 'reasoning' | 'toolCalls'>;

/** Tells what a row's answer has grown by, as it grows: text that nothing can take back, in whole characters. */
export class RowDeltas {
  /** One half of a character, whose other half has yet to come. */
  private half = '';
  private text = '';
  private reasoning = '';
  private toolCalls: ToolCallDelta[] = [];
  private toldTokens = 0;

  /**
   * @param tell called with each step
   * @param stream tells reasoning and calls from text; undefined where all is text
   */
  constructor(
    private readonly identity: Pick<RowDelta, 'id' | 'index' | 'sample'>,
    private readonly tell: (delta: RowDelta) => void,
    private readonly stream?: DeltaStream,
  ) {}

  /** Text that can no longer be part of a stop string. */
  append(piece: string): void {
    const all = this.half + piece;
    const length = wholeCharacters(all);
    this.half = all.slice(length);
    this.take(all.slice(0, length));
  }

  /** The row has these tokens by now. */
  grown(tokens: readonly number[]): void {
    const more = tokens.slice(this.toldTokens);
    this.toldTokens = tokens.length;
    const grown = { text: this.text, reasoning: this.reasoning, toolCalls: joinedCalls(this.toolCalls) };
    this.text = '';
    this.reasoning = '';
    this.toolCalls = [];
    if (Object.values(grown).some(({ length }) => length > 0) || more.length > 0)
      this.tell(deltaOf(this.identity, grown, more));
  }

  /** The row is over, with these tokens. */
  end(tokens: readonly number[]): void {
    this.take(this.half);
    if (this.stream) this.add(this.stream.end());
    this.grown(tokens);
  }

  private take(piece: string): void {
    this.add(this.stream ? this.stream.push(piece) : { text: piece });
  }

  private add({ text, reasoning = '', toolCalls = [] }: Grown): void {
    this.text += text;
    this.reasoning += reasoning;
    this.toolCalls.push(...toolCalls);
  }
}

export function deltaOf(
  { id, index, sample }: Pick<RowDelta, 'id' | 'index'> & { readonly sample?: number | undefined },
  { text, reasoning = '', toolCalls = [] }: Grown,
  tokens: readonly number[],
): RowDelta {
  return {
    id,
    index,
    ...(sample !== undefined && { sample }),
    text,
    ...(reasoning !== '' && { reasoning }),
    ...(toolCalls.length > 0 && { toolCalls }),
    tokens,
  };
}

/** A text's length without a last character of which only one half is there. */
function wholeCharacters(text: string): number {
  const last = text.charCodeAt(text.length - 1);
  return last >= 0xd800 && last < 0xdc00 ? text.length - 1 : text.length;
}
