import { compilePattern } from './compilePattern.js';
import { describeValue } from '../files/describeValue.js';
import { checkGrowth, replaceMatches } from './growth.js';
import type { Guard } from './Guard.js';
import { PrecompiledNormalizer } from './tokenizersLibrary.js';

export interface Normalizer {
  normalize(text: string): string;
  /** False if a file's own regular expression is part of it. */
  readonly linear: boolean;
}

const KNOWN = 'one of Sequence, NFC, NFD, NFKC, NFKD, Lowercase, Strip, StripAccents, Prepend, Replace, Precompiled, Nmt';

/** Builds tokenizer.json's `normalizer`; null is the identity. */
export function createNormalizer(guard: Guard, value: unknown): Normalizer {
  const steps: ((text: string) => string)[] = [];
  const linear = collect(guard, 'normalizer', value, steps);
  return {
    linear,
    normalize: (text) => {
      let result = text;
      for (const step of steps) {
        result = step(result);
        checkGrowth('normalizer', text.length, result.length);
      }
      return result;
    },
  };
}

/** @returns whether all steps are linear */
function collect(guard: Guard, field: string, value: unknown, steps: ((text: string) => string)[], depth = 0): boolean {
  if (value === null || value === undefined) return true;
  const { fields } = guard;
  const config = fields.object(field, value);
  fields.checkStep(field, steps.length, depth);
  switch (config.type) {
    case 'Sequence': {
      let linear = true;
      fields.array(`${field}.normalizers`, config.normalizers).forEach((item, i) => {
        linear = collect(guard, `${field}.normalizers[${i}]`, item, steps, depth + 1) && linear;
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
      const prefix = fields.replacement(`${field}.prepend`, config.prepend);
      steps.push((text) => (text === '' ? text : prefix + text));
      return true;
    }
    case 'Replace': {
      const pattern = compilePattern(fields, `${field}.pattern`, config.pattern);
      const content = fields.replacement(`${field}.content`, config.content);
      steps.push((text) => {
        guard.field = pattern.field;
        return replaceMatches(text, pattern, content);
      });
      return pattern.linear;
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
