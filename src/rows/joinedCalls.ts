import type { ToolCallDelta } from './toolCalls.js';

/** Joins what calls have grown by, piece after piece, into one piece for each call. */
export function joinedCalls(pieces: readonly ToolCallDelta[]): readonly ToolCallDelta[] {
  const joined: { first: ToolCallDelta; parts: string[] }[] = [];
  for (const piece of pieces) {
    const last = joined.at(-1);
    if (last?.first.index === piece.index) last.parts.push(piece.arguments);
    else joined.push({ first: piece, parts: [piece.arguments] });
  }
  return joined.map(({ first, parts }) => ({ ...first, arguments: parts.join('') }));
}
