import { type Goal, same } from './Alternative.js';
import type { Node, NodeMaker, ObjectKind, OtherNames } from './Node.js';

/**
 * The names that are written besides listed ones. Patterns that no value has are left out, unless they say what others
 * are not called. The grammar's engine makes one schema of what a listed name and a pattern that it matches say: that
 * must be so in the schema, too, and it does not end where their values lie in one another. Else such names are written
 * as all others, with values of any of these.
 */
export function otherNames({ properties, more: { of } }: ObjectKind, nodes: NodeMaker): readonly OtherNames[] {
  const written = of.some(({ pattern, node }) => pattern === undefined && node.possible)
    ? of
    : of.filter(({ node }) => node.possible);
  const isKept = ({ pattern, node }: OtherNames): boolean => {
    const listed = properties.flatMap(({ name, node: own }) =>
      own?.possible === true && pattern !== undefined && nodes.values.matches(pattern, name) ? [own] : [],
    );
    return (
      listed.length === 0 ||
      (node.kinds.every(({ kind }) => kind === 'values') && listed.every((own) => saysAllOf(own, node)))
    );
  };
  if (written.every(isKept)) return written;
  nodes.leave(written.find(({ keyword }) => keyword)?.keyword ?? 'patternProperties');
  return written.map(({ node }) => ({ node }));
}

/** Whether whatever holds for values of the other holds for those of this one. */
function saysAllOf({ goals }: Node, other: Node): boolean {
  return other.goals.every((goal) => goals.some((own) => meansTheSame(own, goal)));
}

function meansTheSame({ schema: a, holds }: Goal, { schema: b, holds: expected }: Goal): boolean {
  return holds === expected && (a.id === b.id || (a.base === b.base && same(a.schema, b.schema)));
}
