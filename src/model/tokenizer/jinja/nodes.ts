/** An expression of a template, as jinja2 parses it. */
export type Expression =
  | { readonly type: 'const'; readonly value: string | number | bigint | boolean | null; readonly float?: boolean }
  | { readonly type: 'name'; readonly name: string }
  | { readonly type: 'tuple' | 'list'; readonly items: readonly Expression[] }
  | { readonly type: 'dict'; readonly items: readonly (readonly [Expression, Expression])[] }
  | { readonly type: 'attribute'; readonly node: Expression; readonly name: string }
  | { readonly type: 'item'; readonly node: Expression; readonly argument: Expression }
  | { readonly type: 'slice'; readonly parts: readonly (Expression | undefined)[] }
  | { readonly type: 'call'; readonly node: Expression; readonly args: Arguments }
  | { readonly type: 'filter'; readonly node: Expression | undefined; readonly name: string; readonly args: Arguments }
  | { readonly type: 'test'; readonly node: Expression; readonly name: string; readonly args: Arguments }
  | { readonly type: 'unary'; readonly operator: '+' | '-' | 'not'; readonly node: Expression }
  | {
      readonly type: 'binary';
      readonly operator: BinaryOperator;
      readonly left: Expression;
      readonly right: Expression;
    }
  | { readonly type: 'and' | 'or'; readonly left: Expression; readonly right: Expression }
  | { readonly type: 'concat'; readonly nodes: readonly Expression[] }
  | {
      readonly type: 'compare';
      readonly node: Expression;
      readonly rest: readonly (readonly [CompareOperator, Expression])[];
    }
  | {
      readonly type: 'conditional';
      readonly test: Expression;
      readonly then: Expression;
      readonly otherwise: Expression | undefined;
    };

export type BinaryOperator = '+' | '-' | '*' | '/' | '//' | '%' | '**';
export type CompareOperator = '==' | '!=' | '<' | '<=' | '>' | '>=' | 'in' | 'not in';

/** Arguments of a call, a filter or a test. */
export interface Arguments {
  readonly positional: readonly Expression[];
  readonly named: readonly (readonly [string, Expression])[];
  /** The list after `*`, the dict after `**`. */
  readonly list: Expression | undefined;
  readonly dict: Expression | undefined;
}

/** Where a value can be put. */
export type Target =
  | { readonly type: 'name'; readonly name: string }
  | { readonly type: 'member'; readonly name: string; readonly member: string }
  | { readonly type: 'tuple'; readonly items: readonly Target[] };

export interface Signature {
  readonly parameters: readonly string[];
  /** For the last parameters. */
  readonly defaults: readonly Expression[];
}

export type Body = readonly Statement[];

export type Statement =
  | { readonly type: 'text'; readonly text: string }
  | { readonly type: 'output'; readonly node: Expression }
  | {
      readonly type: 'for';
      readonly target: Target;
      readonly iterable: Expression;
      readonly test: Expression | undefined;
      readonly recursive: boolean;
      readonly body: Body;
      readonly otherwise: Body;
    }
  | { readonly type: 'if'; readonly test: Expression; readonly body: Body; readonly otherwise: Body }
  | { readonly type: 'set'; readonly target: Target; readonly node: Expression }
  | { readonly type: 'setBlock'; readonly target: Target; readonly filter: Expression | undefined; readonly body: Body }
  | {
      readonly type: 'with';
      readonly targets: readonly Target[];
      readonly values: readonly Expression[];
      readonly body: Body;
    }
  | { readonly type: 'macro'; readonly name: string; readonly signature: Signature; readonly body: Body }
  | { readonly type: 'call'; readonly call: Expression; readonly signature: Signature; readonly body: Body }
  /** The words of the assistant; transformers can mark them in the text. */
  | { readonly type: 'generation'; readonly body: Body }
  | { readonly type: 'filterBlock'; readonly filter: Expression; readonly body: Body }
  | { readonly type: 'scope'; readonly body: Body }
  | { readonly type: 'break' | 'continue' }
  /** A statement that the reference can do, and we cannot, or that fails there, too: an error when it is come to. */
  | { readonly type: 'refused'; readonly name: string };
