/**
 * The members that are asked of a record batch of Apache Arrow, whichever copy or version of `apache-arrow` made it:
 * its `RecordBatch` is one. Said here, since that package is the user's to install.
 */
export interface ArrowBatch {
  readonly numRows: number;
  readonly schema: { readonly fields: readonly { readonly name: string }[] };
  getChildAt(index: number): unknown;
}

/** A column of a batch, or of a value of it. */
export interface ArrowVector {
  readonly type: ArrowType;
  readonly length: number;
  /** Pieces, one after the other. */
  readonly data: readonly {
    readonly length: number;
    readonly values: unknown;
    readonly valueOffsets: unknown;
    readonly dictionary?: ArrowVector;
  }[];
  get(index: number): unknown;
  getChildAt(index: number): ArrowVector | null;
}

export interface ArrowType {
  /** As the format's `Type` counts them; -1 for dictionaries. */
  readonly typeId: number;
  readonly unit?: number;
  readonly scale?: number;
  readonly timezone?: string | null;
  toString(): string;
  readonly children?: readonly { readonly name: string }[] | null;
}

/** `Type` of the package, which follows the format's own numbers. */
export const ARROW_TYPE = {
  dictionary: -1,
  integer: 2,
  float: 3,
  binary: 4,
  text: 5,
  boolean: 6,
  decimal: 7,
  date: 8,
  time: 9,
  timestamp: 10,
  list: 12,
  struct: 13,
  fixedBinary: 15,
  fixedList: 16,
  map: 17,
  duration: 18,
  largeBinary: 19,
  largeText: 20,
  largeList: 21,
  binaryView: 23,
  textView: 24,
} as const;
