import { PythonError } from './errors.js';
import { Lexer, type Token } from './lexer.js';
import type {
  Arguments,
  BinaryOperator,
  Body,
  CompareOperator,
  Expression,
  Signature,
  Statement,
  Target,
} from './nodes.js';

/** Brackets and blocks inside each other; Python's own parser gives up sooner. */
const MOST_NESTED = 100;
/** Operators after each other, which are inside each other once they are parsed. */
const MOST_CHAINED = 1000;

const NO_ARGUMENTS: Arguments = { positional: [], named: [], list: undefined, dict: undefined };
const COMPARING: ReadonlySet<string> = new Set(['==', '!=', '<', '<=', '>', '>=']);
const CONSTANTS: ReadonlyMap<string, boolean | null> = new Map([
  ['true', true],
  ['True', true],
  ['false', false],
  ['False', false],
  ['none', null],
  ['None', null],
]);

/** Parses a template as jinja2's parser does, with the extensions that transformers adds. */
export class Parser {
  readonly #tokens: readonly Token[];
  #at = 0;
  #nested = 0;
  /** Loops that `break` would end, and those whose variable `loop` nothing may set. */
  #loops = 0;
  #around = 0;

  constructor(source: string) {
    this.#tokens = new Lexer(source).tokens();
  }

  parse(): Body {
    return this.#body([]);
  }

