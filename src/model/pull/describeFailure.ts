/** An error and what caused it, on one line: `fetch failed: connect ECONNREFUSED`. Told by its shape, since errors may come from another realm. */
export function describeFailure(error: unknown): string {
  const parts: string[] = [];
  for (let at: unknown = error; at !== undefined && at !== null && parts.length < 4; at = typeof at === 'object' && 'cause' in at ? at.cause : undefined) {
    const text = textOf(at).trim();
    if (text !== '' && !parts.some((part) => part.includes(text))) parts.push(text);
  }
  return (parts.join(': ') || 'unknown error').replace(/\s*\n\s*/g, '; ').slice(0, 600);
}

function textOf(value: unknown): string {
  if (typeof value === 'string') return value;
  if (typeof value === 'object' && value !== null && 'message' in value && typeof value.message === 'string') {
    // An AggregateError (every address refused) has its words in its parts, or only a code.
    const parts = 'errors' in value && Array.isArray(value.errors) ? [...new Set(value.errors.map(textOf))].join(', ') : '';
    return value.message || parts || ('code' in value ? String(value.code) : '');
  }
  return JSON.stringify(value) ?? '';
}
