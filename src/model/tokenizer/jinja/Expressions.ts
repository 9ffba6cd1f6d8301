import { call, getAttribute, getItem, slice } from './attributes.js';
import { contains, equal, order, truth } from './compare.js';
import { PythonError, typeError, unsupported } from './errors.js';
import { hasFilter, runFilter } from './filters.js';
import type { Evaluate, Frame } from './frames.js';
import { iterate } from './iterate.js';
import { make, made, spend } from './meter.js';
import type { Arguments, CompareOperator, Expression } from './nodes.js';
import { binary, unary } from './numbers.js';
import type { FunctionScope, Place, Symbols } from './Symbols.js';
import { hasTest, runTest } from './tests.js';
import { str } from './text.js';
import { Dict, Float, intOf, type Named, textOf, Tuple, typeName, Undefined, type Value, valueOr } from './values.js';

/** Where an expression stands. */
export interface Context {
  readonly symbols: Symbols;
  readonly scope: FunctionScope;
  /** True if the expression may never be come to: there unknown filters are errors only where they are used. */
  readonly soft: boolean;
}

const NO_NAMES: Named = new Map();

/** The frame, seen from another one, that has a variable. */
export function frameOf({ scope: from }: Context, { scope }: Place): (frame: Frame) => Frame {
  let hops = 0;
  for (let at: FunctionScope | undefined = from; at !== undefined && at !== scope; at = at.parent) hops++;
  if (hops === 0) return (frame) => frame;
  return (frame) => {
    let found = frame;
    for (let i = 0; i < hops; i++) found = found.parent ?? found;
    return found;
  };
}

export function readVariable(name: string, context: Context): (frame: Frame) => Value | undefined {
  const place = context.symbols.place(name);
  if (place === undefined) return () => undefined;
  const { slot } = place;
  if (place.scope === context.scope) return (frame) => frame.variables[slot];
  const holder = frameOf(context, place);
  return (frame) => holder(frame).variables[slot];
}

/** Makes functions of expressions, which run many times. */
export function compiled(node: Expression, context: Context): Evaluate {
  switch (node.type) {
    case 'const': {
      const value: Value =
        node.float === true
          ? new Float(Number(node.value))
          : typeof node.value === 'bigint'
            ? intOf(node.value)
            : node.value;
      return () => value;
    }
    case 'name':
      return name(node.name, context);
    case 'tuple':
    case 'list': {
      const items = node.items.map((item) => compiled(item, context));
      const list = (frame: Frame): Value[] => {
        make(items.length);
        return items.map((item) => item(frame));
      };
      return node.type === 'list' ? list : (frame) => new Tuple(list(frame));
    }
    case 'dict': {
      checkKeys(node.items);
      const items = node.items.map(([key, value]) => [compiled(key, context), compiled(value, context)] as const);
      return (frame) => {
        make(4 * items.length);
        const dict = new Dict();
        for (const [key, value] of items) dict.set(key(frame), value(frame));
        return dict;
      };
    }
    case 'attribute': {
      const of = compiled(node.node, context);
      return (frame) => getAttribute(of(frame), node.name);
    }
    case 'item':
      return item(node, context);
    case 'slice':
      return () => {
        throw unsupported('slices in tuples');
      };
    case 'call':
      return calling(node, context);
    case 'filter':
      return filter(node, context);
    case 'test': {
      if (!hasTest(node.name) && !context.soft) throw unknown('test', node.name);
      const of = compiled(node.node, context);
      const args = given(node.args, context);
      return (frame) => {
        spend(1);
        const value = of(frame);
        return runTest(node.name, value, ...args(frame), hasFilter);
      };
    }
    case 'unary': {
      const of = compiled(node.node, context);
      const { operator } = node;
      return operator === 'not' ? (frame) => !truth(of(frame)) : (frame) => unary(operator, of(frame));
    }
    case 'binary': {
      const { operator } = node;
      const [left, right] = [compiled(node.left, context), compiled(node.right, context)];
      return (frame) => {
        spend(1);
        return binary(operator, left(frame), right(frame));
      };
    }
    case 'and':
    case 'or': {
      const [left, right] = [compiled(node.left, context), compiled(node.right, context)];
      const decided = node.type === 'or';
      return (frame) => {
        const value = left(frame);
        return truth(value) === decided ? value : right(frame);
      };
    }
    case 'concat': {
      const parts = node.nodes.map((part) => compiled(part, context));
      return (frame) => {
        const texts = parts.map((part) => str(part(frame)));
        return made(texts.join(''));
      };
    }
    case 'compare':
      return comparison(node, context);
    case 'conditional': {
      const soft = { ...context, soft: true };
      const [test, then] = [compiled(node.test, soft), compiled(node.then, soft)];
      const otherwise = node.otherwise && compiled(node.otherwise, soft);
      return (frame) => {
        if (truth(test(frame))) return then(frame);
        if (otherwise) return otherwise(frame);
        return new Undefined('the inline if-expression evaluated to false and no else section was defined.');
      };
    }
  }
}

/** Checks keys of constants as jinja2 does while it reads a template, wherever they stand. */
function checkKeys(items: readonly (readonly [Expression, Expression])[]): void {
  for (const [key, value] of items) {
    if (!isLiteral(key) || !isLiteral(value)) return;
    const type = unhashable(key);
    if (type !== undefined) throw typeError(`unhashable type: '${type}'`);
  }
}

