/** The lines of a message, without blanks around them and without those that have nothing else; goes through it once. */
export function linesOf(message: string): readonly string[] {
  return message
    .split('\n')
    .map((line) => line.trim())
    .filter((line) => line !== '');
}
