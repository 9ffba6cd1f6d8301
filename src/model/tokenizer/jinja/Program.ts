import { truth } from './compare.js';
import { PythonError, typeError, unsupported } from './errors.js';
import { calling, compiled, type Context } from './Expressions.js';
import { captured, type Evaluate, type Execute, Flow, Frame, type Rendering } from './frames.js';
import { iterate } from './iterate.js';
import { LoopContext } from './LoopContext.js';
import { extended, inCall, spend } from './meter.js';
import type { Body, Signature, Statement } from './nodes.js';
import { assigning, entering, inner, leaving } from './scopes.js';
import { FunctionScope, Symbols, undeclaredIn } from './Symbols.js';
import { str } from './text.js';
import { Dict, Macro, type Named, textOf, Tuple, typeName, Undefined, type Value, valueOr } from './values.js';

/** A template made of functions, which renders many times. */
export class Program {
  readonly #scope = new FunctionScope();
  readonly #enter: (frame: Frame) => void;
  readonly #run: Execute;

  constructor(body: Body) {
    const symbols = new Symbols(this.#scope);
    symbols.body(body);
    const context = { symbols, scope: this.#scope, soft: false };
    this.#run = statements(body, context);
    this.#enter = entering(context);
  }

  render(rendering: Rendering): string {
    const frame = new Frame(this.#scope.size, rendering);
    this.#enter(frame);
    this.#run(frame);
    return rendering.out;
  }
}

function write(frame: Frame, text: string): void {
  frame.rendering.out = extended(frame.rendering.out, text);
}

/** Writes what a block or a call gives, which must be a text. */
function writeText(frame: Frame, value: Value): void {
  const text = textOf(value);
  if (text === undefined) throw typeError(`sequence item: expected str instance, ${typeName(value)} found`);
  write(frame, text);
}

function statements(body: Body, context: Context): Execute {
  const steps = body.map((node) => statement(node, context));
  const [only] = steps;
  if (only !== undefined && steps.length === 1) return only;
  return (frame) => {
    for (const step of steps) {
      const flow = step(frame);
      if (flow !== Flow.Next) return flow;
    }
    return Flow.Next;
  };
}

function statement(node: Statement, context: Context): Execute {
  switch (node.type) {
    case 'text':
      return (frame) => {
        write(frame, node.text);
        return Flow.Next;
      };
    case 'output': {
      const value = compiled(node.node, context);
      return (frame) => {
        spend(1);
        write(frame, str(value(frame)));
        return Flow.Next;
      };
    }
    case 'for':
      return loop(node, context);
    case 'if':
      return condition(node, context);
    case 'set': {
      const value = compiled(node.node, context);
      const assign = assigning(node.target, context);
      return (frame) => {
        spend(1);
        assign.check(frame);
        assign.set(frame, value(frame));
        return Flow.Next;
      };
    }
    case 'setBlock':
      return setBlock(node, context);
    case 'with':
      return withBlock(node, context);
    case 'macro': {
      const make = macro(node.name, node.signature, node.body, context);
      const { set } = assigning({ type: 'name', name: node.name }, context);
      return (frame) => {
        set(frame, make(frame));
        return Flow.Next;
      };
    }
    case 'call': {
      if (node.call.type !== 'call') throw new PythonError('TemplateSyntaxError', 'expected a call');
      const call = calling(node.call, context, [['caller', macro(null, node.signature, node.body, context)]]);
      return (frame) => {
        writeText(frame, call(frame));
        return Flow.Next;
      };
    }
    case 'generation': {
      const body = macro(null, { parameters: [], defaults: [] }, node.body, context);
      return (frame) => {
        writeText(frame, body(frame).call([], new Map()));
        return Flow.Next;
      };
    }
    case 'filterBlock':
      return filterBlock(node, context);
    case 'scope': {
      const within = inner(context);
      within.symbols.body(node.body);
      const run = statements(node.body, within);
      const [enter, leave] = [entering(within), leaving(within)];
      return (frame) => {
        enter(frame);
        const flow = run(frame);
        leave(frame);
        return flow;
      };
    }
    case 'break':
      return () => Flow.Break;
    case 'continue':
      return () => Flow.Continue;
    case 'refused':
      return () => {
        throw unsupported(node.name);
      };
  }
}

function condition(node: Statement & { type: 'if' }, context: Context): Execute {
  const soft = { ...context, soft: true };
  const test = compiled(node.test, soft);
  const body = statements(node.body, soft);
  const otherwise = statements(node.otherwise, soft);
  return (frame) => {
    spend(1);
    return truth(test(frame)) ? body(frame) : otherwise(frame);
  };
}

function setBlock(node: Statement & { type: 'setBlock' }, context: Context): Execute {
  const within = inner(context);
  within.symbols.body(node.body);
  const run = statements(node.body, within);
  const filter = node.filter && compiled(node.filter, within);
  const assign = assigning(node.target, context);
  const [enter, leave] = [entering(within), leaving(within)];
  return (frame) => {
    enter(frame);
    let flow = Flow.Next;
    let value: Value = '';
    const text = captured(frame, () => {
      flow = run(frame);
      if (flow === Flow.Next && filter) value = filter(frame);
    });
    if (flow !== Flow.Next) return flow;
    assign.set(frame, filter ? value : text);
    leave(frame);
    return Flow.Next;
  };
}

function filterBlock(node: Statement & { type: 'filterBlock' }, context: Context): Execute {
  const within = inner(context);
  within.symbols.body(node.body);
  within.symbols.expression(node.filter);
  const run = statements(node.body, within);
  const filter = compiled(node.filter, within);
  const [enter, leave] = [entering(within), leaving(within)];
  return (frame) => {
    enter(frame);
    let flow = Flow.Next;
    let value: Value = '';
    captured(frame, () => {
      flow = run(frame);
      if (flow === Flow.Next) value = filter(frame);
    });
    if (flow !== Flow.Next) return flow;
    writeText(frame, value);
    leave(frame);
    return Flow.Next;
  };
}

function withBlock(node: Statement & { type: 'with' }, context: Context): Execute {
  const within = inner(context);
  for (const target of node.targets) within.symbols.target(target, true);
  within.symbols.body(node.body);
  const values = node.values.map((value) => compiled(value, context));
  const targets = node.targets.map((target) => assigning(target, within));
  const run = statements(node.body, within);
  const [enter, leave] = [entering(within), leaving(within)];
  return (frame) => {
    enter(frame);
    targets.forEach((target, i) => target.set(frame, values[i]?.(frame) ?? null));
    const flow = run(frame);
    leave(frame);
    return flow;
  };
}

const SPECIAL = ['caller', 'kwargs', 'varargs'] as const;

/** A macro, or the body of a call block, as of where it stands. */
function macro(name: string | null, signature: Signature, body: Body, outer: Context): (frame: Frame) => Macro {
  const scope = new FunctionScope(outer.scope);
  const context = inner(outer, scope);
  const { symbols } = context;
  symbols.signature(signature);
  symbols.body(body);
  const { parameters } = signature;
  const undeclared = undeclaredIn(body, SPECIAL);
  const uses = (special: (typeof SPECIAL)[number]): boolean => undeclared.has(special);
  const withoutDefault = parameters.slice(0, parameters.length - signature.defaults.length);
  if (uses('caller') && withoutDefault.includes('caller'))
    throw new PythonError('TemplateSyntaxError', 'the special "caller" argument must be omitted or be given a default');
  for (const special of SPECIAL) if (uses(special) && !parameters.includes(special)) symbols.declare(special);
  const slotOf = (parameter: string): number => scope.slot(symbols.level, parameter);
  const slots = parameters.map(slotOf);
  const special = {
    caller: uses('caller') && !parameters.includes('caller') ? slotOf('caller') : undefined,
    kwargs: uses('kwargs') && !parameters.includes('kwargs') ? slotOf('kwargs') : undefined,
    varargs: uses('varargs') && !parameters.includes('varargs') ? slotOf('varargs') : undefined,
  };
  const defaults = signature.defaults.map((each) => compiled(each, context));
  const run = statements(body, context);
  const enter = entering(context);
  const known = name ?? 'None';

  const start = (frame: Frame, args: readonly Value[], named: Named): void => {
    const { variables } = frame;
    const rest = new Map(named);
    parameters.forEach((parameter, i) => {
      variables[slots[i] ?? 0] = args[i];
      if (i < args.length) return;
      const value = rest.get(parameter);
      rest.delete(parameter);
      variables[slots[i] ?? 0] = value;
    });
    if (special.caller !== undefined) {
      variables[special.caller] = valueOr(rest.get('caller') ?? undefined, () => new Undefined('No caller defined'));
      rest.delete('caller');
    }
    if (special.kwargs !== undefined) variables[special.kwargs] = Dict.of(rest);
    else if (rest.size > 0)
      throw typeError(`macro '${known}' takes no keyword argument '${[...rest.keys()][0] ?? ''}'`);
    if (special.varargs !== undefined) variables[special.varargs] = new Tuple(args.slice(parameters.length));
    else if (args.length > parameters.length)
      throw typeError(`macro '${known}' takes not more than ${parameters.length} argument(s)`);
  };

  return (outerFrame) =>
    new Macro(
      name,
      {
        name,
        arguments: new Tuple(parameters),
        catch_kwargs: special.kwargs !== undefined,
        catch_varargs: special.varargs !== undefined,
        caller: uses('caller'),
        explicit_caller: parameters.includes('caller'),
      },
      (args, named) =>
        inCall(() => {
          spend(5);
          const frame = new Frame(scope.size, outerFrame.rendering, outerFrame);
          start(frame, args, named);
          return captured(frame, () => {
            enter(frame);
            parameters.forEach((parameter, i) => {
              const slot = slots[i] ?? 0;
              if (frame.variables[slot] !== undefined) return;
              const otherwise = defaults[i - parameters.length + defaults.length];
              frame.variables[slot] = otherwise
                ? otherwise(frame)
                : new Undefined(`parameter '${parameter}' was not provided`);
            });
            run(frame);
          });
        }),
    );
}

type For = Statement & { type: 'for' };

/** Runs a loop over values. */
type RunLoop = (frame: Frame, values: Value, depth: number, again?: (values: Value, depth: number) => string) => Flow;

function loop(node: For, context: Context): Execute {
  const iterable = compiled(node.iterable, context);
  if (!node.recursive) {
    const run = loopBody(node, context);
    return (frame) => run(frame, iterable(frame), 0);
  }
  const scope = new FunctionScope(context.scope);
  const run = loopBody(node, { ...context, scope }, scope);
  return (frame) => {
    const again = (values: Value, depth: number): string =>
      inCall(() => {
        const own = new Frame(scope.size, frame.rendering, frame);
        return captured(own, () => run(own, values, depth, again));
      });
    write(frame, again(iterable(frame), 0));
    return Flow.Next;
  };
}

/** @param own the function that a recursive loop's body is */
function loopBody(node: For, context: Context, own?: FunctionScope): RunLoop {
  const within = inner(context, own);
  const extendedLoop = node.recursive || undeclaredIn(node.body, ['loop']).has('loop');
  if (extendedLoop) within.symbols.declare('loop');
  within.symbols.target(node.target, true);
  within.symbols.body(node.body);
  const filtered = node.test && loopFilter(node, context);
  const assign = assigning(node.target, within);
  const body = statements(node.body, within);
  const [enter, leave] = [entering(within), leaving(within)];
  const loopSlot = extendedLoop ? within.scope.slot(within.symbols.level, 'loop') : undefined;
  const otherwise = node.otherwise.length > 0 ? loopElse(node.otherwise, context, own) : undefined;

  return (frame, values, depth, again) => {
    spend(1);
    const chosen = filtered?.(frame, values);
    let loopContext: LoopContext | undefined;
    if (loopSlot !== undefined) {
      frame.variables[loopSlot] = undefined;
      loopContext = new LoopContext(values, chosen, depth, again);
    }
    // As the reference has it, a body that breaks or continues does not count as done.
    let done = false;
    for (const item of loopContext ?? chosen ?? iterate(values)) {
      spend(1);
      assign.set(frame, item);
      if (loopSlot !== undefined) frame.variables[loopSlot] = loopContext;
      enter(frame);
      const flow = body(frame);
      if (flow === Flow.Break) break;
      if (flow === Flow.Next) done = true;
    }
    leave(frame);
    return done || otherwise === undefined ? Flow.Next : otherwise(frame);
  };
}

function loopElse(body: Body, context: Context, own?: FunctionScope): Execute {
  const within = inner(context, own);
  within.symbols.body(body);
  const run = statements(body, within);
  const [enter, leave] = [entering(within), leaving(within)];
  return (frame) => {
    enter(frame);
    const flow = run(frame);
    leave(frame);
    return flow;
  };
}

/** Which members a loop with a condition goes through, found as it comes to them. */
function loopFilter(node: For, context: Context): (frame: Frame, values: Value) => Iterable<Value> {
  const scope = new FunctionScope(context.scope);
  const within = inner(context, scope);
  within.symbols.target(node.target, true);
  if (node.test) within.symbols.expression(node.test);
  const assign = assigning(node.target, within);
  const test: Evaluate = node.test ? compiled(node.test, within) : () => true;
  const enter = entering(within);
  return function* chosen(outer, values) {
    const frame = new Frame(scope.size, outer.rendering, outer);
    enter(frame);
    for (const item of iterate(values)) {
      spend(1);
      assign.set(frame, item);
      if (truth(test(frame))) yield item;
    }
  };
}
