import { RowError } from '../errors/RowError.js';
import { PROMPTS } from './rowFields.js';

/** Which field holds a row's prompt; null is as good as absent. @throws RowError unless it is exactly one */
export function promptField(
  row: Readonly<Partial<Record<(typeof PROMPTS)[number], unknown>>>,
): (typeof PROMPTS)[number] {
  const given = PROMPTS.filter((name) => row[name] !== undefined && row[name] !== null);
  const [only] = given;
  if (only !== undefined && given.length === 1) return only;
  const nulls = PROMPTS.filter((name) => row[name] === null);
  const none =
    nulls.length === 0
      ? 'none of them'
      : `none of them (${nulls.join(' and ')} ${nulls.length === 1 ? 'is' : 'are'} null)`;
  throw new RowError(
    'no-prompt',
    `found ${given.length === 0 ? none : given.join(' and ')}, expected exactly one of prompt, messages and tokens`,
  );
}
