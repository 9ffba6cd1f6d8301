import { ROW_LIMITS } from '../files/limits.js';
import {
  Interpreter,
  type JinjaEnvironment as Environment,
  type JinjaNode as Node,
  type JinjaValue as Value,
} from './huggingFace.js';

/** All text made in one rendering, in multiples of the longest; loops that append to a text make it again and again. */
const TOTAL_TEXTS = 64;

/** Of a loop, also where its body is empty. */
const STEPS_A_TURN = 4;

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
    const value =
      statement?.type === 'MemberExpression'
        ? this.#member(statement, environment)
        : super.evaluate(this.#prepare(statement, environment), environment);
    const content: unknown = value.value;
    // A call may make a long list at once.
    if (statement?.type === 'CallExpression' && Array.isArray(content)) this.#steps -= content.length;
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
   * Filters, of expressions and of blocks. The arguments of one that multiplies text are computed beforehand, once, and
   * results that would be too long refused.
   */
  override applyFilter(operand: Value, filterNode: Node, environment: Environment): Value {
    const filter = filterNode as Node & { value?: string; callee?: Node & { value?: string }; args?: Node[] };
    const name = filter.callee?.value ?? filter.value ?? '';
    // One filter goes through all of a list.
    if (typeof operand.value === 'object') this.#steps -= lengthOf(operand.value);
    if (!MULTIPLYING.has(name)) return super.applyFilter(operand, filter, environment);
    const args = this.#arguments(filter.args ?? [], environment);
    this.#check(name, operand, args.values);
    return super.applyFilter(
      operand,
      filter.args === undefined ? filter : ({ ...filter, args: args.nodes } as Node),
      environment,
    );
  }

  /** Computes what a loop runs over, since an empty body evaluates nothing; once. */
  #prepare(statement: Node | undefined, environment: Environment): Node | undefined {
    if (statement?.type !== 'For') return statement;
    const node = statement as Node & { iterable: Node & { lhs?: Node } };
    const { iterable } = node;
    const filtered = iterable.type === 'SelectExpression';
    const list = this.evaluate(filtered ? iterable.lhs : iterable, environment);
    this.#steps -= STEPS_A_TURN * lengthOf(list.value);
    const evaluated = new Evaluated(list);
    return { ...node, iterable: filtered ? { ...iterable, lhs: evaluated } : evaluated } as Node;
  }

  /**
   * A member of a value. A method of a text may be put away and called under any name, so the one that multiplies looks
   * at its own arguments.
   */
  #member(statement: Node, environment: Environment): Value {
    const node = statement as Node & { object: Node };
    const object = this.evaluate(node.object, environment);
    const member = super.evaluate({ ...node, object: new Evaluated(object) } as Node, environment);
    if (typeof object.value !== 'string' || member !== object.builtins?.get('replace')) return member;
    const method = member.value as (args: readonly Value[], scope: Environment) => Value;
    const bounded = (args: readonly Value[], scope: Environment): Value => {
      this.#check('replace', object, args);
      return method(args, scope);
    };
    return Object.assign(Object.create(Object.getPrototypeOf(member) as object) as Value, member, { value: bounded });
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
    const size = typeof operand.value === 'string' ? operand.value.length : this.#weigh(operand.value);
    // JSON's lines are indented once more on each level.
    const levels = name === 'tojson' ? depthOf(operand.value) : 1;
    const factor = Math.max(0, ...args.map(widthOf));
    // `replace` with a short new text is common on long texts: the old text has at least one character in all sensible
    // uses.
    const bound = size + (size + 1) * factor * levels;
    if (bound > Math.max(this.#longest, MOST_MADE))
      throw new Error(`found ${name} with arguments that make a text of up to ${bound} characters`);
  }
}

/** What one step may make before it is looked at, in characters. */
const MOST_MADE = 64 * 1024 * 1024;

const MULTIPLYING: ReadonlySet<string> = new Set(['replace', 'indent', 'tojson', 'join']);

/** How much text an argument adds at each place, at most: a list's texts all together. */
function widthOf({ value }: Value): number {
  if (!(Array.isArray(value) || value instanceof Map)) return lengthOf(value);
  const parts = [...(value.values() as Iterable<Value | undefined>)].map((part) => part?.value);
  return parts.reduce<number>(
    (sum, part) => sum + (Array.isArray(part) || part instanceof Map ? Infinity : lengthOf(part)),
    0,
  );
}

/** Levels of lists and objects in each other, 1 for what is neither; Infinity for what holds itself. */
function depthOf(value: unknown, known = new Map<unknown, number>()): number {
  if (!(Array.isArray(value) || value instanceof Map)) return 1;
  const before = known.get(value);
  if (before !== undefined) return before;
  known.set(value, Infinity);
  let deepest = 0;
  for (const item of value.values() as Iterable<Value | undefined>)
    deepest = Math.max(deepest, depthOf(item?.value, known));
  known.set(value, deepest + 1);
  return deepest + 1;
}

/** Units of a text, entries of a list, or a number as a width. */
function lengthOf(value: unknown): number {
  if (typeof value === 'string' || Array.isArray(value)) return value.length;
  if (value instanceof Map) return value.size;
  return typeof value === 'number' ? Math.abs(value) : 0;
}
