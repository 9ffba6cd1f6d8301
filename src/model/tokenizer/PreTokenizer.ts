import { asciiPieces, PUNCTUATION as PUNCTUATION_MARKS } from './bertText.js';
import { toByteLevel } from './byteLevel.js';
import { compilePattern, type Pattern } from './compilePattern.js';
import { foundInFile } from '../../arguments/found.js';
import type { Fields, JsonObject } from '../files/Fields.js';
import { checkGrowth } from './growth.js';
import type { Guard } from './Guard.js';
import { PART_UNITS, rewritten } from './parts.js';
import { GPT2 } from './patterns.js';
import { allOf, type Batches, split, type SplitBehavior, splitInParts } from './split.js';

/**
 * Where a piece stands: at the very beginning of the row; anywhere else; or where it goes on without a gap from a text
 * that is not seen, so that nothing may be put before it.
 */
export type Place = 'first' | 'within' | 'continues';

type Pieces = readonly string[];

/** One step cuts or rewrites pieces. What takes long for a long piece stops on its way. */
type Step = (piece: string, place: Place) => Pieces | Batches;

export interface PreTokenizer {
  /**
   * At once for a short text; of a long one as they come, stopping on the way through it.
   * @param place of `text`: what stands after a special token is not the first
   */
  split(text: string, place: Place): Pieces | Batches;
  /** Pieces have yet to be written in GPT-2's alphabet: left to the model, so that a cached piece need not be. */
  readonly byteLevelLast: boolean;
}

const BYTE_LEVEL: Step = (piece) => (piece.length > PART_UNITS ? longToByteLevel(piece) : [toByteLevel(piece)]);

function* longToByteLevel(piece: string): Batches {
  const written = rewritten(piece, toByteLevel);
  if (typeof written === 'string') return yield [written];
  let step = written.next();
  for (; step.done !== true; step = written.next()) yield undefined;
  yield [step.value];
}

/** tokenizers' `\w+|[^\w\s]+`. To Rust, whose `\w` it is there, joiners belong to words; to Oniguruma they do not. */
const WORDS_AND_SIGNS = '[\\w\u200c\u200d]+|[^\\w\u200c\u200d\\s]+';

const KNOWN =
  'one of Sequence, ByteLevel, Split, Digits, Punctuation, Metaspace, Whitespace, WhitespaceSplit, BertPreTokenizer, CharDelimiterSplit';
const BEHAVIORS: readonly SplitBehavior[] = [
  'Removed',
  'Isolated',
  'MergedWithPrevious',
  'MergedWithNext',
  'Contiguous',
];
/**
 * Each writes a byte as a character of up to two bytes, so many of them would make a text longer and longer. Real files
 * have one.
 */
const MOST_BYTE_LEVELS = 2;
/** The sum of pieces is worth taking only where there are many. */
const MANY_PIECES = 65_536;

