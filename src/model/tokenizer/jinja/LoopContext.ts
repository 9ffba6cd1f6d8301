import { equal } from './compare.js';
import { typeError, unsupported } from './errors.js';
import { iterate } from './iterate.js';
import { make, spend } from './meter.js';
import { lengthIfAny } from './numbers.js';
import { Attributed, Callable, Tuple, Undefined, type Value, valueOr } from './values.js';

/** The variable `loop` of a loop's body. */
export class LoopContext extends Attributed implements Iterable<Value> {
  readonly typeName = 'LoopContext';
  readonly callable = true;
  #index0 = -1;
  #iterator: Iterator<Value>;
  #length: number | undefined;
  #before: Value | undefined;
  #current: Value | undefined;
  #after: Value | undefined;
  #changed: Tuple | undefined;

  /**
   * @param filtered whether the loop leaves members out, so that nobody knows how many come
   * @param again renders a recursive loop's body for what its variable is called with
   */
  constructor(
    values: Value,
    filtered: Iterable<Value> | undefined,
    private readonly depth0: number,
    private readonly again: ((values: Value, depth: number) => string) | undefined,
  ) {
    super();
    this.#iterator = (filtered ?? iterate(values))[Symbol.iterator]();
    this.#length = filtered === undefined ? lengthIfAny(values) : undefined;
  }

  *[Symbol.iterator](): Generator<Value, undefined> {
    for (;;) {
      const next = this.#peek();
      this.#after = undefined;
      if (next === undefined) return undefined;
      this.#index0++;
      this.#before = this.#current;
      this.#current = next;
      yield next;
    }
  }

  #peek(): Value | undefined {
    if (this.#after !== undefined) return this.#after;
    const next = this.#iterator.next();
    this.#after = next.done === true ? undefined : next.value;
    return this.#after;
  }

  get length(): number {
    if (this.#length === undefined) {
      const rest: Value[] = [];
      for (let next = this.#iterator.next(); next.done !== true; next = this.#iterator.next()) {
        spend(1);
        make(1);
        rest.push(next.value);
      }
      this.#iterator = rest.values();
      this.#length = rest.length + this.#index0 + 1 + (this.#after === undefined ? 0 : 1);
    }
    return this.#length;
  }

  override attribute(name: string): Value | undefined {
    switch (name) {
      case 'index0':
        return this.#index0;
      case 'index':
        return this.#index0 + 1;
      case 'first':
        return this.#index0 === 0;
      case 'last':
        return this.#peek() === undefined;
      case 'length':
        return this.length;
      case 'revindex':
        return this.length - this.#index0;
      case 'revindex0':
        return this.length - this.#index0 - 1;
      case 'depth':
        return this.depth0 + 1;
      case 'depth0':
        return this.depth0;
      case 'previtem':
        return this.#index0 === 0 ? new Undefined('there is no previous item') : (this.#before ?? null);
      case 'nextitem':
        return valueOr(this.#peek(), () => new Undefined('there is no next item'));
      case 'cycle':
        return new Callable(name, (args, named) => {
          if (args.length === 0 || named.size > 0) throw typeError('no items for cycling given');
          return args[this.#index0 % args.length] ?? null;
        });
      case 'changed':
        return new Callable(name, (args, named) => {
          if (named.size > 0) throw typeError('changed() takes no keyword arguments');
          const value = new Tuple(args);
          if (this.#changed !== undefined && equal(this.#changed, value)) return false;
          this.#changed = value;
          return true;
        });
      case '__call__':
        return new Callable('loop', (args, named) =>
          this.#recurse(args.length > 0 ? args[0] : named.get('iterable'), args.length + named.size),
        );
      case '__repr__':
        return `<LoopContext ${this.#index0 + 1}/${this.length}>`;
      default:
        return undefined;
    }
  }

  #recurse(values: Value | undefined, given: number): string {
    if (values === undefined || given !== 1) throw typeError('loop() takes one argument');
    if (this.again === undefined)
      throw typeError("The loop must have the 'recursive' marker to be called recursively.");
    if (values instanceof LoopContext) throw unsupported('iterating over loop');
    return this.again(values, this.depth0 + 1);
  }
}
