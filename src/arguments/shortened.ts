const MOST_CHARACTERS = 80;

/** The beginning of a long text, for an error message. */
export function shortened(text: string, most = MOST_CHARACTERS): string {
  return text.length > most ? `${text.slice(0, most)}…` : text;
}