  get #current(): Token {
    return this.#tokens[this.#at] ?? END;
  }

  #next(): Token {
    const token = this.#current;
    this.#at++;
    return token;
  }

  #fail(message: string): never {
    throw new PythonError('TemplateSyntaxError', `line ${this.#current.line}: ${message}`);
  }

  #unexpected(expected: string): never {
    const { type, text } = this.#current;
    const found = type === 'end' ? 'the end of the template' : text === '' ? type.replace('_', ' ') : `'${text}'`;
    this.#fail(`found ${found}, expected ${expected}`);
  }

  #skipName(): void {
    if (this.#current.type === 'name') this.#at++;
  }

  #is(text: string, type: Token['type'] = 'operator'): boolean {
    return this.#current.text === text && this.#current.type === type;
  }

  #isWord(word: string): boolean {
    return this.#is(word, 'name');
  }

  #skip(text: string, type: Token['type'] = 'operator'): boolean {
    if (!this.#is(text, type)) return false;
    this.#at++;
    return true;
  }

  #expect(text: string, type: Token['type'] = 'operator'): void {
    if (!this.#skip(text, type)) this.#unexpected(`'${text}'`);
  }

  #name(): string {
    if (this.#current.type !== 'name') this.#unexpected('a name');
    return this.#next().text;
  }

  #inside<T>(work: () => T): T {
    if (++this.#nested > MOST_NESTED) this.#fail(`found more than ${MOST_NESTED} levels inside each other`);
    const result = work();
    this.#nested--;
    return result;
  }

  // Statements

  /** Statements up to a tag that ends them, whose name is the current token then. */
  #body(ends: readonly string[]): Statement[] {
    const body: Statement[] = [];
    for (;;) {
      const token = this.#next();
      switch (token.type) {
        case 'data':
          body.push({ type: 'text', text: token.text });
          break;
        case 'variable_begin':
          body.push({ type: 'output', node: this.#tuple() });
          if (this.#current.type !== 'variable_end') this.#unexpected("'}}'");
          this.#at++;
          break;
        case 'block_begin':
          if (this.#current.type === 'name' && ends.includes(this.#current.text)) return body;
          body.push(...this.#inside(() => this.#statement()));
          this.#blockEnd();
          break;
        case 'end':
          this.#at--;
          if (ends.length > 0) this.#unexpected(ends.map((end) => `{% ${end} %}`).join(' or '));
          return body;
        default:
          this.#fail(`found '${token.text}' outside of a tag`);
      }
    }
  }

  #blockEnd(): void {
    if (this.#current.type !== 'block_end') this.#unexpected("'%}'");
    this.#at++;
  }

  /** The rest of a tag, then statements up to one of the ends. */
  #statements(ends: readonly string[]): Body {
    this.#skip(':');
    this.#blockEnd();
    return this.#body(ends);
  }

  #statementsUntil(end: string): Body {
    const body = this.#statements([end]);
    this.#at++;
    return body;
  }

  #statement(): Statement[] {
    if (this.#current.type !== 'name') this.#unexpected('the name of a tag');
    const { text: tag } = this.#next();
    switch (tag) {
      case 'for':
        return [this.#for()];
      case 'if':
        return [this.#if()];
      case 'set':
        return [this.#set()];
      case 'with':
        return [this.#with()];
      case 'macro': {
        const name = this.#name();
        return [{ type: 'macro', name, signature: this.#signature(), body: this.#function('endmacro') }];
      }
      case 'call': {
        const signature = this.#is('(') ? this.#signature() : { parameters: [], defaults: [] };
        const call = this.#expression();
        if (call.type !== 'call') this.#fail('expected a call');
        return [{ type: 'call', call, signature, body: this.#function('endcall') }];
      }
      case 'generation':
        return [{ type: 'generation', body: this.#function('endgeneration') }];
      case 'filter': {
        const filter = this.#filter(undefined, true);
        return [{ type: 'filterBlock', filter, body: this.#statementsUntil('endfilter') }];
      }
      case 'print':
        return this.#print();
      case 'autoescape':
        return [this.#autoescape()];
      case 'break':
      case 'continue':
        if (this.#loops === 0) this.#fail(`found '${tag}' outside of a loop`);
        return [{ type: tag }];
      case 'block':
      case 'extends':
      case 'include':
      case 'import':
      case 'from':
        return [this.#refused(tag)];
      default:
        this.#at--;
        return this.#fail(`found the unknown tag '${tag}'`);
    }
  }

  /** The body of what is a function of its own: a loop round it is none of its. */
  #function(end: string): Body {
    const loops = this.#loops;
    this.#loops = 0;
    const body = this.#statementsUntil(end);
    this.#loops = loops;
    return body;
  }

  /** Tags that need other templates, which there are none of. */
  #refused(tag: string): Statement {
    while (this.#current.type !== 'block_end') {
      if (this.#current.type === 'end') this.#unexpected("'%}'");
      this.#at++;
    }
    if (tag === 'block') {
      this.#function('endblock');
      this.#skipName();
    }
    return { type: 'refused', name: `{% ${tag} %}` };
  }

  #print(): Statement[] {
    const nodes: Statement[] = [];
    while (this.#current.type !== 'block_end') {
      if (nodes.length > 0) this.#expect(',');
      nodes.push({ type: 'output', node: this.#expression() });
    }
    return nodes;
  }

  #autoescape(): Statement {
    const option = this.#expression();
    const body = this.#statementsUntil('endautoescape');
    return option.type === 'const' && (option.value === false || option.value === null)
      ? { type: 'scope', body }
      : { type: 'refused', name: '{% autoescape %}' };
  }

  #set(): Statement {
    const target = this.#target(true);
    if (this.#skip('=')) return { type: 'set', target, node: this.#tuple() };
    const filter = this.#is('|') ? this.#filter(undefined, false) : undefined;
    return { type: 'setBlock', target, filter, body: this.#statementsUntil('endset') };
  }

  #for(): Statement {
    this.#around++;
    const target = this.#target(false, 'in');
    this.#expect('in', 'name');
    const iterable = this.#tuple(false, 'recursive');
    const test = this.#skip('if', 'name') ? this.#expression() : undefined;
    const recursive = this.#skip('recursive', 'name');
    this.#loops++;
    const body = this.#statements(['endfor', 'else']);
    this.#loops--;
    // What breaks inside a recursive loop's other branch has no loop round it.
    const outer = this.#loops;
    if (recursive) this.#loops = 0;
    const otherwise = this.#next().text === 'endfor' ? [] : this.#statementsUntil('endfor');
    this.#loops = outer;
    this.#around--;
    return { type: 'for', target, iterable, test, recursive, body, otherwise };
  }

  #if(): Statement {
    const test = this.#tuple(false);
    const body = this.#statements(['elif', 'else', 'endif']);
    const { text } = this.#next();
    if (text === 'elif') return { type: 'if', test, body, otherwise: [this.#inside(() => this.#if())] };
    return { type: 'if', test, body, otherwise: text === 'else' ? this.#statementsUntil('endif') : [] };
  }

  #with(): Statement {
    const targets: Target[] = [];
    const values: Expression[] = [];
    while (this.#current.type !== 'block_end') {
      if (targets.length > 0) this.#expect(',');
      const around = this.#around;
      this.#around = 0;
      targets.push(this.#target(false));
      this.#around = around;
      this.#expect('=');
      values.push(this.#expression());
    }
    return { type: 'with', targets, values, body: this.#statementsUntil('endwith') };
  }

  #signature(): Signature {
    const parameters: string[] = [];
    const defaults: Expression[] = [];
    this.#expect('(');
    while (!this.#is(')')) {
      if (parameters.length > 0) this.#expect(',');
      const name = this.#assignable(this.#name());
      if (parameters.includes(name)) this.#fail(`found the parameter '${name}' twice`);
      parameters.push(name);
      if (this.#skip('=')) defaults.push(this.#expression());
      else if (defaults.length > 0) this.#fail('non-default argument follows default argument');
    }
    this.#expect(')');
    return { parameters, defaults };
  }

  #assignable(name: string): string {
    if (CONSTANTS.has(name)) this.#fail(`can't assign to '${name}'`);
    return name;
  }

  #target(members: boolean, end?: string): Target {
    const items: Target[] = [];
    let isTuple = false;
    for (;;) {
      if (items.length > 0) this.#expect(',');
      if (this.#isTupleEnd(end)) break;
      items.push(this.#oneTarget(members));
      if (!this.#is(',')) break;
      isTuple = true;
    }
    const [first] = items;
    if (first === undefined) this.#unexpected('a name');
    return isTuple ? { type: 'tuple', items } : first;
  }

  #oneTarget(members: boolean): Target {
    if (this.#skip('(')) {
      const target = this.#inside(() => this.#target(false));
      this.#expect(')');
      return target;
    }
    const name = this.#assignable(this.#name());
    if (name === 'loop' && this.#around > 0 && !(members && this.#is('.')))
      this.#fail("can't assign to the special variable 'loop'");
    if (!members || !this.#skip('.')) return { type: 'name', name };
    return { type: 'member', name, member: this.#name() };
  }

  // Expressions

  #isTupleEnd(end?: string): boolean {
    const { type } = this.#current;
    if (type === 'variable_end' || type === 'block_end' || this.#is(')')) return true;
    return end !== undefined && this.#isWord(end);
  }

  /** An expression, or several with commas between them. */
  #tuple(conditional = true, end?: string, parentheses = false): Expression {
    const items: Expression[] = [];
    let isTuple = false;
    for (;;) {
      if (items.length > 0) this.#expect(',');
      if (this.#isTupleEnd(end)) break;
      items.push(this.#expression(conditional));
      if (!this.#is(',')) break;
      isTuple = true;
    }
    const [first] = items;
    if (!isTuple) {
      if (first !== undefined) return first;
      if (!parentheses) this.#unexpected('an expression');
    }
    return { type: 'tuple', items };
  }

  #expression(conditional = true): Expression {
    return this.#inside(() => (conditional ? this.#conditional() : this.#or()));
  }

  #conditional(): Expression {
    let node = this.#or();
    for (let times = 0; this.#skip('if', 'name'); times++) {
      this.#chained(times);
      const test = this.#or();
      const otherwise = this.#skip('else', 'name') ? this.#inside(() => this.#conditional()) : undefined;
      node = { type: 'conditional', test, then: node, otherwise };
    }
    return node;
  }

  #chained(times: number): void {
    if (times > MOST_CHAINED) this.#fail(`found more than ${MOST_CHAINED} operators after each other`);
  }

  #or(): Expression {
    let left = this.#and();
    for (let times = 0; this.#skip('or', 'name'); times++) {
      this.#chained(times);
      left = { type: 'or', left, right: this.#and() };
    }
    return left;
  }

  #and(): Expression {
    let left = this.#not();
    for (let times = 0; this.#skip('and', 'name'); times++) {
      this.#chained(times);
      left = { type: 'and', left, right: this.#not() };
    }
    return left;
  }

  #not(): Expression {
    if (this.#skip('not', 'name')) return { type: 'unary', operator: 'not', node: this.#inside(() => this.#not()) };
    return this.#compare();
  }

  #compare(): Expression {
    const node = this.#sum();
    const rest: [CompareOperator, Expression][] = [];
    for (;;) {
      const operator = this.#compareOperator();
      if (operator === undefined) break;
      rest.push([operator, this.#sum()]);
    }
    return rest.length === 0 ? node : { type: 'compare', node, rest };
  }

  #compareOperator(): CompareOperator | undefined {
    const { type, text } = this.#current;
    if (type === 'operator' && COMPARING.has(text)) {
      this.#at++;
      return text as CompareOperator;
    }
    if (this.#skip('in', 'name')) return 'in';
    const after = this.#tokens[this.#at + 1];
    if (!this.#isWord('not') || after?.type !== 'name' || after.text !== 'in') return undefined;
    this.#at += 2;
    return 'not in';
  }

  #binary(operators: readonly BinaryOperator[], operand: () => Expression): Expression {
    let left = operand();
    for (let times = 0; ; times++) {
      this.#chained(times);
      const operator = this.#current.type === 'operator' && operators.find((each) => each === this.#current.text);
      if (!operator) return left;
      this.#at++;
      left = { type: 'binary', operator, left, right: operand() };
    }
  }

  #sum(): Expression {
    return this.#binary(['+', '-'], () => this.#concat());
  }

  #concat(): Expression {
    const first = this.#product();
    if (!this.#is('~')) return first;
    const nodes = [first];
    while (this.#skip('~')) nodes.push(this.#product());
    return { type: 'concat', nodes };
  }

  #product(): Expression {
    return this.#binary(['*', '/', '//', '%'], () => this.#binary(['**'], () => this.#unary(true)));
  }

  #unary(filters: boolean): Expression {
    let node: Expression;
    if (this.#is('-') || this.#is('+')) {
      const operator = this.#next().text === '-' ? '-' : '+';
      node = { type: 'unary', operator, node: this.#inside(() => this.#unary(false)) };
    } else node = this.#primary();
    node = this.#postfix(node);
    return filters ? this.#filters(node) : node;
  }

  #primary(): Expression {
    const token = this.#next();
    switch (token.type) {
      case 'name': {
        const constant = CONSTANTS.get(token.text);
        return constant === undefined ? { type: 'name', name: token.text } : { type: 'const', value: constant };
      }
      case 'string': {
        let { text } = token;
        while (this.#current.type === 'string') text += this.#next().text;
        return { type: 'const', value: text };
      }
      case 'number':
        return { type: 'const', value: token.value ?? 0, float: token.float === true };
      case 'operator':
        if (token.text === '(') {
          const node = this.#inside(() => this.#tuple(true, undefined, true));
          this.#expect(')');
          return node;
        }
        if (token.text === '[') return { type: 'list', items: this.#list(']', () => this.#expression()) };
        if (token.text === '{') {
          const pair = (): [Expression, Expression] => {
            const key = this.#expression();
            this.#expect(':');
            return [key, this.#expression()];
          };
          return { type: 'dict', items: this.#list('}', pair) };
        }
        break;
      default:
    }
    this.#at--;
    return this.#unexpected('an expression');
  }

  #list<T>(close: string, item: () => T): T[] {
    const items: T[] = [];
    while (!this.#is(close)) {
      if (items.length > 0) this.#expect(',');
      if (this.#is(close)) break;
      items.push(item());
    }
    this.#expect(close);
    return items;
  }

  #postfix(of: Expression): Expression {
    let node = of;
    for (let times = 0; ; times++) {
      this.#chained(times);
      if (this.#skip('.')) {
        const token = this.#next();
        if (token.type === 'name') node = { type: 'attribute', node, name: token.text };
        else if (token.type === 'number' && token.float !== true)
          node = { type: 'item', node, argument: { type: 'const', value: token.value ?? 0 } };
        else this.#fail('expected name or number');
      } else if (this.#skip('[')) node = { type: 'item', node, argument: this.#subscript() };
      else if (this.#is('(')) node = { type: 'call', node, args: this.#arguments() };
      else return node;
    }
  }

  #subscript(): Expression {
    const args: Expression[] = [];
    while (!this.#is(']')) {
      if (args.length > 0) this.#expect(',');
      args.push(this.#subscribed());
    }
    this.#expect(']');
    const [first] = args;
    return first !== undefined && args.length === 1 ? first : { type: 'tuple', items: args };
  }

  #subscribed(): Expression {
    const start = this.#is(':') ? undefined : this.#expression();
    if (start !== undefined && !this.#is(':')) return start;
    this.#expect(':');
    const part = (): Expression | undefined =>
      this.#is(':') || this.#is(']') || this.#is(',') ? undefined : this.#expression();
    const stop = part();
    const step = this.#skip(':') ? part() : undefined;
    return { type: 'slice', parts: [start, stop, step] };
  }

  #arguments(): Arguments {
    this.#expect('(');
    const positional: Expression[] = [];
    const named: [string, Expression][] = [];
    let list: Expression | undefined;
    let dict: Expression | undefined;
    const wrong = (): never => this.#fail('invalid syntax for function call expression');
    for (let first = true; !this.#is(')'); first = false) {
      if (!first) {
        this.#expect(',');
        if (this.#is(')')) break;
      }
      const after = this.#tokens[this.#at + 1];
      if (this.#skip('*')) {
        if (list !== undefined || dict !== undefined) wrong();
        list = this.#expression();
      } else if (this.#skip('**')) {
        if (dict !== undefined) wrong();
        dict = this.#expression();
      } else if (this.#current.type === 'name' && after?.type === 'operator' && after.text === '=') {
        if (dict !== undefined) wrong();
        const { text } = this.#next();
        if (named.some(([name]) => name === text)) this.#fail(`found the argument '${text}' twice`);
        this.#at++;
        named.push([text, this.#expression()]);
      } else {
        if (list !== undefined || dict !== undefined || named.length > 0) wrong();
        positional.push(this.#expression());
      }
    }
    this.#expect(')');
    return { positional, named, list, dict };
  }

  #filters(of: Expression): Expression {
    let node = of;
    for (let times = 0; ; times++) {
      this.#chained(times);
      if (this.#is('|')) node = this.#filter(node, false);
      else if (this.#isWord('is')) node = this.#test(node);
      else if (this.#is('(')) node = { type: 'call', node, args: this.#arguments() };
      else return node;
    }
  }

  #dotted(): string {
    let name = this.#name();
    while (this.#skip('.')) name += `.${this.#name()}`;
    return name;
  }

  /** @param begins without a bar, as a block of a filter does */
  #filter(of: Expression | undefined, begins: boolean): Expression {
    let node = of;
    for (let bare = begins, times = 0; bare || this.#is('|'); bare = false, times++) {
      this.#chained(times);
      if (!bare) this.#at++;
      const name = this.#dotted();
      node = { type: 'filter', node, name, args: this.#is('(') ? this.#arguments() : NO_ARGUMENTS };
    }
    return node ?? this.#unexpected('a filter');
  }

  #test(node: Expression): Expression {
    this.#at++;
    const negated = this.#skip('not', 'name');
    const name = this.#dotted();
    let args = NO_ARGUMENTS;
    if (this.#is('(')) args = this.#arguments();
    else if (this.#beginsArgument()) {
      if (this.#isWord('is')) this.#fail('You cannot chain multiple tests with is');
      args = { ...NO_ARGUMENTS, positional: [this.#postfix(this.#primary())] };
    }
    const test: Expression = { type: 'test', node, name, args };
    return negated ? { type: 'unary', operator: 'not', node: test } : test;
  }

  #beginsArgument(): boolean {
    const { type, text } = this.#current;
    if (type === 'name') return text !== 'else' && text !== 'or' && text !== 'and';
    return type === 'string' || type === 'number' || (type === 'operator' && '([{'.includes(text));
  }
}

const END: Token = { type: 'end', text: '', line: 0 };
