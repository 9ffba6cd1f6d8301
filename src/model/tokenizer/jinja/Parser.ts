import { CONSTANTS, ExpressionParser } from './ExpressionParser.js';
import type { Body, Expression, Signature, Statement, Target } from './nodes.js';

/** Parses a template as jinja2's parser does, with the extensions that transformers adds. */
export class Parser extends ExpressionParser {
  /** Loops that `break` would end, and those whose variable `loop` nothing may set. */
  private loops = 0;
  private around = 0;

  parse(): Body {
    return this.body([]);
  }

  /** Statements up to a tag that ends them, whose name is the current token then. */
  private body(ends: readonly string[]): Statement[] {
    const body: Statement[] = [];
    for (;;) {
      const token = this.next();
      switch (token.type) {
        case 'data':
          body.push({ type: 'text', text: token.text });
          break;
        case 'variable_begin':
          body.push({ type: 'output', node: this.tuple() });
          if (this.current.type !== 'variable_end') this.unexpected("'}}'");
          this.at++;
          break;
        case 'block_begin':
          if (this.current.type === 'name' && ends.includes(this.current.text)) return body;
          body.push(...this.inside(() => this.statement()));
          this.blockEnd();
          break;
        case 'end':
          this.at--;
          if (ends.length > 0) this.unexpected(ends.map((end) => `{% ${end} %}`).join(' or '));
          return body;
        default:
          this.fail(`found '${token.text}' outside of a tag`);
      }
    }
  }

  private blockEnd(): void {
    if (this.current.type !== 'block_end') this.unexpected("'%}'");
    this.at++;
  }

  /** The rest of a tag, then statements up to one of the ends. */
  private statements(ends: readonly string[]): Body {
    this.skip(':');
    this.blockEnd();
    return this.body(ends);
  }

  private statementsUntil(end: string): Body {
    const body = this.statements([end]);
    this.at++;
    return body;
  }

  private statement(): Statement[] {
    if (this.current.type !== 'name') this.unexpected('the name of a tag');
    const { text: tag } = this.next();
    switch (tag) {
      case 'for':
        return [this.for()];
      case 'if':
        return [this.if()];
      case 'set':
        return [this.set()];
      case 'with':
        return [this.with()];
      case 'macro': {
        const name = this.name();
        return [{ type: 'macro', name, signature: this.signature(), body: this.function('endmacro') }];
      }
      case 'call': {
        const signature = this.is('(') ? this.signature() : { parameters: [], defaults: [] };
        const call = this.expression();
        if (call.type !== 'call') this.fail('expected a call');
        return [{ type: 'call', call, signature, body: this.function('endcall') }];
      }
      case 'generation':
        return [{ type: 'generation', body: this.function('endgeneration') }];
      case 'filter': {
        const filter = this.filter(undefined, true);
        return [{ type: 'filterBlock', filter, body: this.statementsUntil('endfilter') }];
      }
      case 'print':
        return this.print();
      case 'autoescape':
        return [this.autoescape()];
      case 'break':
      case 'continue':
        if (this.loops === 0) this.fail(`found '${tag}' outside of a loop`);
        return [{ type: tag }];
      case 'block':
      case 'extends':
      case 'include':
      case 'import':
      case 'from':
        return [this.refused(tag)];
      default:
        this.at--;
        return this.fail(`found the unknown tag '${tag}'`);
    }
  }

  /** The body of what is a function of its own: a loop round it is none of its. */
  private function(end: string): Body {
    const loops = this.loops;
    this.loops = 0;
    const body = this.statementsUntil(end);
    this.loops = loops;
    return body;
  }

  /** Tags that need other templates, which there are none of. */
  private refused(tag: string): Statement {
    while (this.current.type !== 'block_end') {
      if (this.current.type === 'end') this.unexpected("'%}'");
      this.at++;
    }
    if (tag === 'block') {
      this.function('endblock');
      this.skipName();
    }
    return { type: 'refused', name: `{% ${tag} %}` };
  }

