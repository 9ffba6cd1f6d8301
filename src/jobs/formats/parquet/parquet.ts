import type { RowFormat } from '../RowFormat.js';

/**
 * Apache Parquet; columns that are carried into another Parquet file keep their types, and their values to the bit.
 * What reads and writes it is loaded where there is such a file: that takes a fifth of a start without.
 */
export const parquet: RowFormat = {
  name: 'parquet',
  extensions: ['parquet', 'pq'],
  begins: (start) => start.startsWith('PAR1'),
  needsFile: true,
  carries: true,
  async *rows(source, options) {
    yield* (await import('./readParquet.js')).readParquet(source, options);
  },
  async count(source) {
    return (await import('./readParquet.js')).countParquet(source);
  },
  async *encode(results, options) {
    yield* (await import('./encodeParquet.js')).encodeParquet(results, options);
  },
};
