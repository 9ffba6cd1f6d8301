import { type Work, valueOf } from '../../collections/drained.js';
import { cleaned, lowerCased, spacedIdeographs, withoutAccents, withoutMarks } from './bertText.js';
import { CharacterMap } from './CharacterMap.js';
import { compilePattern } from './compilePattern.js';
import { foundInFile } from '../../arguments/found.js';
import { checkGrowth, replaceInParts } from './growth.js';
import type { Guard } from './Guard.js';
import { composed, PART_UNITS, rewritten } from './parts.js';

/** @param continues whether the text goes on after another: what marks the beginning of one is left alone then */
type Step = (text: string, continues: boolean) => string | Work<string>;

export interface Normalizer {
  /**
   * At once for a short text, stopping on its way through a long one.
   * @param continues whether `text` goes on where another ended, and is not a text's beginning. Default false
   */
  normalize(text: string, continues?: boolean): string | Work<string>;
}

const KNOWN =
  'one of Sequence, BertNormalizer, NFC, NFD, NFKC, NFKD, Lowercase, Strip, StripAccents, Prepend, Replace, Precompiled, Nmt';

/**
 * Builds tokenizer.json's `normalizer`; null is the identity.
 * @param first a map that texts go through before all steps, by its longest keys
 */
export function createNormalizer(guard: Guard, value: unknown, first?: CharacterMap): Normalizer {
  const steps: Step[] = first ? [(text) => first.byLongest(text, guard.steps)] : [];
  collect(guard, 'normalizer', value, steps);
  const count = (text: string, made: string): void => {
    checkGrowth('normalizer', text.length, made.length);
  };
  function* inParts(text: string, continues: boolean): Work<string> {
    let result = text;
    for (const step of steps) {
      guard.steps.take(result.length);
      yield;
      const made = step(result, continues);
      result = typeof made === 'string' ? made : yield* made;
      count(text, result);
    }
    return result;
  }
  return {
    normalize: (text, continues = false) => {
      if (text.length > PART_UNITS) return inParts(text, continues);
      let result = text;
      for (const step of steps) {
        guard.steps.take(result.length);
        result = valueOf(step(result, continues));
        count(text, result);
      }
      return result;
    },
  };
}

function collect(guard: Guard, field: string, value: unknown, steps: Step[], depth = 0): void {
  if (value === null || value === undefined) return;
  const { fields } = guard;
  const config = fields.object(field, value);
  fields.checkStep(field, steps.length, depth);
  const add = (step: Step): void => {
    steps.push(step);
  };
  switch (config.type) {
    case 'Sequence':
      fields.array(`${field}.normalizers`, config.normalizers).forEach((item, i) => {
        collect(guard, `${field}.normalizers[${i}]`, item, steps, depth + 1);
      });
      return;
    case 'BertNormalizer': {
      const lower = fields.flag(`${field}.lowercase`, config.lowercase, true);
      const given = config.strip_accents;
      const accents =
        given === undefined || given === null ? lower : fields.flag(`${field}.strip_accents`, given, lower);
      if (fields.flag(`${field}.clean_text`, config.clean_text, true)) add((text) => rewritten(text, cleaned));
      if (fields.flag(`${field}.handle_chinese_chars`, config.handle_chinese_chars, true))
        add((text) => rewritten(text, spacedIdeographs));
      if (accents) {
        add((text) => composed(text, 'NFD'));
        add((text) => rewritten(text, withoutAccents));
      }
      if (lower) add((text) => rewritten(text, lowerCased));
      return;
    }
    case 'NFC':
    case 'NFD':
    case 'NFKC':
    case 'NFKD': {
      const form = config.type;
      add((text) => composed(text, form));
      return;
    }
    case 'Lowercase':
      add((text) => rewritten(text, lowerCased));
      return;
    case 'Strip': {
      const left = fields.flag(`${field}.strip_left`, config.strip_left, true);
      const right = fields.flag(`${field}.strip_right`, config.strip_right, true);
      add((text, continues) => stripped(text, left && !continues, right));
      return;
    }
    case 'StripAccents':
      add((text) => rewritten(text, withoutMarks));
      return;
    case 'Prepend': {
      const prefix = fields.replacement(`${field}.prepend`, config.prepend);
      // Also before each text between added tokens, which may be of one unit.
      add((text, continues) => (text === '' || continues ? text : prefix + text));
      return;
    }
    case 'Replace': {
      const pattern = compilePattern(fields, `${field}.pattern`, config.pattern);
      const content = fields.replacement(`${field}.content`, config.content);
      add((text) => {
        guard.field = pattern.field;
        return replaceInParts(text, pattern, content, guard.steps);
      });
      return;
    }
    case 'Precompiled': {
      const given = config.precompiled_charsmap;
      if (given === undefined || given === null || given === '') return;
      const map = CharacterMap.ofBase64(fields, `${field}.precompiled_charsmap`, given);
      add((text) => map.byClusters(text, guard.steps));
      return;
    }
    case 'Nmt':
      add((text) =>
        rewritten(text, (part) =>
          part
            .replace(/[\u0001-\u0008\u000B\u000E-\u001F\u007F\u008F\u009F]/g, '')
            .replace(/[\u0009\u000A\u000C\u000D\u1680\u200B-\u200F\u2028\u2029\u2581\uFEFF\uFFFD]/g, ' '),
        ),
      );
      return;
    default:
      fields.refuse(`${field}.type`, foundInFile(config.type), KNOWN);
  }
}

/** Blanks as Unicode's White_Space has them; JavaScript's trim differs on U+0085 and U+FEFF. */
const BLANK = /\p{White_Space}/u;

function* stripped(text: string, left: boolean, right: boolean): Work<string> {
  let [start, end] = [0, text.length];
  const isBlank = (at: number): boolean => BLANK.test(text.charAt(at));
  for (; left && start < end && isBlank(start); start++) if (start % PART_UNITS === PART_UNITS - 1) yield;
  for (; right && end > start && isBlank(end - 1); end--) if (end % PART_UNITS === 0) yield;
  return text.slice(start, end);
}
