import type { SchemaElement, SchemaTree } from 'hyparquet';
import { PARQUET_LIMITS } from '../../../model/files/limits.js';

/** Where values are: a node of the schema without children. */
export interface Leaf {
  /** Its place among all leaves, which is that of its chunk in each row group. */
  readonly index: number;
  /** From the root to it. */
  readonly path: SchemaTree[];
  readonly element: SchemaElement;
  /** How many of the nodes above it, and itself, may be absent; and how many of them repeat. */
  readonly definition: number;
  readonly repetition: number;
  /** A column of its own, with one value a row. */
  readonly flat: boolean;
}

/** A column as users see it: one leaf, or a structure, list or map of several. */
export interface Column {
  readonly name: string;
  readonly tree: SchemaTree;
  readonly leaves: readonly Leaf[];
}

/** @throws Error for a schema that does not fit together, or exceeds a limit */
export function checkSchema(schema: readonly SchemaElement[]): void {
  const most = PARQUET_LIMITS.schemaElements;
  if (schema.length > most) throw new Error(`its schema has ${schema.length} elements, expected at most ${most}`);
  /** The count of children to come, of each node that is open. */
  const open: number[] = [];
  for (const [at, { name, type, type_length: length, num_children: children = 0 }] of schema.entries()) {
    if (typeof name !== 'string') throw new Error(`element ${at} of its schema has no name`);
    if (!Number.isInteger(children) || children < 0 || children > schema.length) {
      throw new Error(`${name}: its schema says ${children} children, of ${schema.length} elements`);
    }
    if (at > 0 && children === 0 && type === undefined) throw new Error(`${name}: its schema says no type`);
    if (
      type === 'FIXED_LEN_BYTE_ARRAY' &&
      !(Number.isInteger(length) && Number(length) > 0 && Number(length) <= PARQUET_LIMITS.fixedBytes)
    ) {
      throw new Error(`${name}: its schema says values of ${length} bytes, expected 1 to ${PARQUET_LIMITS.fixedBytes}`);
    }
    while (at > 0 && open.at(-1) === 0) open.pop();
    if (at > 0) {
      const left = open.pop();
      if (left === undefined) throw new Error(`${name}: its schema has more elements than children`);
      open.push(left - 1);
    }
    open.push(children);
    if (open.length > PARQUET_LIMITS.depth)
      throw new Error(`${name}: its schema is more than ${PARQUET_LIMITS.depth} columns deep`);
  }
  if (open.some((left) => left > 0) || schema.length < 2)
    throw new Error(`its schema has ${schema.length} elements, expected more`);
}

/** The columns of a schema that was checked. */
export function columnsOf(root: SchemaTree): readonly Column[] {
  let index = 0;
  const leavesOf = (path: readonly SchemaTree[], node: SchemaTree): readonly Leaf[] => {
    const whole = [...path, node];
    if (node.children.length > 0) return node.children.flatMap((child) => leavesOf(whole, child));
    const below = whole.slice(1).map(({ element }) => element.repetition_type);
    const repetition = below.filter((type) => type === 'REPEATED').length;
    return [
      {
        index: index++,
        path: whole,
        element: node.element,
        repetition,
        definition: below.filter((type) => type !== 'REQUIRED').length,
        flat: whole.length === 2 && repetition === 0,
      },
    ];
  };
  return root.children.map((tree) => ({ name: tree.element.name, tree, leaves: leavesOf([root], tree) }));
}

/** Names a leaf, with what it is a part of. */
export function nameOf({ path }: Leaf): string {
  return path
    .slice(1)
    .map(({ element }) => element.name)
    .join('.');
}
