import { found } from '../arguments/found.js';
import { type Goal, same } from './Alternative.js';
import type { Node, NodeMaker, ObjectKind, OtherNames } from './Node.js';
import { refuse } from './refuse.js';

/**
 * The names that are written besides listed ones: patterns that no value has are left out, unless they say what others
 * are not called.
 */
export function writtenOthers({ of }: ObjectKind['more']): readonly OtherNames[] {
  return of.some(({ pattern, node }) => pattern === undefined && node.possible)
    ? of
    : of.filter(({ node }) => node.possible);
}

/**
 * Refuses what the grammar's engine would make something else of. A listed name that a pattern matches is both at once
 * to it: it must be so in the schema, too, and the engine does not end where their values lie in one another.
 */
export function checkNames({ properties, more }: ObjectKind, nodes: NodeMaker): void {
  // A name may be written twice, and counts once then.
  if (more.min > 1)
    refuse(
      nodes,
      'minProperties',
      `found ${more.min} more than the properties that must be there, expected at most one more where other names are allowed`,
    );
  for (const { pattern, keyword, node } of writtenOthers(more)) {
    if (pattern === undefined) continue;
    const both = properties.filter(
      ({ name, node: own }) => own?.possible === true && nodes.values.matches(pattern, name),
    );
    const what = keyword === 'propertyNames' ? 'names' : 'a pattern';
    if (both.length > 0 && node.kinds.some(({ kind }) => kind !== 'values'))
      refuse(
        nodes,
        keyword,
        `found ${what} that a listed name matches, with objects or lists as values, expected other names or simple values`,
      );
    const other = both.find(({ node: own }) => own !== undefined && !saysAllOf(own, node));
    if (other !== undefined)
      refuse(
        nodes,
        keyword,
        `found ${what} that ${found(other.name)} matches, with other values, expected names that it does not match, or the same values`,
      );
  }
}

/** Whether whatever holds for values of the other holds for those of this one. */
function saysAllOf({ goals }: Node, other: Node): boolean {
  return other.goals.every((goal) => goals.some((own) => meansTheSame(own, goal)));
}

function meansTheSame({ schema: a, holds }: Goal, { schema: b, holds: expected }: Goal): boolean {
  return holds === expected && (a.id === b.id || (a.base === b.base && same(a.schema, b.schema)));
}
