import { PythonError } from './errors.js';
import { Lexer, type Token } from './lexer.js';
import type { Arguments, BinaryOperator, CompareOperator, Expression } from './nodes.js';

/** Brackets and blocks inside each other; Python's own parser gives up sooner. */
const MOST_NESTED = 100;
/** Operators after each other, which are inside each other once they are parsed. */
const MOST_CHAINED = 1000;

const NO_ARGUMENTS: Arguments = { positional: [], named: [], list: undefined, dict: undefined };
const COMPARING: ReadonlySet<string> = new Set(['==', '!=', '<', '<=', '>', '>=']);
export const CONSTANTS: ReadonlyMap<string, boolean | null> = new Map([
  ['true', true],
  ['True', true],
  ['false', false],
  ['False', false],
  ['none', null],
  ['None', null],
]);

/** Parses expressions as jinja2's parser does. */
export class ExpressionParser {
  protected readonly tokens: readonly Token[];
  protected at = 0;
  protected nested = 0;

  constructor(source: string) {
    this.tokens = new Lexer(source).tokens();
  }

  protected get current(): Token {
    return this.tokens[this.at] ?? END;
  }

  protected next(): Token {
    const token = this.current;
    this.at++;
    return token;
  }

  protected fail(message: string): never {
    throw new PythonError('TemplateSyntaxError', `line ${this.current.line}: ${message}`);
  }

  protected unexpected(expected: string): never {
    const { type, text } = this.current;
    const found = type === 'end' ? 'the end of the template' : text === '' ? type.replace('_', ' ') : `'${text}'`;
    this.fail(`found ${found}, expected ${expected}`);
  }

  protected skipName(): void {
    if (this.current.type === 'name') this.at++;
  }

  protected is(text: string, type: Token['type'] = 'operator'): boolean {
    return this.current.text === text && this.current.type === type;
  }

  protected isWord(word: string): boolean {
    return this.is(word, 'name');
  }

  protected skip(text: string, type: Token['type'] = 'operator'): boolean {
    if (!this.is(text, type)) return false;
    this.at++;
    return true;
  }

  protected expect(text: string, type: Token['type'] = 'operator'): void {
    if (!this.skip(text, type)) this.unexpected(`'${text}'`);
  }

  protected name(): string {
    if (this.current.type !== 'name') this.unexpected('a name');
    return this.next().text;
  }

  protected inside<T>(work: () => T): T {
    if (++this.nested > MOST_NESTED) this.fail(`found more than ${MOST_NESTED} levels inside each other`);
    const result = work();
    this.nested--;
    return result;
  }

  protected isTupleEnd(end?: string): boolean {
    const { type } = this.current;
    if (type === 'variable_end' || type === 'block_end' || this.is(')')) return true;
    return end !== undefined && this.isWord(end);
  }

  /** An expression, or several with commas between them. */
  protected tuple(conditional = true, end?: string, parentheses = false): Expression {
    const items: Expression[] = [];
    let isTuple = false;
    for (;;) {
      if (items.length > 0) this.expect(',');
      if (this.isTupleEnd(end)) break;
      items.push(this.expression(conditional));
      if (!this.is(',')) break;
      isTuple = true;
    }
    const [first] = items;
    if (!isTuple) {
      if (first !== undefined) return first;
      if (!parentheses) this.unexpected('an expression');
    }
    return { type: 'tuple', items };
  }

  protected expression(conditional = true): Expression {
    return this.inside(() => (conditional ? this.conditional() : this.or()));
  }

  protected conditional(): Expression {
    let node = this.or();
    for (let times = 0; this.skip('if', 'name'); times++) {
      this.chained(times);
      const test = this.or();
      const otherwise = this.skip('else', 'name') ? this.inside(() => this.conditional()) : undefined;
      node = { type: 'conditional', test, then: node, otherwise };
    }
    return node;
  }

  protected chained(times: number): void {
    if (times > MOST_CHAINED) this.fail(`found more than ${MOST_CHAINED} operators after each other`);
  }

