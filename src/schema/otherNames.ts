import type { Work } from '../collections/drained.js';
import { type Goal, same } from './Alternative.js';
import type { Node, NodeMaker, ObjectKind, OtherNames } from './Node.js';

/**
 * The names that are written besides listed ones. Patterns that no value has are left out, unless they say what others
 * are not called. The grammar's engine makes one schema of what a listed name and a pattern that it matches say: that
 * must be so in the schema, too, and it does not end where their values lie in one another. Else such names are written
 * as all others, with values of any of these.
 */
export function* otherNames({ properties, more: { of } }: ObjectKind, nodes: NodeMaker): Work<readonly OtherNames[]> {
  const written = of.some(({ pattern, node }) => pattern === undefined && node.possible)
    ? of
    : of.filter(({ node }) => node.possible);
  const isKept = function* ({ pattern, node }: OtherNames): Work<boolean> {
    if (pattern === undefined) return true;
    for (const { name, node: own } of properties) {
      if (own?.possible !== true || !(yield* nodes.values.matches(pattern, name))) continue;
      if (!node.kinds.every(({ kind }) => kind === 'values') || !saysAllOf(own, node)) return false;
    }
    return true;
  };
  let kept = true;
  for (const names of written) kept &&= yield* isKept(names);
  if (kept) return written;
  nodes.leave(written.find(({ keyword }) => keyword)?.keyword ?? 'patternProperties');
  return written.map(({ node }) => ({ node }));
}

/** Tells whether whatever holds for values of the other node holds for those of this one. */
function saysAllOf({ goals }: Node, other: Node): boolean {
  return other.goals.every((goal) => goals.some((own) => meansTheSame(own, goal)));
}

function meansTheSame({ schema: a, holds }: Goal, { schema: b, holds: expected }: Goal): boolean {
  return holds === expected && (a.id === b.id || (a.base === b.base && same(a.schema, b.schema)));
}
