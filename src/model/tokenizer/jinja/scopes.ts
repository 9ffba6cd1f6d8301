import { PythonError, valueError } from './errors.js';
import { type Context, readVariable } from './Expressions.js';
import type { Frame } from './frames.js';
import { checkMemberName } from './globals.js';
import { iterate } from './iterate.js';
import { make } from './meter.js';
import type { Target } from './nodes.js';
import { type FunctionScope, type Load, Symbols } from './Symbols.js';
import { Namespace, type Value } from './values.js';

/** Gives a scope's variables what they begin with. */
export function entering({ symbols, scope }: Context): (frame: Frame) => void {
  const begins = (name: string, load: Load): ((frame: Frame) => Value | undefined) | undefined => {
    if (load === 'parameter') return undefined;
    if (load === 'resolve') return (frame) => frame.rendering.resolve(name);
    if (load === 'undefined' || symbols.parent === undefined) return () => undefined;
    return readVariable(name, { symbols: symbols.parent, scope, soft: false });
  };
  const loads = [...symbols.loads].flatMap(([name, load]) => {
    const value = begins(name, load);
    return value ? [{ slot: scope.slot(symbols.level, name), value }] : [];
  });
  return (frame) => {
    for (const { slot, value } of loads) frame.variables[slot] = value(frame);
  };
}

/** Takes away what a scope's variables held. */
export function leaving({ symbols, scope }: Context): (frame: Frame) => void {
  const slots = [...symbols.loads.keys()].map((name) => scope.slot(symbols.level, name));
  return (frame) => {
    for (const slot of slots) frame.variables[slot] = undefined;
  };
}

/** A scope inside another, in the same function or in one of its own. */
export function inner({ symbols, scope }: Context, own?: FunctionScope): Context {
  const within = own ?? scope;
  return { symbols: new Symbols(within, symbols), scope: within, soft: false };
}

interface Assign {
  /** Before the value is computed. @throws PythonError where a member of something else is to be set */
  readonly check: (frame: Frame) => void;
  readonly set: (frame: Frame, value: Value) => void;
}

const NO_CHECK = (): void => undefined;

export function assigning(target: Target, context: Context): Assign {
  switch (target.type) {
    case 'name': {
      const place = context.symbols.place(target.name);
      if (place === undefined) throw new Error(`no place for ${target.name}`);
      const { slot } = place;
      return {
        check: NO_CHECK,
        set: (frame, value) => {
          frame.variables[slot] = value;
        },
      };
    }
    case 'member': {
      const read = readVariable(target.name, context);
      const namespace = (frame: Frame): Namespace => {
        const found = read(frame);
        if (!(found instanceof Namespace))
          throw new PythonError('TemplateError', 'cannot assign attribute on non-namespace object');
        return found;
      };
      return {
        check: namespace,
        set: (frame, value) => {
          checkMemberName(target.member);
          const { members } = namespace(frame);
          if (!members.has(target.member)) make(4);
          members.set(target.member, value);
        },
      };
    }
    case 'tuple': {
      const parts = target.items.map((item) => assigning(item, context));
      return {
        check: (frame) => {
          for (const part of parts) part.check(frame);
        },
        set: (frame, value) => {
          const values = unpacked(value, parts.length);
          parts.forEach((part, i) => part.set(frame, values[i] ?? null));
        },
      };
    }
  }
}

function unpacked(value: Value, count: number): Value[] {
  const values: Value[] = [];
  for (const item of iterate(value)) {
    if (values.length === count) throw valueError(`too many values to unpack (expected ${count})`);
    values.push(item);
  }
  if (values.length < count) throw valueError(`not enough values to unpack (expected ${count}, got ${values.length})`);
  return values;
}
