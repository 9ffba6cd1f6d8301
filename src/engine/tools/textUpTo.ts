import { isObject } from '../../arguments/isObject.js';
import { ANSWER_BOUNDS } from '../../schema/EnforcedSchema.js';
import type { PartOfSchema } from './declaredTypes.js';
import { enforcedPart } from './enforcedPart.js';
import { ANY, inPattern, type Rules } from './Rules.js';

/** Longer patterns, and lengths beyond that, are left to the look at the whole call. */
const MOST_PATTERN_UNITS = 1024;
const MOST_CHARACTERS = 1024;

/**
 * A text as it is, up to a mark: one that its schema's pattern, format and lengths allow, as far as expressions say
 * them.
 */
export function textUpTo(mark: string, part: PartOfSchema, rules: Rules): string {
  const [first, ...others] = rules.holdsTexts ? expressionsOf(part) : [];
  if (first === undefined) return rules.upTo(mark);
  // Whoever reads the call reads up to the first mark.
  const marked = `${ANY}${inPattern(mark.trimEnd())}${ANY}`;
  return rules.upTo(mark, rules.terminal('TEXT', first, [marked], others));
}

function expressionsOf(part: PartOfSchema): readonly string[] {
  const grammar = enforcedPart(part)?.grammar;
  const kinds = isObject(grammar)
    ? Array.isArray(grammar['anyOf'])
      ? (grammar['anyOf'] as unknown[])
      : [grammar]
    : [];
  const texts = kinds.filter((kind) => isObject(kind)).filter(({ type }) => type === 'string');
  const [only] = texts;
  if (only === undefined || texts.length > 1) return [];
  const {
    pattern,
    minLength = 0,
    maxLength = ANSWER_BOUNDS.stringLength,
  } = only as {
    readonly pattern?: string;
    readonly minLength?: number;
    readonly maxLength?: number;
  };
  const bounded = maxLength < ANSWER_BOUNDS.stringLength;
  const fits = Math.max(minLength, bounded ? maxLength : 0) <= MOST_CHARACTERS;
  return [
    ...(pattern !== undefined && pattern.length <= MOST_PATTERN_UNITS ? [pattern.slice(1, -1)] : []),
    ...(fits && (minLength > 0 || bounded) ? [`(.|\\n){${minLength},${bounded ? maxLength : ''}}`] : []),
  ];
}
