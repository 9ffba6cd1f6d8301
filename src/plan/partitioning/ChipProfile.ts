import * as z from 'zod';
import { nameSchema } from '../nameSchema.js';
import { parsedFile } from '../parsed.js';

const positive = z.number().positive().max(1e18);
const seconds = z.number().min(0).max(1e6);
const share = positive.max(1);
/** More of them share no model. */
export const MOST_CHIPS = 65_536;
const chips = z.int().min(1).max(MOST_CHIPS);

/** Chips in rows, each linked to its neighbours along every axis (TPU). */
const torusSchema = z.strictObject({
  kind: z.literal('torus'),
  axes: z.union([z.literal(1), z.literal(2), z.literal(3)]),
  /** Bytes that a chip sends a second over all its links. */
  bytesPerSecond: positive,
  /**
   * The ends of an axis are joined where every axis is a multiple of this many chips; else each axis is a line, whose
   * chips at the ends have one link instead of two: it moves half as much.
   */
  wrapsAt: chips,
  /** The seconds that a collective takes for each chip that data has to pass along an axis, beside moving its bytes. */
  stepSeconds: seconds,
  mostChips: chips,
});

/** Each chip reaches each other one at the same speed, or those of its node faster than the others. */
const switchSchema = z.strictObject({
  kind: z.literal('switch'),
  /** Bytes a chip sends a second. */
  bytesPerSecond: positive,
  /** Seconds that a round of a collective takes beside moving its bytes; it has as many as doublings make its chips. */
  stepSeconds: seconds,
  /** Chips beyond these are in other nodes, which a chip reaches at a speed of its own. */
  nodes: z.strictObject({ chips, bytesPerSecond: positive, stepSeconds: seconds }).optional(),
  mostChips: chips,
});

export const chipSchema = z.strictObject({
  format: z.literal('spillway-chip-1'),
  name: nameSchema(200),
  description: z.string().max(4000).default(''),
  /** Peak of products in bfloat16, a multiplication and an addition counted as two. */
  flopsPerSecond: positive,
  memoryBytes: positive,
  memoryBytesPerSecond: positive,
  /** Share of the memory that weights and cache may fill; the rest is for what passes through. */
  usableFraction: share,
  /** The shares of the peaks that products, reading from memory and collectives reach. */
  efficiency: z.strictObject({ products: share, memory: share, network: share }),
  /** By name; the first one is meant where nobody says. */
  interconnects: z
    .record(
      z.string().regex(/^[a-z0-9][a-z0-9-]{0,39}$/, 'expected up to 40 of a-z, 0-9 and -'),
      z.discriminatedUnion('kind', [torusSchema, switchSchema]),
    )
    .refine((links) => Object.keys(links).length > 0, { error: 'expected at least one interconnect' }),
});

/** How chips are linked. */
export type Interconnect = z.output<typeof torusSchema> | z.output<typeof switchSchema>;

/** A chip of which several share a model, and how they are linked: a file of `hardware/*.chip.json`, or one's own. */
export type ChipProfile = z.output<typeof chipSchema>;

/**
 * A chip from JSON that nobody vouches for.
 * @param file for messages
 * @throws PlanFileError naming the field, what was found and what was expected
 */
export function parseChip(value: unknown, file: string): ChipProfile {
  return parsedFile(chipSchema, value, file);
}
