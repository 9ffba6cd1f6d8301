/** The finite numbers that a value may be. */
export interface NumberRange {
  readonly least: number;
  /** True where `least` itself is out. Default false. */
  readonly above?: boolean;
  /** Default: any; of whole numbers the largest that JavaScript can tell from its neighbours. */
  readonly most?: number;
  readonly whole?: boolean;
}

/** Whole numbers. */
export function wholeRange(least: number, most?: number): NumberRange {
  return { least, whole: true, ...(most !== undefined && { most }) };
}

/** Tells whether a value is a number of the range. */
export function isWithin(value: unknown, { least, above = false, most, whole = false }: NumberRange): value is number {
  if (typeof value !== 'number' || !Number.isFinite(value) || (whole && !Number.isSafeInteger(value))) return false;
  return (above ? value > least : value >= least) && value <= (most ?? Infinity);
}

/**
 * A range in words, for whoever has found another value: `a number from 0 to 1`. Both of its ends, so that the one that
 * was missed is among them; an end that is none but JavaScript's own is named where a value is beyond it.
 */
export function rangeWords({ least, above = false, most, whole = false }: NumberRange, found: unknown): string {
  const endless = most === undefined && typeof found === 'number' && !Number.isFinite(found);
  const kind = whole ? 'a whole number' : endless ? 'a finite number' : 'a number';
  const beyond = whole && typeof found === 'number' && found > Number.MAX_SAFE_INTEGER;
  const end = most ?? (beyond ? Number.MAX_SAFE_INTEGER : undefined);
  if (end === undefined) return `${kind} ${above ? 'above' : 'of at least'} ${least}`;
  return above ? `${kind} above ${least} and at most ${end}` : `${kind} from ${least} to ${end}`;
}
