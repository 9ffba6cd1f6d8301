import type { Alternative, Goal } from './Alternative.js';
import type { Json, JsonObject } from './keywords.js';
import type { SchemaDocument, Subschema } from './SchemaDocument.js';

/** One keyword of a schema. */
export interface Place {
  readonly schema: Subschema;
  readonly keyword: string;
  readonly value: Json;
  /** All keywords of the schema. */
  readonly siblings: JsonObject;
}

/** In which ways values satisfy schemas: what an `Expander` answers to those that it asks itself. */
export interface Ways {
  readonly document: SchemaDocument;
  ways(goal: Goal, annotated?: boolean): readonly Alternative[];
  knownWays(goal: Goal): readonly Alternative[] | undefined;
  together(sets: readonly (readonly Alternative[])[], place: Pick<Place, 'schema' | 'keyword'>): readonly Alternative[];
  goal(schema: Subschema, rest: string, holds?: boolean): Goal;
  limited(ways: readonly Alternative[], place: Pick<Place, 'schema' | 'keyword'>): readonly Alternative[];
  target(place: Place): Subschema;
  /** @throws UnsupportedSchema */
  refuse(place: Pick<Place, 'schema' | 'keyword'>, problem: string, cause?: unknown): never;
}
