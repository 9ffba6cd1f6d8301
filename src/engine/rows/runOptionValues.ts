import { EMBEDDING_ENCODINGS, POOLINGS, VECTOR_TYPES } from '../../Results.js';
import { REASONING, TRUNCATIONS } from '../../Row.js';
import { ROW_SECONDS } from '../../rows/rowFields.js';
import { SAMPLING_RANGES } from './prepareRow.js';
import { ROWS_AHEAD } from './rowLookAhead.js';

/**
 * The allowed values of options of a run, and their defaults where neither a row nor the run says it: for flags, forms
 * and checks of one's own. Those of an engine are `ENGINE_OPTIONS`.
 */
export const RUN_OPTIONS = {
  ...SAMPLING_RANGES,
  rowTimeout: ROW_SECONDS,
  lookAhead: { rows: ROWS_AHEAD },
  truncate: { among: TRUNCATIONS, fallback: 'off' },
  reasoning: { among: REASONING, fallback: 'keep' },
  pooling: { among: POOLINGS, fallback: 'auto' },
  encoding: { among: EMBEDDING_ENCODINGS, fallback: 'float' },
  vectorType: { among: VECTOR_TYPES, fallback: 'float32' },
} as const;
