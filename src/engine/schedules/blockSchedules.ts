import { diagonalBlock } from './diagonalBlock.js';
import { rowByRow } from './rowByRow.js';
import { zigZagBlock } from './zigZagBlock.js';

/** The block schedules by the names that policies and the command line give them. */
export const BLOCK_SCHEDULES = { row: rowByRow, zigzag: zigZagBlock, diagonal: diagonalBlock } as const;
