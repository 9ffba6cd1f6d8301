import { RegExpParser, type AST } from '@eslint-community/regexpp';

const parser = new RegExpParser({ ecmaVersion: 2025 });

/** Characters that may be looked at before a run, at one place of a text, in all ways through all alternatives. */
const MOST_WORK = 4096;
/** Repetitions of one part that are no run. */
const SHORT = 16;

/**
 * How the patterns of tokenizers end. What these go through, blanks that no line ends, is in the match that comes next,
 * but for the last of them.
 */
const TAILS: readonly string[] = [
  String.raw`|\s*[\r\n]+|\s+(?!\S)|\s+`,
  String.raw`|\s*[\r\n]|\s+(?!\S)|\s+`,
  String.raw`|\s*[\r\n]+|\s+(?!\S)`,
  String.raw`|\s+(?!\S)|\s+`,
  String.raw`|\s+(?!\S)`,
].flatMap((tail) => [
  tail,
  tail.replaceAll(String.raw`\s`, String.raw`\p{White_Space}`).replaceAll(String.raw`\S`, String.raw`\P{White_Space}`),
]);

/**
 * Tells whether V8 finds all matches of a pattern (flag `u`) in time proportional to the text, whatever the text is:
 * each alternative is a few characters, and then, at most, runs of which none can turn out to have been gone through
 * for nothing. A pattern that is not seen to be so may be so all the same.
 */
export function isLinear(source: string): boolean {
  const tail = TAILS.find((end) => source.endsWith(end)) ?? '';
  try {
    const head = source.slice(0, source.length - tail.length);
    const { alternatives } = parser.parsePattern(head, 0, head.length, { unicode: true });
    let work = 0;
    alternatives.forEach(({ elements }, i) => {
      work += workOf(elements, alternatives[i + 1]?.elements ?? []);
    });
    return work <= MOST_WORK;
  } catch {
    return false;
  }
}

/** Says how much one alternative may look at before its run; Infinity where it may go through one for nothing. */
function workOf(elements: readonly AST.Element[], next: readonly AST.Element[]): number {
  const run = elements.findIndex(isRun);
  if (run < 0) return costOf(elements);
  const [before, after] = [elements.slice(0, run), elements.slice(run + 1)];
  const second = after[0];
  // Upper case and lower: `x*y+`, and `x+…` next. What the first goes through for nothing is in the second's match.
  const again =
    second !== undefined &&
    isRun(second) &&
    raw(before) === raw(next.slice(0, run)) &&
    isSameRun(elements[run], next[run]);
  return (again ? after.slice(1) : after).every(isFree) ? costOf(before) : Infinity;
}

function raw(elements: readonly AST.Element[]): string {
  return elements.map((element) => element.raw).join('');
}

function isSameRun(one: AST.Element | undefined, next: AST.Element | undefined): boolean {
  return (
    one?.type === 'Quantifier' && next?.type === 'Quantifier' && isRun(next) && one.element.raw === next.element.raw
  );
}

/** All ways through some elements, times the characters that they may be. */
function costOf(elements: readonly AST.Element[]): number {
  return waysOfAll(elements) * (1 + elements.reduce((sum, element) => sum + mostOf(element), 0));
}

function mostOf(element: AST.Element): number {
  if (element.type === 'Quantifier') return element.max * mostOf(element.element);
  if ('alternatives' in element)
    return Math.max(...element.alternatives.map(({ elements }) => elements.reduce((sum, one) => sum + mostOf(one), 0)));
  return 1;
}

function isSet(element: AST.Element): boolean {
  return element.type === 'Character' || element.type === 'CharacterSet' || element.type === 'CharacterClass';
}

/** As much as there is of one set: it is found, or it ends at once. */
function isRun(element: AST.Element): boolean {
  return (
    element.type === 'Quantifier' &&
    element.greedy &&
    element.min <= SHORT &&
    element.max === Infinity &&
    isSet(element.element)
  );
}

/** Tells whether an element cannot fail after a run, so that nobody goes back into the run. */
function isFree(element: AST.Element): boolean {
  if (element.type !== 'Quantifier' || element.min > 0 || !element.greedy) return false;
  return isRun(element) || (element.max <= 1 && costOf([element.element]) <= MOST_WORK);
}

function waysOfAll(elements: readonly AST.Element[]): number {
  return elements.reduce((ways, element) => ways * waysOf(element), 1);
}

/** In how many ways it may be gone through, roughly, at most; Infinity of what is longer than a few characters. */
function waysOf(element: AST.Element): number {
  if (isSet(element)) return 1;
  switch (element.type) {
    case 'Group':
    case 'CapturingGroup':
      return element.alternatives.reduce((sum, { elements }) => sum + waysOfAll(elements), 0);
    case 'Quantifier':
      if (element.max > SHORT) return Infinity;
      return isSet(element.element) ? element.max - element.min + 1 : (1 + waysOf(element.element)) ** element.max;
    case 'Assertion':
      if (element.kind !== 'lookahead' && element.kind !== 'lookbehind') return 1;
      return 1 + element.alternatives.reduce((sum, { elements }) => sum + waysOfAll(elements), 0);
    default:
      return Infinity;
  }
}
