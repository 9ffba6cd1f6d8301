import { compilePattern } from './compilePattern.js';
import { describeValue } from '../files/describeValue.js';
import type { Fields } from './Fields.js';
import { PrecompiledNormalizer } from './tokenizersLibrary.js';

export interface Normalizer {
  normalize(text: string): string;
  /** False if a file's own regular expression is part of it. */
  readonly linear: boolean;
}

const KNOWN = 'one of Sequence, NFC, NFD, NFKC, NFKD, Lowercase, Strip, StripAccents, Prepend, Replace, Precompiled, Nmt';

/** Replacement texts are a few characters in every real file; chained long ones would grow a row without bound. */
const LONGEST_REPLACEMENT = 64;
const MOST_STEPS = 64;
/** No real normalizer makes text longer than NFKD does (18 times); this leaves room. */
const MOST_GROWTH = 64;

/** Builds tokenizer.json's `normalizer`; null is the identity. */
export function createNormalizer(fields: Fields, value: unknown): Normalizer {
  const steps: ((text: string) => string)[] = [];
  const linear = collect(fields, 'normalizer', value, steps);
  return {
    linear,
    normalize: (text) => {
      let result = text;
      for (const step of steps) {
        result = step(result);
        if (result.length > MOST_GROWTH * (text.length + 64)) {
          fields.refuse('normalizer', `a text that grows from ${text.length} to ${result.length} characters`, `growth of at most ${MOST_GROWTH} times`);
        }
      }
      return result;
    },
  };
}

/** @returns whether all steps are linear */
function collect(fields: Fields, field: string, value: unknown, steps: ((text: string) => string)[], depth = 0): boolean {
  if (value === null || value === undefined) return true;
  const config = fields.object(field, value);
  if (steps.length > MOST_STEPS || depth > 16) fields.refuse(field, 'more steps', `at most ${MOST_STEPS}`);
  switch (config.type) {
    case 'Sequence': {
      let linear = true;
      fields.array(`${field}.normalizers`, config.normalizers).forEach((item, i) => {
        linear = collect(fields, `${field}.normalizers[${i}]`, item, steps, depth + 1) && linear;
      });
      return linear;
    }
    case 'NFC':
    case 'NFD':
    case 'NFKC':
    case 'NFKD': {
      const form = config.type;
      steps.push((text) => text.normalize(form));
      return true;
    }
    case 'Lowercase':
      steps.push((text) => text.toLowerCase());
      return true;
    case 'Strip': {
      const left = fields.flag(`${field}.strip_left`, config.strip_left, true);
      const right = fields.flag(`${field}.strip_right`, config.strip_right, true);
      steps.push((text) => strip(text, left, right));
      return true;
    }
    case 'StripAccents':
      steps.push((text) => text.replace(/\p{Mn}/gu, ''));
      return true;
    case 'Prepend': {
      const prefix = fields.string(`${field}.prepend`, config.prepend);
      if (prefix.length > LONGEST_REPLACEMENT) fields.refuse(`${field}.prepend`, `${prefix.length} characters`, `at most ${LONGEST_REPLACEMENT}`);
      steps.push((text) => (text === '' ? text : prefix + text));
      return true;
    }
    case 'Replace': {
      const { regex, linear } = compilePattern(fields, `${field}.pattern`, config.pattern);
      const content = fields.string(`${field}.content`, config.content);
      if (content.length > LONGEST_REPLACEMENT) fields.refuse(`${field}.content`, `${content.length} characters`, `at most ${LONGEST_REPLACEMENT}`);
      steps.push((text) => text.replace(regex, () => content));
      return linear;
    }
    case 'Precompiled': {
      const precompiled = new PrecompiledNormalizer({ type: 'Precompiled', precompiled_charsmap: '' });
      steps.push((text) => precompiled.normalize(text));
      return true;
    }
    case 'Nmt':
      steps.push((text) =>
        text
          .replace(/[\u0001-\u0008\u000B\u000E-\u001F\u007F\u008F\u009F]/g, '')
          .replace(/[\u0009\u000A\u000C\u000D\u1680\u200B-\u200F\u2028\u2029\u2581\uFEFF\uFFFD]/g, ' '),
      );
      return true;
    default:
      return fields.refuse(`${field}.type`, describeValue(config.type), KNOWN);
  }
}

/** Blanks as Unicode's White_Space has them; JavaScript's trim differs on U+0085 and U+FEFF. */
function strip(text: string, left: boolean, right: boolean): string {
  let result = text;
  if (left) result = result.replace(/^\p{White_Space}+/u, '');
  if (right) {
    let end = result.length;
    while (end > 0 && /\p{White_Space}/u.test(result.charAt(end - 1))) end--;
    result = result.slice(0, end);
  }
  return result;
}
