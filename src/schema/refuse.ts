import type { NodeMaker } from './Node.js';
import { UnsupportedSchema } from './SchemaDocument.js';

/** Refuses a schema where it first has a keyword. */
export function refuse(nodes: NodeMaker, keyword: string, problem: string): never {
  const place = nodes.expander.document.all.find(
    ({ schema }) => typeof schema === 'object' && schema[keyword] !== undefined,
  );
  throw new UnsupportedSchema(`${place?.pointer ?? ''}/${keyword}`, keyword, problem);
}
