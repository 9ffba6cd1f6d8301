import type { ArgumentForm } from './ToolForm.js';
import { isObject } from '../../arguments/isObject.js';

/** Blanks after commas and colons as Python writes them, or none, as JavaScript does: models are trained on both. */
const SEPARATORS = { item_separator: ', ?', key_separator: ': ?' };

/** Arguments as an object of JSON. */
export const jsonArguments: ArgumentForm = {
  rule: ({ schema: { grammar } }, rules) => {
    if (!isObject(grammar)) return rules.schema(grammar);
    const { 'x-guidance': guidance } = grammar;
    return rules.schema({ ...grammar, 'x-guidance': { ...(isObject(guidance) && guidance), ...SEPARATORS } });
  },
  read: function* (reader, _tool, tell) {
    yield* reader.skipSpace();
    return (yield* reader.next('{')) && (yield* reader.json(tell));
  },
};
