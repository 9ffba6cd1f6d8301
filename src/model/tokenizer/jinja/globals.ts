import { bound } from './arguments.js';
import { PythonError, Refused, typeError, unsupported, valueError } from './errors.js';
import { iterate, listOf } from './iterate.js';
import { made, make } from './meter.js';
import { index } from './numbers.js';
import { strftime } from './strftime.js';
import { quoted, str } from './text.js';
import {
  Attributed,
  Callable,
  Dict,
  Namespace,
  Range,
  textOf,
  typeName,
  type Named,
  type Value,
  valueOr,
} from './values.js';

/** The longest range that jinja2's sandbox makes. */
const MOST_RANGE = 100_000;

/** `dict(…)`: pairs of a dict or a list, and arguments by name. */
function dictOf(name: string, args: readonly Value[], named: Named): Dict {
  if (args.length > 1) throw typeError(`${name} expected at most 1 argument, got ${args.length}`);
  const [source] = args;
  const dict = new Dict();
  if (source instanceof Dict) {
    make(4 * source.size);
    for (const [key, value] of source.entries()) dict.set(key, value);
  } else if (source instanceof Namespace) throw typeError("'TemplateNamespace' object is not iterable");
  else if (source !== undefined) {
    for (const item of iterate(source)) {
      make(4);
      const pair = listOf(item);
      if (pair.length !== 2)
        throw valueError(`dictionary update sequence element has length ${pair.length}; 2 is required`);
      dict.set(pair[0] ?? null, pair[1] ?? null);
    }
  }
  for (const [key, value] of named) dict.set(key, value);
  return dict;
}

export function checkMemberName(name: Value): void {
  if (textOf(name)?.startsWith('_') === true)
    throw new PythonError(
      'SecurityError',
      `Chat templates cannot store underscore-prefixed attributes on a namespace, but got ${quoted(str(name))}`,
    );
}

function range(args: readonly Value[], named: Named): Range {
  if (named.size > 0) throw typeError('range() takes no keyword arguments');
  const numbers = args.map(index);
  if (numbers.length < 1 || numbers.length > 3)
    throw typeError(`range expected 1 to 3 arguments, got ${numbers.length}`);
  const [first = 0, second, step = 1] = numbers;
  if (step === 0) throw valueError('range() arg 3 must not be zero');
  const made = second === undefined ? new Range(0, first, 1) : new Range(first, second, step);
  if (made.length > MOST_RANGE)
    throw new PythonError('OverflowError', `Range too big. The sandbox blocks ranges larger than ${MOST_RANGE}.`);
  return made;
}

class Cycler extends Attributed {
  readonly typeName = 'Cycler';
  #at = 0;

  constructor(private readonly items: readonly Value[]) {
    super();
    if (items.length === 0) throw new PythonError('TemplateError', 'at least one item has to be provided');
  }

  override attribute(name: string): Value | undefined {
    const current = this.items[this.#at] ?? null;
    switch (name) {
      case 'current':
        return current;
      case 'next':
        return new Callable(name, (args, named) => {
          bound(name, [], args, named);
          const next = this.items[this.#at] ?? null;
          this.#at = (this.#at + 1) % this.items.length;
          return next;
        });
      case 'reset':
        return new Callable(name, (args, named) => {
          bound(name, [], args, named);
          this.#at = 0;
          return null;
        });
      case 'items':
      case 'pos':
        throw unsupported(`cycler.${name}`);
      default:
        return undefined;
    }
  }
}

class Joiner extends Attributed {
  readonly typeName = 'Joiner';
  readonly callable = true;
  #used = false;

  constructor(private readonly separator: Value) {
    super();
  }

  override attribute(name: string): Value | undefined {
    if (name === 'sep') return this.separator;
    if (name === 'used') return this.#used;
    if (name !== '__call__') return undefined;
    return new Callable('joiner', (args, named) => {
      bound('joiner', [], args, named);
      if (this.#used) return this.separator;
      this.#used = true;
      return '';
    });
  }
}

const GLOBALS: ReadonlyMap<string, Value> = new Map<string, Value>([
  ['range', new Callable('range', range)],
  ['dict', new Callable('dict', (args, named) => dictOf('dict', args, named))],
  [
    'namespace',
    new Callable(
      'namespace',
      (args, named) => {
        const members = dictOf('namespace', args, named);
        for (const [name] of members.entries()) checkMemberName(name);
        return new Namespace(members);
      },
      'type',
    ),
  ],
  [
    'cycler',
    new Callable(
      'cycler',
      (args, named) => {
        if (named.size > 0) throw typeError('cycler() takes no keyword arguments');
        return new Cycler(args);
      },
      'type',
    ),
  ],
  [
    'joiner',
    new Callable(
      'joiner',
      (args, named) => new Joiner(valueOr(bound('joiner', ['sep?'], args, named)[0], () => ', ')),
      'type',
    ),
  ],
  [
    'lipsum',
    new Callable('lipsum', () => {
      throw unsupported('lipsum');
    }),
  ],
  [
    'raise_exception',
    new Callable('raise_exception', (args, named) => {
      const [message = null] = bound('raise_exception', ['message'], args, named);
      throw new PythonError('TemplateError', message === null ? 'the template raised an exception' : str(message));
    }),
  ],
]);

/**
 * Gives the values that templates find by themselves: jinja2's functions and transformers'.
 * @param now the time that they are told, whenever they ask; undefined where none is to be told
 */
export function globalsAt(now: Date | undefined): (name: string) => Value | undefined {
  const strftimeNow = new Callable('strftime_now', (args, named) => {
    const [format = null] = bound('strftime_now', ['format'], args, named);
    const text = textOf(format);
    if (text === undefined) throw typeError(`strftime() argument 1 must be str, not ${typeName(format)}`);
    if (now === undefined)
      throw new Refused(
        'strftime_now: the template asks for the time, which is not the same for all shards of a job: say which with --now (now)',
      );
    return made(strftime(text, now));
  });
  return (name) => (name === 'strftime_now' ? strftimeNow : GLOBALS.get(name));
}
