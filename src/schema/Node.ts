import type { Goal, Place, Ways } from './Alternative.js';
import type { JsonObject } from './keywords.js';
import type { Values } from './Values.js';

export interface ListKind {
  readonly kind: 'list';
  readonly prefix: readonly Node[];
  readonly rest: Node;
  readonly minItems: number;
  readonly maxItems?: number;
  /** No two items are alike. */
  readonly unique: boolean;
}

/** Names that a schema does not list: those of a pattern, or all that no pattern matches. */
export interface OtherNames {
  readonly pattern?: string;
  readonly node: Node;
  /** The keyword that says it, where that is not `patternProperties`. */
  readonly keyword?: 'propertyNames';
}

export interface ObjectKind {
  readonly kind: 'object';
  /** In the order in which they are written. `node` undefined: it is not there. */
  readonly properties: readonly {
    readonly name: string;
    readonly node: Node | undefined;
    readonly required: boolean;
  }[];
  /** Properties of other names: so many, of the first pattern that matches, or of none. */
  readonly more: {
    readonly min: number;
    readonly max?: number;
    readonly of: readonly OtherNames[];
  };
}

/** One kind of value. */
export type Kind = { readonly kind: 'values'; readonly schema: JsonObject } | ListKind | ObjectKind;

/** The values that one place may hold. */
export interface Node {
  readonly number: number;
  /** All of which hold. */
  readonly goals: readonly Goal[];
  kinds: readonly Kind[];
  /** True where there is a value that comes to an end. */
  possible: boolean;
}

/** Bounds that end answers where their schema does not. */
export interface AnswerBounds {
  /** Characters of a string without `maxLength`. */
  readonly stringLength: number;
  /** Items of a list without `maxItems`, and properties of names that are not listed without `maxProperties`. */
  readonly items: number;
}

/** Further bounds that masks are asked for. */
export interface MaskBounds extends AnswerBounds {
  /** True where strings have several patterns, or a pattern and lengths, at once. */
  readonly combined: boolean;
}

/** Who makes nodes of goals. */
export interface NodeMaker {
  readonly expander: Ways;
  readonly values: Values;
  readonly bounds: MaskBounds;
  of(goals: readonly (Goal | undefined)[]): Node;
  /** The node of values of any of these. */
  either(some: readonly Node[]): Node;
  /** Leaves what a keyword of these schemas says to the look at the whole value. */
  leave(keyword: Place['keyword']): void;
}
