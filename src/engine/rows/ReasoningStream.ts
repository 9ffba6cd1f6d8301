import type { ReasoningMarks } from '../../model/Tokenizer.js';
import { begunAt } from '../tools/Reader.js';

/** The parts of an answer's text that have become certain. */
export interface TextParts {
  readonly text: string;
  readonly reasoning: string;
  /** All that is no text, as it stands there: the reasoning, the marks and the white space round them. */
  readonly thought: string;
}

/** Where the text has come to: white space and what may become the opening mark; within marks; after them. */
type Place = 'start' | 'reasoning' | 'before text' | 'text';

/**
 * Takes the marks of reasoning, and the white space round them, out of a text as it comes: all that it gives is, put
 * together, what `splitReasoning` makes of the whole text. What may become a mark, or white space at a part's end, is
 * held back.
 */
export class ReasoningStream {
  private place: Place = 'start';
  private held = '';
  /** Something of the reasoning has been given: white space before it counts from then on. */
  private reasoned = false;
  private begun = false;

  /** @param open whether the reasoning began before the text */
  constructor(
    private readonly marks: ReasoningMarks,
    private readonly open: boolean,
  ) {}

  /** Tells whether reasoning has begun, of which nothing need have come. */
  get hasBegun(): boolean {
    return this.begun;
  }

  push(piece: string): TextParts {
    this.held += piece;
    return this.parts(false);
  }

  /** The text is over. */
  end(): TextParts {
    return this.parts(true);
  }

  private parts(over: boolean): TextParts {
    const before = this.held;
    const { text, reasoning } = this.take(over);
    // What is text, or is held back, is the end of what was there.
    const gone = over && text === '' ? before.length : before.length - text.length - this.held.length;
    return { text, reasoning, thought: before.slice(0, gone) };
  }

  private take(over: boolean): Omit<TextParts, 'thought'> {
    let reasoning = '';
    if (this.place === 'start') this.begin(over);
    if (this.place === 'reasoning') {
      this.begun = true;
      reasoning = this.reason(over);
    }
    if (this.place === 'before text') {
      this.held = this.held.trimStart();
      if (this.held !== '') this.place = 'text';
    }
    if (this.place !== 'text') return { text: '', reasoning };
    const text = this.held;
    this.held = '';
    return { text, reasoning };
  }

  private begin(over: boolean): void {
    const { start } = this.marks;
    const trimmed = this.held.trimStart();
    if (trimmed.startsWith(start)) {
      this.held = trimmed.slice(start.length);
      this.place = 'reasoning';
    } else if (over || !start.startsWith(trimmed)) this.place = this.open ? 'reasoning' : 'text';
  }

  private reason(over: boolean): string {
    const { end } = this.marks;
    const at = this.held.indexOf(end);
    const closed = at >= 0;
    const safe = closed ? at : over ? this.held.length : this.held.length - begunAt(this.held, end);
    const own = this.held.slice(0, safe);
    const from = this.reasoned ? own : own.trimStart();
    const certain = from.trimEnd();
    if (closed) {
      this.held = this.held.slice(at + end.length);
      this.place = 'before text';
    } else if (certain !== '' || over) this.held = from.slice(certain.length) + this.held.slice(safe);
    if (certain !== '') this.reasoned = true;
    return certain;
  }
}
