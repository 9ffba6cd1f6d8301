import { RegExpParser, type AST } from '@eslint-community/regexpp';

const parser = new RegExpParser({ ecmaVersion: 2025 });

/** Ways through one alternative that may be tried at one place of a text, at most. */
const MOST_WAYS = 256;
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
];

/**
 * Whether V8 finds all matches of a pattern (flag `u`) in time proportional to the text, whatever the text is: each
 * alternative is a few characters, and then, at most, runs of which none can turn out to have been gone through for
 * nothing. A pattern that is not seen to be so may be so all the same.
 */
export function isLinear(source: string): boolean {
  const tail = TAILS.find((end) => source.endsWith(end)) ?? '';
  try {
    const head = source.slice(0, source.length - tail.length);
    return parser.parsePattern(head, 0, head.length, { unicode: true }).alternatives.every(isCheap);
  } catch {
    return false;
  }
}

function isCheap({ elements }: AST.Alternative): boolean {
  const run = elements.findIndex(isRun);
  const [before, after] = run < 0 ? [elements, []] : [elements.slice(0, run), elements.slice(run + 1)];
  return waysOfAll(before) <= MOST_WAYS && after.every(isFree);
}

function isSet(element: AST.Element): boolean {
  return element.type === 'Character' || element.type === 'CharacterSet' || element.type === 'CharacterClass';
}

/** As much as there is of one set: it is found, or it ends at once. */
function isRun(element: AST.Element): boolean {
  return (
    element.type === 'Quantifier' &&
    element.greedy &&
    element.min <= 1 &&
    element.max === Infinity &&
    isSet(element.element)
  );
}

/** What cannot fail after a run, so that nobody goes back into it. */
function isFree(element: AST.Element): boolean {
  if (element.type !== 'Quantifier' || element.min > 0 || !element.greedy) return false;
  return isRun(element) || (element.max <= 1 && waysOf(element.element) <= MOST_WAYS);
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
