/** Writes a value as JSON whose members stand in the order of their names, so that it is equal where values are. */
export function sortedJson(value: unknown): string {
  const byName = (_: string, member: unknown): unknown =>
    typeof member === 'object' && member !== null && !Array.isArray(member) && !(member instanceof Number)
      ? Object.fromEntries(Object.entries(member).sort(([a], [b]) => (a < b ? -1 : 1)))
      : typeof member === 'bigint'
        ? String(member)
        : member;
  return JSON.stringify(value, byName) ?? '';
}
