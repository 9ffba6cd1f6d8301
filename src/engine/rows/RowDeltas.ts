import type { RowDelta } from '../../Row.js';
import type { ReasoningStream } from './ReasoningStream.js';

/** Tells what a row's answer has grown by, as it grows: text that nothing can take back, in whole characters. */
export class RowDeltas {
  private text = '';
  private reasoning = '';
  private toldTokens = 0;

  /**
   * @param tell called with each step
   * @param split takes the reasoning out of the text; `told`: it is told of, too
   */
  constructor(
    private readonly identity: Pick<RowDelta, 'id' | 'index' | 'sample'>,
    private readonly tell: (delta: RowDelta) => void,
    private readonly split?: { readonly stream: ReasoningStream; readonly told: boolean },
  ) {}

  /** Text that can no longer be part of a stop string. */
  append(piece: string): void {
    if (!this.split) {
      this.text += piece;
      return;
    }
    const { text, reasoning } = this.split.stream.push(piece);
    this.text += text;
    this.reasoning += reasoning;
  }

  /** The row has these tokens by now. */
  grown(tokens: readonly number[]): void {
    this.give(tokens, wholeCharacters(this.text), wholeCharacters(this.reasoning));
  }

  /** The row is over, with these tokens. */
  end(tokens: readonly number[]): void {
    if (this.split) {
      const { text, reasoning } = this.split.stream.end();
      this.text += text;
      this.reasoning += reasoning;
    }
    this.give(tokens, this.text.length, this.reasoning.length);
  }

  private give(tokens: readonly number[], textLength: number, reasoningLength: number): void {
    const text = this.text.slice(0, textLength);
    const reasoning = this.split?.told === true ? this.reasoning.slice(0, reasoningLength) : '';
    this.text = this.text.slice(textLength);
    this.reasoning = this.reasoning.slice(reasoningLength);
    const more = tokens.slice(this.toldTokens);
    this.toldTokens = tokens.length;
    if (text === '' && reasoning === '' && more.length === 0) return;
    this.tell(deltaOf(this.identity, text, more, reasoning));
  }
}

export function deltaOf(
  { id, index, sample }: Pick<RowDelta, 'id' | 'index'> & { readonly sample?: number | undefined },
  text: string,
  tokens: readonly number[],
  reasoning = '',
): RowDelta {
  return {
    id,
    index,
    ...(sample !== undefined && { sample }),
    text,
    ...(reasoning !== '' && { reasoning }),
    tokens,
  };
}

/** A text's length without a last character of which only one half is there. */
function wholeCharacters(text: string): number {
  const last = text.charCodeAt(text.length - 1);
  return last >= 0xd800 && last < 0xdc00 ? text.length - 1 : text.length;
}