  protected or(): Expression {
    let left = this.and();
    for (let times = 0; this.skip('or', 'name'); times++) {
      this.chained(times);
      left = { type: 'or', left, right: this.and() };
    }
    return left;
  }

  protected and(): Expression {
    let left = this.not();
    for (let times = 0; this.skip('and', 'name'); times++) {
      this.chained(times);
      left = { type: 'and', left, right: this.not() };
    }
    return left;
  }

  protected not(): Expression {
    if (this.skip('not', 'name')) return { type: 'unary', operator: 'not', node: this.inside(() => this.not()) };
    return this.compare();
  }

  protected compare(): Expression {
    const node = this.sum();
    const rest: [CompareOperator, Expression][] = [];
    for (;;) {
      const operator = this.compareOperator();
      if (operator === undefined) break;
      rest.push([operator, this.sum()]);
    }
    return rest.length === 0 ? node : { type: 'compare', node, rest };
  }

  protected compareOperator(): CompareOperator | undefined {
    const { type, text } = this.current;
    if (type === 'operator' && COMPARING.has(text)) {
      this.at++;
      return text as CompareOperator;
    }
    if (this.skip('in', 'name')) return 'in';
    const after = this.tokens[this.at + 1];
    if (!this.isWord('not') || after?.type !== 'name' || after.text !== 'in') return undefined;
    this.at += 2;
    return 'not in';
  }

  protected binary(operators: readonly BinaryOperator[], operand: () => Expression): Expression {
    let left = operand();
    for (let times = 0; ; times++) {
      this.chained(times);
      const operator = this.current.type === 'operator' && operators.find((each) => each === this.current.text);
      if (!operator) return left;
      this.at++;
      left = { type: 'binary', operator, left, right: operand() };
    }
  }

  protected sum(): Expression {
    return this.binary(['+', '-'], () => this.concat());
  }

  protected concat(): Expression {
    const first = this.product();
    if (!this.is('~')) return first;
    const nodes = [first];
    while (this.skip('~')) nodes.push(this.product());
    return { type: 'concat', nodes };
  }

  protected product(): Expression {
    return this.binary(['*', '/', '//', '%'], () => this.binary(['**'], () => this.unary(true)));
  }

  protected unary(filters: boolean): Expression {
    let node: Expression;
    if (this.is('-') || this.is('+')) {
      const operator = this.next().text === '-' ? '-' : '+';
      node = { type: 'unary', operator, node: this.inside(() => this.unary(false)) };
    } else node = this.primary();
    node = this.postfix(node);
    return filters ? this.filters(node) : node;
  }

  protected primary(): Expression {
    const token = this.next();
    switch (token.type) {
      case 'name': {
        const constant = CONSTANTS.get(token.text);
        return constant === undefined ? { type: 'name', name: token.text } : { type: 'const', value: constant };
      }
      case 'string': {
        let { text } = token;
        while (this.current.type === 'string') text += this.next().text;
        return { type: 'const', value: text };
      }
      case 'number':
        return { type: 'const', value: token.value ?? 0, float: token.float === true };
      case 'operator':
        if (token.text === '(') {
          const node = this.inside(() => this.tuple(true, undefined, true));
          this.expect(')');
          return node;
        }
        if (token.text === '[') return { type: 'list', items: this.list(']', () => this.expression()) };
        if (token.text === '{') {
          const pair = (): [Expression, Expression] => {
            const key = this.expression();
            this.expect(':');
            return [key, this.expression()];
          };
          return { type: 'dict', items: this.list('}', pair) };
        }
        break;
      default:
    }
    this.at--;
    return this.unexpected('an expression');
  }

  protected list<T>(close: string, item: () => T): T[] {
    const items: T[] = [];
    while (!this.is(close)) {
      if (items.length > 0) this.expect(',');
      if (this.is(close)) break;
      items.push(item());
    }
    this.expect(close);
    return items;
  }

  protected postfix(of: Expression): Expression {
    let node = of;
    for (let times = 0; ; times++) {
      this.chained(times);
      if (this.skip('.')) {
        const token = this.next();
        if (token.type === 'name') node = { type: 'attribute', node, name: token.text };
        else if (token.type === 'number' && token.float !== true)
          node = { type: 'item', node, argument: { type: 'const', value: token.value ?? 0 } };
        else this.fail('expected name or number');
      } else if (this.skip('[')) node = { type: 'item', node, argument: this.subscript() };
      else if (this.is('(')) node = { type: 'call', node, args: this.arguments() };
      else return node;
    }
  }

