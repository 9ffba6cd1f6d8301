import type { MachineFacts } from '../../bindings/Addon.js';
import type { EngineOptions } from '../../EngineOptions.js';
import { UsageError } from '../../errors/UsageError.js';
import { isEncoder } from '../../model/DecoderSpec.js';
import type { ModelSource } from '../../model/ModelSource.js';
import { PAGE_TOKENS } from '../../plan/reserves.js';
import { BLOCK_SCHEDULES } from '../schedules/blockSchedules.js';
import { gpuBytes } from './gpuBudget.js';
import { settle, type Block } from './settings.js';
import type { RequestedOptions } from './validateOptions.js';

/** Tokens of rows that a square of an encoder takes together, and of the longest that is provided for in any case. */
export const USUAL_SQUARE = 512;
const PROVIDED_SQUARE = 8192;
/** Batches that share each layer of an encoder as it streams: the more, the less is read for a row. */
const STREAMED_BATCHES = [8, 4, 2, 1];
/** Rows of all these batches, at most: each has a place in memory (`rowLedgerBytes`). */
const MOST_STREAMED_ROWS = 1024;
/** Squares whose rows a batch of an encoder has pages for: one is computed, the others wait; and at least so many. */
const SQUARES_IN_PAGES = 4;
const LEAST_SQUARES_IN_PAGES = 2;

/**
 * Gives the options of an encoder: it is computed by the processor, as a whole, and keeps no cache; where its family's
 * table says so, and nobody says otherwise, in 8 bits.
 * @throws UsageError for options that it cannot be opened with
 */
export function encoderOptions(
  { decoder, eightBits = false }: ModelSource,
  requested: RequestedOptions,
  machine: MachineFacts,
): RequestedOptions {
  if (!isEncoder(decoder)) return requested;
  const { options, settings } = requested;
  const refuse = (option: string, found: string, why: string): never => {
    throw new UsageError(
      `${option}: found ${found} for a model of the family ${decoder.family}, an encoder, expected none: ${why}`,
    );
  };
  if (gpuBytes(options.gpuMemory) > 0) refuse('gpuMemory', 'some', 'encoders are computed by the processor');
  if (options.layers !== undefined) refuse('layers', 'some', 'an encoder is computed by one engine');
  if (options.tensorParallel !== undefined) refuse('tensorParallel', 'some', 'an encoder is computed by one engine');
  if (settings.memory.cacheOnDisk > 0) refuse('cache', 'a share on disk', 'an encoder keeps no cache');
  const { precision, weightsLayout } = settings.numerics;
  if (!eightBits || options.compressWeights !== undefined || weightsLayout !== undefined || precision === 'float32')
    return requested;
  const all = { ...options, compressWeights: '8bit' as const };
  return { options: all, settings: settle(all, machine) };
}

/** Tokens of a square where nobody says otherwise: of an encoder, whose rows come whole, those of a long one. */
export function squareForEncoder(options: EngineOptions, { decoder }: ModelSource): EngineOptions {
  if (!isEncoder(decoder) || options.tokensPerSquare !== undefined) return options;
  const square = Math.max(USUAL_SQUARE, Math.min(decoder.contextTokens, PROVIDED_SQUARE));
  return { ...options, tokensPerSquare: Math.max(square, options.batchSize ?? 1) };
}

/** Lists the smaller squares of an encoder, down to the usual one, in the order in which they are tried. */
export function encoderSquares({ decoder }: ModelSource): readonly number[] {
  const squares: number[] = [];
  if (isEncoder(decoder))
    for (let square = PROVIDED_SQUARE / 2; square >= USUAL_SQUARE; square /= 2)
      if (square < decoder.contextTokens) squares.push(square);
  return squares;
}

/**
 * Lists how many batches share each layer of a model that streams, in the order in which they are tried: of an encoder,
 * of which a batch more takes hidden states and one layer's pages alone, several, unless the caller says how many, or
 * the schedule has each batch read each layer for itself.
 */
export function encoderBatches(
  { decoder }: ModelSource,
  { batches }: EngineOptions,
  { schedule, rowsPerSlot }: Block,
): readonly number[] {
  if (!isEncoder(decoder) || batches !== undefined || BLOCK_SCHEDULES[schedule].sweep === 'one-slot') return [1];
  return STREAMED_BATCHES.filter((count) => count === 1 || count * rowsPerSlot <= MOST_STREAMED_ROWS);
}

/**
 * Counts the pages of all that a block of an encoder computes at once, and of the rows that wait for it.
 * @param longest pages of the longest row that a square takes
 */
export function encoderPages(model: ModelSource, block: Block, longest: number): number {
  return isEncoder(model.decoder) ? Math.max(longest, SQUARES_IN_PAGES * squaresPages(block)) : Infinity;
}

/** Counts the pages without which batches that nobody asked for would wait for each other's rows. */
export function leastEncoderPages(model: ModelSource, block: Block): number {
  return isEncoder(model.decoder) && block.slots > 1 ? LEAST_SQUARES_IN_PAGES * squaresPages(block) : 0;
}

/** Pages of the rows of one square of each batch. */
function squaresPages({ slots, tokensPerSquare }: Block): number {
  return slots * Math.ceil(Math.min(tokensPerSquare, USUAL_SQUARE) / PAGE_TOKENS);
}
