import type { Arguments, Body, Expression, Signature, Statement, Target } from './nodes.js';

/** How a scope's variable begins. */
export type Load = 'parameter' | 'resolve' | 'alias' | 'undefined';

/** Where a variable lives: in which function's frame, and at which place there. */
export interface Place {
  readonly scope: FunctionScope;
  readonly slot: number;
}

/** The variables of a function: the template, a macro, a recursive loop. Scopes that follow each other share places. */
export class FunctionScope {
  readonly #slots = new Map<string, number>();

  constructor(readonly parent?: FunctionScope) {}

  get size(): number {
    return this.#slots.size;
  }

  slot(level: number, name: string): number {
    const key = `${level}_${name}`;
    const known = this.#slots.get(key);
    if (known !== undefined) return known;
    this.#slots.set(key, this.#slots.size);
    return this.#slots.size - 1;
  }
}

/**
 * The variables of a scope, found before it is run as jinja2 finds them: a name that a scope sets anywhere is the
 * scope's own, from its beginning.
 */
export class Symbols {
  readonly level: number;
  #refs = new Set<string>();
  #loads = new Map<string, Load>();
  #stores = new Set<string>();

  constructor(
    readonly scope: FunctionScope,
    readonly parent?: Symbols,
  ) {
    this.level = parent === undefined ? 0 : parent.level + 1;
  }

  get loads(): ReadonlyMap<string, Load> {
    return this.#loads;
  }

  place(name: string): Place | undefined {
    if (this.#refs.has(name)) return { scope: this.scope, slot: this.scope.slot(this.level, name) };
    return this.parent?.place(name);
  }

  declare(name: string): void {
    this.#stores.add(name);
    this.#define(name, 'parameter');
  }

  store(name: string): void {
    this.#stores.add(name);
    if (!this.#refs.has(name)) this.#define(name, this.parent?.place(name) === undefined ? 'undefined' : 'alias');
  }

  load(name: string): void {
    if (this.place(name) === undefined) this.#define(name, 'resolve');
  }

  #define(name: string, load: Load): void {
    this.#refs.add(name);
    this.#loads.set(name, load);
  }

  #copy(): Symbols {
    const copy = new Symbols(this.scope, this.parent);
    copy.#refs = new Set(this.#refs);
    copy.#loads = new Map(this.#loads);
    copy.#stores = new Set(this.#stores);
    return copy;
  }

  /** Takes what the branches of an `if` do: a name that one of them sets may be another's, or nobody's. */
  #join(branches: readonly Symbols[]): void {
    const stores = new Set(branches.flatMap((branch) => [...branch.#stores]).filter((name) => !this.#stores.has(name)));
    for (const branch of branches) {
      for (const name of branch.#refs) this.#refs.add(name);
      for (const [name, load] of branch.#loads) this.#loads.set(name, load);
      for (const name of branch.#stores) this.#stores.add(name);
    }
    for (const name of stores) this.#loads.set(name, this.parent?.place(name) === undefined ? 'resolve' : 'alias');
  }

  body(body: Body): void {
    for (const statement of body) this.#statement(statement);
  }

  signature({ parameters, defaults }: Signature): void {
    for (const name of parameters) this.declare(name);
    for (const each of defaults) this.expression(each);
  }

  #statement(node: Statement): void {
    switch (node.type) {
      case 'output':
        this.expression(node.node);
        break;
      case 'for':
        this.expression(node.iterable);
        break;
      case 'if':
        this.#if(node);
        break;
      case 'set':
        this.expression(node.node);
        this.target(node.target);
        break;
      case 'setBlock':
        this.target(node.target);
        break;
      case 'with':
        for (const value of node.values) this.expression(value);
        break;
      case 'macro':
        this.store(node.name);
        break;
      case 'call':
        this.expression(node.call);
        break;
      case 'filterBlock':
        this.expression(node.filter);
        break;
      default:
    }
  }

  #if(node: Statement & { type: 'if' }): void {
    this.expression(node.test);
    const body = this.#copy();
    body.body(node.body);
    const otherwise = this.#copy();
    otherwise.body(node.otherwise);
    this.#join([body, otherwise]);
  }

  /** @param declared whether the names are the scope's own whatever is round it, as a loop's are */
  target(target: Target, declared = false): void {
    if (target.type === 'tuple') for (const item of target.items) this.target(item, declared);
    else if (target.type === 'member') this.load(target.name);
    else if (declared) this.declare(target.name);
    else this.store(target.name);
  }

  expression(node: Expression): void {
    eachName(node, (name) => this.load(name));
  }
}

/** Calls for each name that an expression reads. */
function eachName(node: Expression, visit: (name: string) => void): void {
  const each = (inner: Expression | undefined): void => {
    if (inner !== undefined) eachName(inner, visit);
  };
  const args = ({ positional, named, list, dict }: Arguments): void => {
    positional.forEach(each);
    for (const [, value] of named) each(value);
    each(list);
    each(dict);
  };
  switch (node.type) {
    case 'const':
      break;
    case 'name':
      visit(node.name);
      break;
    case 'tuple':
    case 'list':
      node.items.forEach(each);
      break;
    case 'dict':
      for (const [key, value] of node.items) {
        each(key);
        each(value);
      }
      break;
    case 'attribute':
    case 'unary':
      each(node.node);
      break;
    case 'item':
      each(node.node);
      each(node.argument);
      break;
    case 'slice':
      node.parts.forEach(each);
      break;
    case 'call':
    case 'filter':
    case 'test':
      each(node.node);
      args(node.args);
      break;
    case 'binary':
    case 'and':
    case 'or':
      each(node.left);
      each(node.right);
      break;
    case 'concat':
      node.nodes.forEach(each);
      break;
    case 'compare':
      each(node.node);
      for (const [, right] of node.rest) each(right);
      break;
    case 'conditional':
      each(node.test);
      each(node.then);
      each(node.otherwise);
  }
}

/** Which of the names a body reads before it sets them, whatever scopes it has inside. */
export function undeclaredIn(body: Body, names: readonly string[]): ReadonlySet<string> {
  const open = new Set(names);
  const found = new Set<string>();
  const read = (node: Expression | undefined): void => {
    if (node !== undefined) eachName(node, (name) => open.has(name) && found.add(name));
  };
  const written = (target: Target): void => {
    if (target.type === 'tuple') target.items.forEach(written);
    else if (target.type === 'name') open.delete(target.name);
  };
  const signature = ({ parameters, defaults }: Signature): void => {
    for (const name of parameters) open.delete(name);
    defaults.forEach(read);
  };
  const statements = (nodes: Body): void => nodes.forEach(statement);
  const statement = (node: Statement): void => {
    switch (node.type) {
      case 'output':
        read(node.node);
        break;
      case 'for':
        written(node.target);
        read(node.iterable);
        statements(node.body);
        statements(node.otherwise);
        read(node.test);
        break;
      case 'if':
        read(node.test);
        statements(node.body);
        statements(node.otherwise);
        break;
      case 'set':
        written(node.target);
        read(node.node);
        break;
      case 'setBlock':
        written(node.target);
        read(node.filter);
        statements(node.body);
        break;
      case 'with':
        node.targets.forEach(written);
        node.values.forEach(read);
        statements(node.body);
        break;
      case 'macro':
        signature(node.signature);
        statements(node.body);
        break;
      case 'call':
        read(node.call);
        signature(node.signature);
        statements(node.body);
        break;
      case 'filterBlock':
        statements(node.body);
        read(node.filter);
        break;
      case 'generation':
      case 'scope':
        statements(node.body);
        break;
      default:
    }
  };
  statements(body);
  return found;
}