/** Builds tokenizer.json's `pre_tokenizer`; null leaves the text in one piece. */
export function createPreTokenizer(guard: Guard, value: unknown): PreTokenizer {
  const steps: Step[] = [];
  const removing = new Set<Step>();
  collect(guard, 'pre_tokenizer', value, { steps, removing });
  const byteLevelLast = steps.at(-1) === BYTE_LEVEL;
  if (byteLevelLast) steps.pop();
  /** Tells whether the pieces that a step made of a text that went on after another one still do. */
  const goesOn = (step: Step, place: Place, [before = '']: Pieces, [after = '']: Pieces): Place =>
    place === 'continues' && removing.has(step) && !before.startsWith(after) ? 'within' : place;
  const unitsOf = (text: string, pieces: Pieces, units: number): number => {
    if (pieces.length <= MANY_PIECES) return units;
    const all = sizeOf(pieces);
    checkGrowth('pre_tokenizer', text.length, all);
    return all;
  };
  /**
   * Puts pieces of a text of `units` through a step as they come.
   * @param places where the first piece stands before each step, as far as one has come there
   */
  function* through(at: number, step: Step, pieces: Batches, places: Place[], units: number): Batches {
    let first: Pieces | undefined;
    let made = 0;
    for (const batch of pieces) {
      let cut: string[] = [];
      let worked = 0;
      for (const piece of batch ?? []) {
        guard.steps.take(piece.length);
        worked += piece.length;
        const place = first === undefined ? (places[at] ?? 'within') : 'within';
        first ??= [piece];
        const parts = step(piece, place);
        for (const some of 'next' in parts ? parts : [parts]) {
          for (const part of some ?? []) {
            places[at + 1] ??= goesOn(step, places[at] ?? 'within', first, [part]);
            made += part.length;
            cut.push(part);
          }
          // What a long piece is cut into goes on as it comes.
          if (!('next' in parts) && worked < PART_UNITS) continue;
          checkGrowth('pre_tokenizer', units, made);
          yield cut;
          [cut, worked] = [[], 0];
        }
      }
      yield cut;
    }
  }
  function* inParts(text: string, given: Place): Batches {
    const places = [given];
    let pieces: Batches = once(text);
    for (const [at, step] of steps.entries()) pieces = through(at, step, pieces, places, text.length);
    yield* pieces;
  }
  return {
    byteLevelLast,
    split: (text, given) => {
      if (text.length > PART_UNITS) return inParts(text, given);
      let place = given;
      let pieces: Pieces = [text];
      let units = text.length;
      for (const step of steps) {
        guard.steps.take(units);
        const before = pieces;
        const only = pieces.length === 1 ? pieces[0] : undefined;
        if (only !== undefined) pieces = allOf(step(only, place));
        else {
          const cut: string[] = [];
          before.forEach((piece, i) => {
            for (const part of allOf(step(piece, i === 0 ? place : 'within'))) cut.push(part);
          });
          pieces = cut;
          units = unitsOf(text, pieces, units);
        }
        place = goesOn(step, place, before, pieces);
      }
      return pieces;
    },
  };
}

function* once(text: string): Batches {
  yield [text];
}

function sizeOf(pieces: readonly string[]): number {
  return pieces.reduce((sum, piece) => sum + piece.length, 0);
}

interface Collected {
  readonly steps: Step[];
  /** The steps that leave out what they cut at: a blank before the first piece is a gap then. */
  readonly removing: Set<Step>;
}

function collect(guard: Guard, field: string, value: unknown, collected: Collected, depth = 0): void {
  const { steps, removing } = collected;
  if (value === null || value === undefined) return;
  const { fields } = guard;
  const config = fields.object(field, value);
  fields.checkStep(field, steps.length, depth);
  const addRemoving = (step: Step): void => {
    steps.push(step);
    removing.add(step);
  };
  const cut = (pattern: Pattern, how: SplitBehavior, invert = false): void => {
    const step: Step = (piece) => cutAt(piece, pattern, how, invert, guard);
    if (how === 'Removed') addRemoving(step);
    else steps.push(step);
  };
  /** One of ours. */
  const regex = (source: string): Pattern => compilePattern(fields, field, { Regex: source });
  switch (config.type) {
    case 'Sequence':
      fields.array(`${field}.pretokenizers`, config.pretokenizers).forEach((item, i) => {
        collect(guard, `${field}.pretokenizers[${i}]`, item, collected, depth + 1);
      });
      return;
    case 'ByteLevel':
      if (fields.flag(`${field}.add_prefix_space`, config.add_prefix_space, true)) {
        steps.push((piece, place) => [place === 'continues' || piece.startsWith(' ') ? piece : ` ${piece}`]);
      }
      if (fields.flag(`${field}.use_regex`, config.use_regex, true)) cut(regex(GPT2), 'Isolated');
      if (steps.filter((step) => step === BYTE_LEVEL).length >= MOST_BYTE_LEVELS)
        fields.refuse(field, 'ByteLevel once more', `at most ${MOST_BYTE_LEVELS} times`);
      steps.push(BYTE_LEVEL);
      return;
    case 'Split': {
      const pattern = compilePattern(fields, `${field}.pattern`, config.pattern);
      cut(pattern, behavior(fields, field, config.behavior), fields.flag(`${field}.invert`, config.invert, false));
      return;
    }
    case 'Digits':
      cut(
        regex(String.raw`\p{N}`),
        fields.flag(`${field}.individual_digits`, config.individual_digits, false) ? 'Isolated' : 'Contiguous',
      );
      return;
    case 'Punctuation':
      cut(PUNCTUATION, behavior(fields, field, config.behavior ?? 'Isolated'));
      return;
    case 'Metaspace':
      metaspace(guard, field, config, steps);
      return;
    case 'Whitespace':
      cut(regex(WORDS_AND_SIGNS), 'Removed', true);
      return;
    case 'WhitespaceSplit':
      cut(regex(String.raw`\s`), 'Removed');
      return;
    case 'BertPreTokenizer':
      addRemoving(bertPieces(regex(String.raw`\s`), guard));
      return;
    case 'CharDelimiterSplit':
      cut(compilePattern(fields, `${field}.delimiter`, { String: config.delimiter }), 'Removed');
      return;
    default:
      fields.refuse(`${field}.type`, foundInFile(config.type), KNOWN);
  }
}