  private print(): Statement[] {
    const nodes: Statement[] = [];
    while (this.current.type !== 'block_end') {
      if (nodes.length > 0) this.expect(',');
      nodes.push({ type: 'output', node: this.expression() });
    }
    return nodes;
  }

  private autoescape(): Statement {
    const option = this.expression();
    const body = this.statementsUntil('endautoescape');
    return option.type === 'const' && (option.value === false || option.value === null)
      ? { type: 'scope', body }
      : { type: 'refused', name: '{% autoescape %}' };
  }

  private set(): Statement {
    const target = this.target(true);
    if (this.skip('=')) return { type: 'set', target, node: this.tuple() };
    const filter = this.is('|') ? this.filter(undefined, false) : undefined;
    return { type: 'setBlock', target, filter, body: this.statementsUntil('endset') };
  }

  private for(): Statement {
    this.around++;
    const target = this.target(false, 'in');
    this.expect('in', 'name');
    const iterable = this.tuple(false, 'recursive');
    const test = this.skip('if', 'name') ? this.expression() : undefined;
    const recursive = this.skip('recursive', 'name');
    this.loops++;
    const body = this.statements(['endfor', 'else']);
    this.loops--;
    // What breaks inside a recursive loop's other branch has no loop round it.
    const outer = this.loops;
    if (recursive) this.loops = 0;
    const otherwise = this.next().text === 'endfor' ? [] : this.statementsUntil('endfor');
    this.loops = outer;
    this.around--;
    return { type: 'for', target, iterable, test, recursive, body, otherwise };
  }

  private if(): Statement {
    const test = this.tuple(false);
    const body = this.statements(['elif', 'else', 'endif']);
    const { text } = this.next();
    if (text === 'elif') return { type: 'if', test, body, otherwise: [this.inside(() => this.if())] };
    return { type: 'if', test, body, otherwise: text === 'else' ? this.statementsUntil('endif') : [] };
  }

  private with(): Statement {
    const targets: Target[] = [];
    const values: Expression[] = [];
    while (this.current.type !== 'block_end') {
      if (targets.length > 0) this.expect(',');
      const around = this.around;
      this.around = 0;
      targets.push(this.target(false));
      this.around = around;
      this.expect('=');
      values.push(this.expression());
    }
    return { type: 'with', targets, values, body: this.statementsUntil('endwith') };
  }

  private signature(): Signature {
    const parameters: string[] = [];
    const defaults: Expression[] = [];
    this.expect('(');
    while (!this.is(')')) {
      if (parameters.length > 0) this.expect(',');
      const name = this.assignable(this.name());
      if (parameters.includes(name)) this.fail(`found the parameter '${name}' twice`);
      parameters.push(name);
      if (this.skip('=')) defaults.push(this.expression());
      else if (defaults.length > 0) this.fail('non-default argument follows default argument');
    }
    this.expect(')');
    return { parameters, defaults };
  }

  private assignable(name: string): string {
    if (CONSTANTS.has(name)) this.fail(`can't assign to '${name}'`);
    return name;
  }

  private target(members: boolean, end?: string): Target {
    const items: Target[] = [];
    let isTuple = false;
    for (;;) {
      if (items.length > 0) this.expect(',');
      if (this.isTupleEnd(end)) break;
      items.push(this.oneTarget(members));
      if (!this.is(',')) break;
      isTuple = true;
    }
    const [first] = items;
    if (first === undefined) this.unexpected('a name');
    return isTuple ? { type: 'tuple', items } : first;
  }

  private oneTarget(members: boolean): Target {
    if (this.skip('(')) {
      const target = this.inside(() => this.target(false));
      this.expect(')');
      return target;
    }
    const name = this.assignable(this.name());
    if (name === 'loop' && this.around > 0 && !(members && this.is('.')))
      this.fail("can't assign to the special variable 'loop'");
    if (!members || !this.skip('.')) return { type: 'name', name };
    return { type: 'member', name, member: this.name() };
  }
}
