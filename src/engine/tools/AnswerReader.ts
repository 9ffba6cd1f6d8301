import { ReasoningStream, type TextParts } from '../rows/ReasoningStream.js';
import { begunAt, Reader, type Steps } from './Reader.js';
import type { AnswerParts, ParsedAnswer, ParsedCall, Reasoned, ToolForm, Tools } from './ToolForm.js';

/** Reads an answer that may call tools, as it comes. */
export class AnswerReader {
  private readonly reader = new Reader();
  private readonly steps: Steps<string | undefined>;
  private readonly reasoning: ReasoningStream | undefined;
  private thought = '';
  private isOver = false;
  private problem: string | undefined;

  constructor(
    form: ToolForm,
    tools: Tools,
    private readonly reasoned: Reasoned,
    private readonly parts: AnswerParts,
  ) {
    const { marks, open } = reasoned;
    this.reasoning = marks && form.readsReasoning !== true ? new ReasoningStream(marks, open) : undefined;
    const own = {
      ...parts,
      thought: (piece: string) => {
        this.think(piece);
      },
    };
    this.steps = form.read(this.reader, tools, own, reasoned.held ?? false);
  }

  push(piece: string): void {
    this.read(this.reasoning ? this.split(this.reasoning, this.reasoning.push(piece)) : piece);
  }

  /** The answer is over. @returns what is wrong with it */
  end(): string | undefined {
    const last = this.reasoning ? this.split(this.reasoning, this.reasoning.end()) : '';
    this.reader.end();
    this.read(last);
    this.tellThought(this.thought.length);
    return this.problem;
  }

  private split({ hasBegun }: ReasoningStream, { text, reasoning, thought }: TextParts): string {
    if (hasBegun) this.parts.reasoning(reasoning);
    this.think(thought);
    return text;
  }

  private read(text: string): void {
    if (text !== '') this.tellThought(this.thought.length);
    if (this.isOver) return;
    this.reader.push(text);
    const { done, value } = this.steps.next();
    if (done !== true) return;
    this.isOver = true;
    this.problem = value;
  }

  /** Marks that show nowhere are taken out; what may become one is held back. */
  private think(piece: string): void {
    const { hidden = [] } = this.reasoned;
    this.thought = hidden.reduce((text, mark) => text.replaceAll(mark, ''), this.thought + piece);
    this.tellThought(this.thought.length - Math.max(0, ...hidden.map((mark) => begunAt(this.thought, mark))));
  }

  private tellThought(length: number): void {
    if (length > 0) this.parts.thought(this.thought.slice(0, length));
    this.thought = this.thought.slice(length);
  }
}

/** A whole answer in its parts. */
export function parsedAnswer(form: ToolForm, text: string, tools: Tools, reasoned: Reasoned): ParsedAnswer {
  let [reasoning, content, kept]: [string | undefined, string, string] = [undefined, '', ''];
  const calls: { -readonly [Member in keyof ParsedCall]: ParsedCall[Member] }[] = [];
  const reader = new AnswerReader(form, tools, reasoned, {
    reasoning: (piece) => {
      reasoning = (reasoning ?? '') + piece;
    },
    thought: (piece) => {
      kept += piece;
    },
    content: (piece) => {
      content += piece;
      kept += piece;
    },
    call: (name) => {
      calls.push({ name, arguments: '' });
    },
    arguments: (piece) => {
      const last = calls.at(-1);
      if (last) last.arguments += piece;
    },
  });
  reader.push(text);
  const problem = reader.end();
  // White space before a call is none of the answer's.
  const said = (own: string): string => (calls.length === 0 ? own : own.trimEnd());
  return {
    ...(reasoning !== undefined && { reasoning }),
    kept: said(kept),
    content: said(content),
    calls,
    ...(problem !== undefined && { problem }),
  };
}
