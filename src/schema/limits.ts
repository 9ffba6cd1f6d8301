/**
 * Bounds on a JSON Schema, and on what is made of it. Real ones lie far below; a hostile one ends here, with an error
 * that names the bound.
 */
export const SCHEMA_LIMITS = {
  /** UTF-16 units of it, as JSON.stringify writes it. */
  textUnits: 2 ** 20,
  /** Objects and arrays inside of one another. */
  depth: 64,
  /** Schemas in it, itself included. */
  schemas: 10_000,
  /** Ways in which one value may be valid, when anyOf, oneOf, if and the like have been multiplied out. */
  alternatives: 512,
  /** Kinds of values that it comes to: a schema, or several that hold at once. */
  nodes: 10_000,
  /**
   * Subschemas of one anyOf beside `unevaluatedProperties` or `unevaluatedItems`, where each set of them is a case of
   * its own.
   */
  unevaluatedBranches: 4,
  /** Ways in which so many optional properties are there as `minProperties` and `maxProperties` say. */
  countings: 64,
  /** Repetitions that one part of a pattern may come to, as `{n,m}` inside of `{n,m}` multiply. */
  patternRepeats: 10_000,
  /** Repetitions within repetitions of a pattern that masks count, multiplied. */
  places: 4096,
  /** Repetitions after what repeats without end that masks count. */
  placesBehind: 32,
  /** UTF-16 units of one pattern. */
  patternUnits: 10_000,
  /** Parts of a schema that are tried where the grammar's engine refuses the whole. */
  refusalTries: 64,
  /** Bytes of a pattern that lists names one by one; the grammar's engine is given none longer. */
  writtenPattern: 4096,
  /** Patterns and formats of one text that masks hold it to at once. */
  patternsAtOnce: 16,
  /** Digits of `multipleOf` as a whole number: so many remainders the grammar's engine tells apart. */
  remainders: 10_000,
  /** Units of a text that is looked at for its `format`: nothing longer has one. */
  formatUnits: 4096,
  /** Steps for all that is made of one schema; a step is a value or a character that is looked at. */
  steps: 50_000_000,
  /** Steps for looking whether one answer satisfies a schema, or all calls of tools theirs: it is done in one go. */
  valueSteps: 750_000,
} as const;