function cutAt(piece: string, pattern: Pattern, how: SplitBehavior, invert: boolean, guard: Guard): Pieces | Batches {
  guard.field = pattern.field;
  return (piece.length > PART_UNITS ? splitInParts : split)(piece, pattern, how, invert, guard.steps);
}

const PUNCTUATION: Pattern = { field: 'pre_tokenizer', regex: PUNCTUATION_MARKS };

/** Words, and signs by themselves: two cuts, in one step because most texts, and most words of others, need neither. */
function bertPieces(blank: Pattern, guard: Guard): Step {
  const signs = (word: string): Pieces | Batches =>
    (word.length > PART_UNITS ? undefined : asciiPieces(word)) ?? cutAt(word, PUNCTUATION, 'Isolated', false, guard);
  function* cut(words: Batches): Batches {
    for (const batch of words) {
      let pieces: string[] = [];
      for (const word of batch ?? []) {
        const parts = signs(word);
        if (!('next' in parts)) {
          for (const part of parts) pieces.push(part);
          continue;
        }
        yield pieces;
        pieces = [];
        yield* parts;
      }
      yield pieces;
    }
  }
  return (text) => {
    if (text.length > PART_UNITS) return cut(splitInParts(text, blank, 'Removed', false, guard.steps));
    const known = asciiPieces(text);
    if (known) return known;
    const pieces: string[] = [];
    for (const word of allOf(cutAt(text, blank, 'Removed', false, guard)))
      for (const part of allOf(signs(word))) pieces.push(part);
    return pieces;
  };
}

function metaspace(guard: Guard, field: string, config: JsonObject, steps: Step[]): void {
  const { fields } = guard;
  const replacement = metaspaceCharacter(fields, field, config);
  const scheme = prependScheme(fields, field, config);
  steps.push((piece, place) => {
    const text = piece.replaceAll(' ', replacement);
    const prepends = (scheme === 'always' && place !== 'continues') || (scheme === 'first' && place === 'first');
    return [prepends && !text.startsWith(replacement) ? replacement + text : text];
  });
  if (fields.flag(`${field}.split`, config.split, true)) {
    const pattern = compilePattern(fields, `${field}.replacement`, { String: replacement });
    steps.push((piece) => cutAt(piece, pattern, 'MergedWithNext', false, guard));
  }
}

/** Gives Metaspace's character for a blank. */
export function metaspaceCharacter(fields: Fields, field: string, config: JsonObject): string {
  const replacement = fields.optionalString(`${field}.replacement`, config.replacement) ?? '▁';
  if (Array.from(replacement).length !== 1)
    fields.refuse(`${field}.replacement`, foundInFile(replacement), 'one character');
  return replacement;
}

/**
 * Tells whether Metaspace puts its replacement before the text; files before tokenizers 0.15 say `add_prefix_space`
 * instead.
 */
export function prependScheme(fields: Fields, field: string, config: JsonObject): 'always' | 'first' | 'never' {
  const scheme = config.prepend_scheme ?? (config.add_prefix_space === false ? 'never' : 'always');
  if (scheme !== 'always' && scheme !== 'first' && scheme !== 'never') {
    fields.refuse(`${field}.prepend_scheme`, foundInFile(scheme), 'always, first or never');
  }
  return scheme;
}

function behavior(fields: Fields, field: string, value: unknown): SplitBehavior {
  const known = BEHAVIORS.find((name) => name === value);
  return known ?? fields.refuse(`${field}.behavior`, foundInFile(value), `one of ${BEHAVIORS.join(', ')}`);
}
