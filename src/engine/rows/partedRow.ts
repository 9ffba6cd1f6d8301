import { inTurns } from '../../collections/inTurns.js';
import { RowError } from '../../errors/RowError.js';
import type { Tokenizer } from '../../model/Tokenizer.js';
import type { PromptOptions, Row } from '../../Row.js';
import type { ChunkOptions } from '../../rows/chunks.js';
import { promptField } from '../../rows/rowFields.js';
import { type Chunk, chunksOf } from './chunksOf.js';
import { ownTexts } from './truncate.js';

/** A row whose own text is in parts. */
export interface PartedRow {
  readonly chunks: readonly Chunk[];
  /** The row with a part of its own text in the place of all of it. */
  readonly part: (chunk: Chunk) => Row;
}

/** @throws RowError for a row that has no text that could be parted */
export async function partedRow(
  row: Row,
  options: PromptOptions & ChunkOptions,
  tokenizer: Tokenizer,
): Promise<PartedRow> {
  if (options.promptTemplate === undefined && promptField(row) === 'tokens')
    throw new RowError(
      'invalid-row',
      'tokens: found them in a row whose text is to be parted (chunkTokens), expected prompt or messages',
    );
  const own = ownTexts(row, options)[0];
  // The run says what is wrong with it.
  if (!own) return { chunks: [{ from: 0, to: 0, start: 0, end: 0 }], part: () => row };
  const { text } = own;
  const { chunkTokens: tokens = Infinity, chunkOverlap: overlap = 0, escapeSpecialTokens } = options;
  const rules = { tokens, overlap, parseSpecial: escapeSpecialTokens !== true };
  return {
    chunks: await inTurns(chunksOf(text, rules, tokenizer)),
    part: ({ from, to }) => own.with(row, text.slice(from, to)),
  };
}

/** Gives all of a row but what its text is made of. */
export function withoutText({
  fields: _fields,
  prompt: _prompt,
  messages: _messages,
  tokens: _tokens,
  ...settings
}: Row): Omit<Row, 'fields' | 'prompt' | 'messages' | 'tokens'> {
  return settings;
}

/** Names a part for an error; nothing where it is all of the text. */
export function partInWords(chunks: readonly Chunk[], at: number): string {
  const { start, end } = chunks[at] ?? { start: 0, end: 0 };
  return chunks.length === 1 ? '' : `part ${at + 1} of ${chunks.length} (characters ${start} to ${end}): `;
}
