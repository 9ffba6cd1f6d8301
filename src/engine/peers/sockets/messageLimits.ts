import type { EngineFacts } from './EngineFacts.js';
import { HIDDEN_STATE_BYTES, type HiddenStates } from '../../grid/HiddenStates.js';
import { MOST_PAGES_BYTES } from '../../../plan/reserves.js';
import type { FrameLimits } from './frames.js';
import { isWhole } from './layerPlace.js';

const KIB = 2 ** 10;
const MIB = 2 ** 20;
/** Bytes of one whole number in a frame, at most. */
const WHOLE_BYTES = 8;
/** Most bytes of one row in a batch: four numbers, what the head does, what is shared. */
const RANGE_BYTES = 5 * WHOLE_BYTES + 2;
/** Most bytes of one sampled token, without the likeliest others. */
const SAMPLED_BYTES = 5 * WHOLE_BYTES;
/** Most bytes of one of the likeliest others. */
const OTHER_BYTES = 2 * WHOLE_BYTES;
/** No frame but those of hidden states and sums is larger, whatever a model's shape would allow. */
const MOST_BYTES = 64 * MIB;

/** Bytes of a token's number, at most. */
const TOKEN_BYTES = 4;
/** No rows that are announced at once are larger: caches hold fewer tokens. */
const MOST_ROWS_BYTES = 256 * MIB;

/** `end` says why in words of so many bytes. */
export const REASON_BYTES = KIB;

type Shape = Pick<EngineFacts, 'block' | 'hiddenSize' | 'vocabularySize' | 'contextTokens'> &
  Partial<Pick<EngineFacts, 'layers' | 'pageBytes' | 'exchanged'>>;

/** The largest messages that honest engines of this shape send. Pure. */
export function messageLimits(
  { block, hiddenSize, vocabularySize, contextTokens, layers, pageBytes = 0, exchanged = 0 }: Shape,
  hiddenStates: HiddenStates = 'float32',
): FrameLimits {
  const { slots, rowsPerSlot, tokensPerSquare } = block;
  const hidden = HIDDEN_STATE_BYTES[hiddenStates] * hiddenSize * tokensPerSquare;
  const most = (bytes: number): number => Math.min(MOST_BYTES, KIB + bytes);
  const always = { ping: 0, end: 2 * REASON_BYTES, begin: 2 * KIB };
  if (layers && isWhole(layers))
    return {
      ...always,
      prompt: most(WHOLE_BYTES * contextTokens),
      pages: KIB + Math.max(MOST_PAGES_BYTES, pageBytes),
    };
  return {
    ...always,
    // Its tokens, and pages and candidates, of which there are no more than that.
    open: most(64 * KIB + 3 * WHOLE_BYTES * contextTokens),
    // Of one slot a batch for each chunk of a prompt, where a schedule puts these into one sweep.
    sweep: most(64 * KIB + RANGE_BYTES * rowsPerSlot * (slots + Math.ceil(contextTokens / tokensPerSquare))),
    hidden: KIB + hidden,
    // Where engines share each layer: sums and exchanges are float32.
    ...(layers?.shares !== undefined && {
      partial: KIB + 4 * Math.max(hiddenSize, exchanged) * tokensPerSquare,
    }),
    head: most(rowsPerSlot * (SAMPLED_BYTES + OTHER_BYTES * vocabularySize + 4 * hiddenSize) + 4 * tokensPerSquare),
    close: 2 * WHOLE_BYTES,
    free: 2 * WHOLE_BYTES,
  };
}

/**
 * Bytes that an honest engine of this shape may have written and its peer not taken yet: hidden states and results of
 * each slot, and what rows begin with. Who takes less is gone, or wants this one's memory. Pure.
 */
export function mostUntakenBytes(shape: Shape): number {
  const { hidden = 0, head = 0, partial = 0, pages = 0 } = messageLimits(shape);
  const { slots, rowsPerSlot } = shape.block;
  // Twice: those that ended make room for others.
  const rows = 2 * slots * rowsPerSlot * (KIB + TOKEN_BYTES * shape.contextTokens);
  return 2 * slots * (hidden + head + partial) + 2 * pages + Math.min(MOST_ROWS_BYTES, MIB + rows);
}

/** The limits of what comes back from whoever gets messages. */
export const CREDIT_LIMITS: FrameLimits = { ping: 0, credit: WHOLE_BYTES };
