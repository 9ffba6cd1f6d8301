import { type AST, RegExpParser, visitRegExpAST } from '@eslint-community/regexpp';
import { SCHEMA_LIMITS } from './limits.js';

const parser = new RegExpParser({ ecmaVersion: 2024 });

/**
 * A translated pattern as one that the grammar's engine keeps few states of. Where counts multiply, or follow what may
 * end in many places, it has a state for each set of places where a text may be: these are left uncounted, so that more
 * texts match.
 * @returns the same where nothing has to be
 */
export function relaxed(pattern: string): string {
  const uncounted = new Set<AST.Quantifier>();
  const within: AST.Quantifier[] = [];
  const ast = parser.parsePattern(pattern, 0, pattern.length, { unicode: true });
  visitRegExpAST(ast, {
    onQuantifierEnter: (node) => {
      const counted = [...within, node].filter((one) => one.max > 1 && Number.isFinite(Math.max(one.max, one.min)));
      const places = counted.reduce(
        (product, { min, max }) => product * Math.max(min, Number.isFinite(max) ? max : 1),
        1,
      );
      const [outer] = counted;
      if (counted.length > 1 && node.min !== node.max && places > SCHEMA_LIMITS.places && outer) uncounted.add(outer);
      within.push(node);
    },
    onQuantifierLeave: () => {
      within.pop();
    },
    onAlternativeEnter: ({ elements }) => {
      let open = false;
      for (const element of elements) {
        if (element.type !== 'Quantifier') continue;
        const most = Number.isFinite(element.max) ? element.max : element.min;
        if (open && most > SCHEMA_LIMITS.placesBehind) uncounted.add(element);
        open ||= element.max === Infinity;
      }
    },
  });
  if (uncounted.size === 0) return pattern;
  const cuts = [...uncounted].sort((a, b) => b.end - a.end);
  return cuts.reduce(
    (text, { element, end, min }) => `${text.slice(0, element.end)}${min > 0 ? '+' : '*'}${text.slice(end)}`,
    pattern,
  );
}

/** The most times that a translated pattern counts a part which may go on without end. */
export function openRepeats(pattern: string): number {
  const within: AST.Quantifier[] = [];
  let most = 0;
  visitRegExpAST(parser.parsePattern(pattern, 0, pattern.length, { unicode: true }), {
    onQuantifierEnter: (node) => {
      if (node.max === Infinity)
        for (const { min, max } of within) most = Math.max(most, Number.isFinite(max) ? max : min);
      within.push(node);
    },
    onQuantifierLeave: () => {
      within.pop();
    },
  });
  return most;
}