  protected subscript(): Expression {
    const args: Expression[] = [];
    while (!this.is(']')) {
      if (args.length > 0) this.expect(',');
      args.push(this.subscribed());
    }
    this.expect(']');
    const [first] = args;
    return first !== undefined && args.length === 1 ? first : { type: 'tuple', items: args };
  }

  protected subscribed(): Expression {
    const start = this.is(':') ? undefined : this.expression();
    if (start !== undefined && !this.is(':')) return start;
    this.expect(':');
    const part = (): Expression | undefined =>
      this.is(':') || this.is(']') || this.is(',') ? undefined : this.expression();
    const stop = part();
    const step = this.skip(':') ? part() : undefined;
    return { type: 'slice', parts: [start, stop, step] };
  }

  protected arguments(): Arguments {
    this.expect('(');
    const positional: Expression[] = [];
    const named: [string, Expression][] = [];
    let list: Expression | undefined;
    let dict: Expression | undefined;
    const wrong = (): never => this.fail('invalid syntax for function call expression');
    for (let first = true; !this.is(')'); first = false) {
      if (!first) {
        this.expect(',');
        if (this.is(')')) break;
      }
      const after = this.tokens[this.at + 1];
      if (this.skip('*')) {
        if (list !== undefined || dict !== undefined) wrong();
        list = this.expression();
      } else if (this.skip('**')) {
        if (dict !== undefined) wrong();
        dict = this.expression();
      } else if (this.current.type === 'name' && after?.type === 'operator' && after.text === '=') {
        if (dict !== undefined) wrong();
        const { text } = this.next();
        if (named.some(([name]) => name === text)) this.fail(`found the argument '${text}' twice`);
        this.at++;
        named.push([text, this.expression()]);
      } else {
        if (list !== undefined || dict !== undefined || named.length > 0) wrong();
        positional.push(this.expression());
      }
    }
    this.expect(')');
    return { positional, named, list, dict };
  }

  protected filters(of: Expression): Expression {
    let node = of;
    for (let times = 0; ; times++) {
      this.chained(times);
      if (this.is('|')) node = this.filter(node, false);
      else if (this.isWord('is')) node = this.test(node);
      else if (this.is('(')) node = { type: 'call', node, args: this.arguments() };
      else return node;
    }
  }

  protected dotted(): string {
    let name = this.name();
    while (this.skip('.')) name += `.${this.name()}`;
    return name;
  }

  /** @param begins without a bar, as a block of a filter does */
  protected filter(of: Expression | undefined, begins: boolean): Expression {
    let node = of;
    for (let bare = begins, times = 0; bare || this.is('|'); bare = false, times++) {
      this.chained(times);
      if (!bare) this.at++;
      const name = this.dotted();
      node = { type: 'filter', node, name, args: this.is('(') ? this.arguments() : NO_ARGUMENTS };
    }
    return node ?? this.unexpected('a filter');
  }

  protected test(node: Expression): Expression {
    this.at++;
    const negated = this.skip('not', 'name');
    const name = this.dotted();
    let args = NO_ARGUMENTS;
    if (this.is('(')) args = this.arguments();
    else if (this.beginsArgument()) {
      if (this.isWord('is')) this.fail('You cannot chain multiple tests with is');
      args = { ...NO_ARGUMENTS, positional: [this.postfix(this.primary())] };
    }
    const test: Expression = { type: 'test', node, name, args };
    return negated ? { type: 'unary', operator: 'not', node: test } : test;
  }

  protected beginsArgument(): boolean {
    const { type, text } = this.current;
    if (type === 'name') return text !== 'else' && text !== 'or' && text !== 'and';
    return type === 'string' || type === 'number' || (type === 'operator' && '([{'.includes(text));
  }
}

const END: Token = { type: 'end', text: '', line: 0 };
