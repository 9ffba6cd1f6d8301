import { ROW_LIMITS } from '../files/limits.js';
import {
  Interpreter,
  type JinjaEnvironment as Environment,
  type JinjaNode as Node,
  type JinjaValue as Value,
} from './huggingFace.js';

/** All text made in one rendering, in multiples of the longest; loops that append to a text make it again and again. */
const TOTAL_TEXTS = 64;

/** A value that was computed already, put in an expression's place. */
class Evaluated {
  readonly type = 'Evaluated';
  constructor(readonly value: Value) {}
}

/**
 * Jinja with bounds on work and memory. Every expression passes through `evaluate`, so a count there ends endless
 * loops; the operations that can make a text much longer in one step are computed beforehand and refused.
 */
export class BoundedInterpreter extends Interpreter {
  #steps: number;
  readonly #longest: number;
  #total: number;
  readonly #weights = new WeakMap<object, number>();

  /** @param size of the messages' text, in UTF-16 units */
  constructor(environment: Environment, messages: number, size: number) {
    super(environment);
    this.#steps = ROW_LIMITS.templateSteps + ROW_LIMITS.templateStepsPerMessage * messages;
    this.#longest = ROW_LIMITS.templateTextUnits + 8 * size;
    this.#total = TOTAL_TEXTS * this.#longest;
  }

  render(program: Node): string {
    const { value } = this.run(program);
    if (typeof value !== 'string') throw new Error('the template made something other than text');
    return value;
  }

  override evaluate(statement: Node | undefined, environment: Environment): Value {
    if (statement instanceof Evaluated) return statement.value;
    if (--this.#steps < 0) throw new Error('the template takes too many steps');
    const value = super.evaluate(this.#prepare(statement, environment), environment);
    const content: unknown = value.value;
    if (typeof content === 'string') {
      if (content.length > this.#longest)
        throw new Error(`the template makes a text of ${content.length} characters, expected at most ${this.#longest}`);
      if (statement?.type !== 'Identifier' && statement?.type !== 'StringLiteral') this.#total -= content.length;
      if (this.#total < 0) throw new Error('the template makes too much text');
    } else if (this.#weigh(content) > this.#longest) {
      throw new Error(`the template makes a list that is larger than ${this.#longest} characters`);
    }
    return value;
  }

  /**
   * The size of a value as text, roughly. Lists that hold one another twice, again and again, are small in memory and
   * endless as text.
   */
  #weigh(content: unknown): number {
    if (typeof content === 'string') return content.length + 1;
    if (!(Array.isArray(content) || content instanceof Map)) return 1;
    const known = this.#weights.get(content);
    if (known !== undefined) return known;
    // Stands while the value is being weighed, should it hold itself.
    this.#weights.set(content, 0);
    let weight = 1;
    for (const item of content.values() as Iterable<{ value?: unknown } | undefined>)
      weight += this.#weigh(item?.value);
    this.#weights.set(content, weight);
    return weight;
  }

  /**
   * Computes what a loop runs over, since an empty body evaluates nothing, and the operand and arguments of what
   * multiplies text; each once. Refuses results that would be too long.
   */
  #prepare(statement: Node | undefined, environment: Environment): Node | undefined {
    if (statement?.type === 'For') {
      const node = statement as Node & { iterable: Node & { lhs?: Node } };
      const { iterable } = node;
      const filtered = iterable.type === 'SelectExpression';
      const list = this.evaluate(filtered ? iterable.lhs : iterable, environment);
      this.#steps -= lengthOf(list.value);
      const evaluated = new Evaluated(list);
      return { ...node, iterable: filtered ? { ...iterable, lhs: evaluated } : evaluated } as Node;
    }
    if (statement?.type === 'FilterExpression') {
      const node = statement as Node & {
        operand: Node;
        filter: Node & { value?: string; callee?: Node & { value?: string }; args?: Node[] };
      };
      const { filter } = node;
      const name = filter.callee?.value ?? filter.value ?? '';
      if (!MULTIPLYING.has(name)) return statement;
      const operand = this.evaluate(node.operand, environment);
      const args = this.#arguments(filter.args ?? [], environment);
      this.#check(name, operand, args.values);
      return {
        ...node,
        operand: new Evaluated(operand),
        filter: filter.args === undefined ? filter : { ...filter, args: args.nodes },
      } as Node;
    }
    if (statement?.type === 'CallExpression') {
      const node = statement as Node & {
        callee: Node & { object?: Node; property?: Node & { value?: string }; computed?: boolean };
        args: Node[];
      };
      const { callee } = node;
      // A computed name ("x"["replace"]) is checked like any that multiplies.
      if (callee.type !== 'MemberExpression' || callee.object === undefined) return statement;
      if (callee.computed !== true && !MULTIPLYING.has(callee.property?.value ?? '')) return statement;
      const operand = this.evaluate(callee.object, environment);
      const args = this.#arguments(node.args, environment);
      this.#check('replace', operand, args.values);
      return { ...node, args: args.nodes, callee: { ...callee, object: new Evaluated(operand) } } as Node;
    }
    return statement;
  }

  #arguments(args: readonly Node[], environment: Environment): { nodes: Node[]; values: Value[] } {
    const values: Value[] = [];
    const nodes = args.map((argument): Node => {
      const named = argument as Node & { value?: Node; argument?: Node };
      const inner =
        argument.type === 'KeywordArgumentExpression'
          ? named.value
          : argument.type.endsWith('SpreadExpression')
            ? named.argument
            : argument;
      const value = this.evaluate(inner, environment);
      values.push(value);
      if (argument.type === 'KeywordArgumentExpression') return { ...argument, value: new Evaluated(value) } as Node;
      if (argument.type.endsWith('SpreadExpression')) return { ...argument, argument: new Evaluated(value) } as Node;
      return new Evaluated(value);
    });
    return { nodes, values };
  }

  /** An upper bound of the result's length, from the operand's and the longest argument's. */
  #check(name: string, operand: Value, args: readonly Value[]): void {
    const size = lengthOf(operand.value);
    const factor = Math.max(
      0,
      ...args.map((argument) =>
        argument.type === 'ArrayValue' || argument.type === 'ObjectValue' ? Infinity : lengthOf(argument.value),
      ),
    );
    // `replace` with a short new text is common on long texts: the old text has at least one character in all sensible
    // uses.
    const bound = size + (size + 1) * factor;
    if (bound > Math.max(this.#longest, 64 * 1024 * 1024))
      throw new Error(`found ${name} with arguments that make a text of up to ${bound} characters`);
  }
}

const MULTIPLYING: ReadonlySet<string> = new Set(['replace', 'indent', 'tojson', 'join']);

/** Units of a text, entries of a list, or a number as a width. */
function lengthOf(value: unknown): number {
  if (typeof value === 'string' || Array.isArray(value)) return value.length;
  if (value instanceof Map) return value.size;
  return typeof value === 'number' ? Math.abs(value) : 0;
}
