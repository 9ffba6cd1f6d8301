const MOST_CHARACTERS = 80;

/** The beginning of a long text, for an error message. */
export function shortened(text: string): string {
  return text.length > MOST_CHARACTERS ? `${text.slice(0, MOST_CHARACTERS)}…` : text;
}
