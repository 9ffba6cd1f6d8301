/**
 * How often something random is tried: a few times for each change, many times at night, where
 * `scripts/nightly/tests.mjs` sets SPILLWAY_TRIES.
 */
export function tries(few: number, many: number): number {
  return process.env['SPILLWAY_TRIES'] === 'many' ? many : few;
}
