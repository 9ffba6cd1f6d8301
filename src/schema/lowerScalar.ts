import type { NumberRule, StringRule } from './Alternative.js';
import { formatPattern } from './formats.js';
import type { JsonObject } from './keywords.js';
import type { NodeMaker } from './Node.js';
import { SCHEMA_LIMITS } from './limits.js';
import { quotable } from './patterns.js';
import { openRepeats } from './relaxed.js';

interface ScalarKind {
  readonly kind: 'values';
  readonly schema: JsonObject;
}

/** Below this a multiple of it has digits that every program reads as they were written. */
function largest(multipleOf: readonly number[], integer: boolean): number {
  if (integer || multipleOf.every(Number.isInteger)) return Number.MAX_SAFE_INTEGER;
  return 10 ** (15 - Math.max(...multipleOf.map((divisor) => decimals(divisor))));
}

/** Digits after the point. */
export function decimals(value: number): number {
  const [, fraction = '', exponent = '0'] = /^\d*\.?(\d*)(?:e([+-]\d+))?$/.exec(String(value)) ?? [];
  return Math.max(0, fraction.length - Number(exponent));
}

/** The grammar's engine counts in integers of 64 bits; these are the outermost ones that doubles are, too. */
const MOST = 2 ** 63 - 1024;
/** The bound on the digits after a point: the last power of ten that the grammar's engine can count in. */
const FINEST = 1e-10;

/**
 * None where no number is in the range, or none that can be written. What is not bounded is bounded by what every
 * program reads as the same number, and is written without an exponent.
 */
export function numberSchema(
  { minimum, exclusiveMinimum, maximum, exclusiveMaximum, multipleOf, integer }: NumberRule,
  nodes: NodeMaker,
): readonly ScalarKind[] {
  const [least, most] = [
    Math.max(minimum ?? -Infinity, exclusiveMinimum ?? -Infinity),
    Math.min(maximum ?? Infinity, exclusiveMaximum ?? Infinity),
  ];
  const open = exclusiveMinimum === least || exclusiveMaximum === most;
  if (least > most || (least === most && open)) return [];
  if (integer && Math.ceil(least) > Math.floor(most)) return [];
  if (least > MOST || most < -MOST) {
    nodes.leave(least > MOST ? 'minimum' : 'maximum');
    return [];
  }
  const edge = largest(multipleOf, integer);
  const base = {
    type: integer ? 'integer' : 'number',
    ...(least < -MOST
      ? { minimum: least === -Infinity ? Math.min(-edge, most) : -MOST }
      : exclusiveMinimum === least
        ? { exclusiveMinimum }
        : { minimum: least }),
    ...(most > MOST
      ? { maximum: most === Infinity ? Math.max(edge, least) : MOST }
      : exclusiveMaximum === most
        ? { exclusiveMaximum }
        : { maximum: most }),
  };
  // A narrower range may have no such number.
  const divisors = multipleOf.length === 0 && !integer && most - least > 2 * FINEST ? [FINEST] : multipleOf;
  return [
    {
      kind: 'values',
      schema:
        divisors.length <= 1
          ? { ...base, ...(divisors.length > 0 && { multipleOf: divisors[0] }) }
          : { allOf: divisors.map((divisor) => ({ ...base, multipleOf: divisor })) },
    },
  ];
}

/** None where no text is long enough and short enough. */
export function stringSchema(
  { minLength, maxLength, patterns, formats }: StringRule,
  nodes: NodeMaker,
): readonly ScalarKind[] {
  const { bounds } = nodes;
  if (minLength > (maxLength ?? Infinity)) return [];
  const every = [...patterns, ...formats.flatMap((name) => formatPattern(name) ?? [])];
  const all = every.slice(0, SCHEMA_LIMITS.patternsAtOnce).map(quotable);
  if (every.length > all.length) for (const keyword of ['pattern', 'format']) nodes.leave(keyword);
  if (!bounds.combined && all[0] !== undefined)
    return [{ kind: 'values', schema: { type: 'string', pattern: all[0] } }];
  // Of every count of parts without end the grammar's engine would have a state for every length.
  const counts = minLength > 0 || maxLength !== undefined ? Math.max(0, ...all.map(openRepeats)) : 0;
  if (counts * (maxLength ?? minLength) > SCHEMA_LIMITS.places) {
    for (const keyword of ['minLength', 'maxLength']) nodes.leave(keyword);
    return stringSchema({ minLength: 0, patterns, formats }, nodes);
  }
  // What a pattern repeats is bounded there.
  const most = maxLength ?? (all.length > 0 ? undefined : Math.max(bounds.stringLength, minLength));
  const base = { type: 'string', ...(minLength > 0 && { minLength }), ...(most !== undefined && { maxLength: most }) };
  if (all.length <= 1) return [{ kind: 'values', schema: { ...base, ...(all.length > 0 && { pattern: all[0] }) } }];
  return [{ kind: 'values', schema: { allOf: all.map((pattern) => ({ ...base, pattern })) } }];
}
