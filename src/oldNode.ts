const LEAST = { old: [20, 19], others: [22, 13] } as const;

/** Says in one line what is wrong with a version of Node; undefined for one that Spillway runs on. */
export function oldNode(version: string): string | undefined {
  const [major = 0, minor = 0] = version.split('.').map(Number);
  const fine =
    major === LEAST.old[0]
      ? minor >= LEAST.old[1]
      : major > LEAST.others[0] || (major === LEAST.others[0] && minor >= LEAST.others[1]);
  return fine ? undefined : `found Node ${version}, expected 20.19 or later of 20, or 22.13 or later`;
}