function isLiteral(node: Expression): boolean {
  if (node.type === 'list' || node.type === 'tuple') return node.items.every(isLiteral);
  return node.type === 'const' || (node.type === 'dict' && node.items.flat().every(isLiteral));
}

function unhashable(key: Expression): string | undefined {
  if (key.type === 'list' || key.type === 'dict') return key.type;
  return key.type === 'tuple' ? key.items.map(unhashable).find((type) => type !== undefined) : undefined;
}

function unknown(kind: 'filter' | 'test', name: string): PythonError {
  return new PythonError('TemplateError', `No ${kind} named '${name}'.`);
}

function name(of: string, context: Context): Evaluate {
  const read = readVariable(of, context);
  // `self` is the template itself; a template that declares it has it.
  const isSelf = of === 'self' && isResolved(of, context.symbols);
  return (frame) => {
    if (isSelf) throw unsupported('self');
    return valueOr(read(frame), () => new Undefined(`'${of}' is undefined`));
  };
}

function isResolved(name: string, symbols: Symbols): boolean {
  for (let at: Symbols | undefined = symbols; at !== undefined; at = at.parent)
    if (at.loads.has(name)) return at.loads.get(name) === 'resolve';
  return false;
}

function item(node: Expression & { type: 'item' }, context: Context): Evaluate {
  const of = compiled(node.node, context);
  if (node.argument.type === 'slice') {
    const parts = node.argument.parts.map((part) => part && compiled(part, context));
    return (frame) => {
      spend(1);
      const value = of(frame);
      return slice(
        value,
        parts.map((part) => part?.(frame)),
      );
    };
  }
  const argument = compiled(node.argument, context);
  return (frame) => getItem(of(frame), argument(frame));
}

function comparison(node: Expression & { type: 'compare' }, context: Context): Evaluate {
  const first = compiled(node.node, context);
  const rest = node.rest.map(([operator, right]) => [operator, compiled(right, context)] as const);
  return (frame) => {
    spend(1);
    let left = first(frame);
    for (const [operator, evaluate] of rest) {
      const right = evaluate(frame);
      if (!holds(operator, left, right)) return false;
      left = right;
    }
    return true;
  };
}

function holds(operator: CompareOperator, left: Value, right: Value): boolean {
  switch (operator) {
    case '==':
      return equal(left, right);
    case '!=':
      return !equal(left, right);
    case 'in':
      return contains(right, left);
    case 'not in':
      return !contains(right, left);
    case '<':
      return order(left, right, operator) < 0;
    case '<=':
      return order(left, right, operator) <= 0;
    case '>':
      return order(left, right, operator) > 0;
    case '>=':
      return order(left, right, operator) >= 0;
  }
}

/** The arguments of a call, computed. */
export function given(
  args: Arguments,
  context: Context,
  more: readonly (readonly [string, Evaluate])[] = [],
): (frame: Frame) => [readonly Value[], Named] {
  const positional = args.positional.map((each) => compiled(each, context));
  const named = args.named.map(([key, value]) => [key, compiled(value, context)] as const);
  const list = args.list && compiled(args.list, context);
  const dict = args.dict && compiled(args.dict, context);
  for (const [key] of more)
    if (named.some(([other]) => other === key))
      throw new PythonError('TemplateSyntaxError', `keyword argument repeated: ${key}`);
  if (list === undefined && dict === undefined && named.length === 0 && more.length === 0)
    return (frame) => [positional.map((each) => each(frame)), NO_NAMES];
  return (frame) => {
    const values = positional.map((each) => each(frame));
    if (list !== undefined)
      for (const value of iterate(list(frame))) {
        make(1);
        values.push(value);
      }
    const names = new Map<string, Value>();
    for (const [key, value] of named) names.set(key, value(frame));
    for (const [key, value] of more) names.set(key, value(frame));
    if (dict !== undefined) addNamed(names, dict(frame));
    return [values, names];
  };
}

function addNamed(names: Map<string, Value>, dict: Value): void {
  if (dict instanceof Undefined) dict.fail();
  if (!(dict instanceof Dict)) throw typeError(`argument after ** must be a mapping, not ${typeName(dict)}`);
  for (const [key, value] of dict.entries()) {
    const name = textOf(key);
    if (name === undefined) throw typeError('keywords must be strings');
    if (names.has(name)) throw typeError(`got multiple values for keyword argument '${name}'`);
    names.set(name, value);
  }
}

/** @param more arguments by name that the call does not write */
export function calling(
  node: Expression & { type: 'call' },
  context: Context,
  more: readonly (readonly [string, Evaluate])[] = [],
): Evaluate {
  const of = compiled(node.node, context);
  const args = given(node.args, context, more);
  return (frame) => {
    const value = of(frame);
    return call(value, ...args(frame));
  };
}

function filter(node: Expression & { type: 'filter' }, context: Context): Evaluate {
  if (!hasFilter(node.name) && !context.soft) throw unknown('filter', node.name);
  // A block's filter is applied to what the block wrote.
  const of = node.node === undefined ? (frame: Frame) => frame.rendering.out : compiled(node.node, context);
  const args = given(node.args, context);
  return (frame) => {
    const value = of(frame);
    return runFilter(node.name, value, ...args(frame));
  };
}
