/** The numbers that a message says it expected. Throws where it says none. */
export function statedRange(message: string): {
  readonly holds: (value: number) => boolean;
  readonly least: number;
  readonly most: number;
} {
  const match =
    /a (finite |whole )?number (?:from (\S+?) to (\S+?)|above (\S+?)(?: and at most (\S+?))?|of at least (\S+?)|of at most (\S+?))(?=[.,;]?(?:$|\s))/.exec(
      message,
    );
  if (!match) throw new Error(`no range in: ${message}`);
  const [, kind = '', from, to, above, most, atLeast, atMost] = match;
  const range = {
    least: Number(from ?? above ?? atLeast ?? -Infinity),
    most: Number(to ?? most ?? atMost ?? Infinity),
  };
  return {
    ...range,
    holds: (value) => {
      const right =
        kind === 'whole '
          ? Number.isSafeInteger(value)
          : kind === 'finite '
            ? Number.isFinite(value)
            : !Number.isNaN(value);
      return right && (above === undefined ? value >= range.least : value > range.least) && value <= range.most;
    },
  };
}
