import { typeError, unsupported } from './errors.js';
import type { Named, Value } from './values.js';

/**
 * Arguments in the order of a function's parameters; undefined where one is not given.
 * @param parameters names; one that begins with `/` can be given by its place alone, one that ends with `?` be left out
 */
export function bound(
  name: string,
  parameters: readonly string[],
  args: readonly Value[],
  named: Named,
): (Value | undefined)[] {
  if (args.length > parameters.length)
    throw typeError(`${name}() takes at most ${parameters.length} arguments (${args.length} given)`);
  const result: (Value | undefined)[] = [...args];
  let used = 0;
  for (let i = 0; i < parameters.length; i++) {
    const [, place = '', parameter = '', optional = ''] = /^(\/?)([^?]*)(\??)$/.exec(parameters[i] ?? '') ?? [];
    const value = named.size > 0 && place === '' ? named.get(parameter) : undefined;
    if (value !== undefined) {
      if (i < args.length) throw typeError(`${name}() got multiple values for argument '${parameter}'`);
      result[i] = value;
      used++;
    }
    if (result[i] === undefined && optional === '')
      throw typeError(`${name}() missing the required argument '${parameter}'`);
  }
  if (used < named.size)
    throw typeError(`${name}() got an unexpected keyword argument among '${[...named.keys()].join("', '")}'`);
  return result;
}

/** Names that Python has and this does not. */
export function refuse(name: string): () => never {
  return () => {
    throw unsupported(name);
  };
}
