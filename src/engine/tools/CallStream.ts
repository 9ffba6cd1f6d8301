import type { RowDelta, RowResult } from '../../Row.js';
import type { ToolCallDelta } from '../../rows/toolCalls.js';
import { AnswerReader } from './AnswerReader.js';
import { callId, type CalledTools } from './withCalls.js';

type Growth = Pick<RowDelta, 'text' | 'reasoning' | 'toolCalls'>;

/**
 * The parts of an answer that may call tools which have become certain, as it comes: put together they are what
 * `withCalls` makes of the whole, where that is no error.
 */
export class CallStream {
  private readonly reader: AnswerReader;
  private text = '';
  /** White space at the end of what is said: none of it where a call follows. */
  private blank = '';
  private reasoning = '';
  private calls: { index: number; id?: string; name?: string; arguments: string }[] = [];
  private count = 0;

  constructor(
    { form, tools, reasoned, reasoning: wanted }: Pick<CalledTools, 'form' | 'tools' | 'reasoned' | 'reasoning'>,
    row: Pick<RowResult, 'id' | 'sample'> & { readonly promptTokens: number },
  ) {
    this.reader = new AnswerReader(form, tools, reasoned, {
      reasoning: (piece) => {
        if (wanted === 'separate') this.reasoning += piece;
      },
      thought: (piece) => {
        if (wanted === 'keep') this.say(piece);
      },
      content: (piece) => {
        this.say(piece);
      },
      call: (name) => {
        this.calls.push({ index: this.count, id: callId(form, row, name, this.count), name, arguments: '' });
        this.count++;
      },
      arguments: (piece) => {
        const index = this.count - 1;
        const last = this.calls.at(-1);
        if (last?.index === index) last.arguments += piece;
        else this.calls.push({ index, arguments: piece });
      },
    });
  }

  push(piece: string): Growth {
    this.reader.push(piece);
    return this.grown();
  }

  /** The answer is over. */
  end(): Growth {
    this.reader.end();
    if (this.count === 0) {
      this.text += this.blank;
      this.blank = '';
    }
    return this.grown();
  }

  private say(piece: string): void {
    const all = this.blank + piece;
    const said = all.trimEnd();
    this.text += said;
    this.blank = all.slice(said.length);
  }

  private grown(): Growth {
    const { text, reasoning, calls } = this;
    this.text = '';
    this.reasoning = '';
    this.calls = [];
    const toolCalls: readonly ToolCallDelta[] = calls;
    return { text, ...(reasoning !== '' && { reasoning }), ...(toolCalls.length > 0 && { toolCalls }) };
  }
}
