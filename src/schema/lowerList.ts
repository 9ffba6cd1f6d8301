import type { ListRule } from './Alternative.js';
import type { ListKind, NodeMaker } from './Node.js';

/** Every item's node, of all that is said of it. */
export function listOf({ minItems, maxItems, layers }: ListRule, nodes: NodeMaker): readonly ListKind[] {
  if (minItems > (maxItems ?? Infinity)) return [];
  const length = Math.min(maxItems ?? Infinity, Math.max(0, ...layers.map(({ prefix }) => prefix.length)));
  return [
    {
      kind: 'list',
      minItems,
      ...(maxItems !== undefined && { maxItems }),
      prefix: Array.from({ length }, (_, at) =>
        nodes.of(layers.map(({ prefix, rest }) => (at < prefix.length ? prefix[at] : rest))),
      ),
      rest: nodes.of(layers.map(({ rest }) => rest)),
    },
  ];
}
